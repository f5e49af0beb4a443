// Find Pi's own loader, the same that the runtime was pinned to.

const HOME = "file:///runtime/pi/node_modules/@earendil-works";

/** A folder without anything in it: Pi would otherwise look for settings and resources there. */
export const EMPTY = "/tmp";

export const sdk = () => import(`${HOME}/pi-coding-agent/dist/bundle/index.js`);
export const ai = () => import(`${HOME}/pi-ai/dist/index.js`);
