// What is being written? Text that grows by checked pieces; lengths count code points, not units.

/** Count code points. */
export function codePoints(text) {
  let count = 0;
  for (let place = 0; place < text.length; place += 1) {
    const unit = text.charCodeAt(place);
    if (unit >= 0xd800 && unit <= 0xdbff && place + 1 < text.length) place += 1;
    count += 1;
  }
  return count;
}

/** Begin or replace a stream with what the server says is its whole text. */
export function openStream(known, frame) {
  const { stream, of, run, agent, member } = frame;
  const text = frame.text || "";
  return {
    ...known, stream, of, run, agent, member,
    meta: { ...(known && known.meta), ...frame.meta },
    text, length: codePoints(text), digest: frame.digest || "", broken: false, closed: null,
  };
}

/** Add a piece. A piece that does not fit leaves the text alone and marks the stream broken. */
export function growStream(known, frame) {
  if (known === undefined || known.closed) return known;
  const meta = frame.meta ? { ...known.meta, ...frame.meta } : known.meta;
  if (known.broken) return { ...known, meta };
  const fits = frame.base === known.length && frame.base + codePoints(frame.delta) === frame.length;
  if (!fits) return { ...known, meta, broken: true };
  return { ...known, meta, text: known.text + frame.delta, length: frame.length, digest: frame.digest };
}

/** End a stream; it stays for a moment so that its text does not vanish before what follows it. */
export function closeStream(known, { outcome, artifact, version }) {
  if (known === undefined) return undefined;
  if (outcome === "dropped" && known.of === "say") return undefined;
  return { ...known, closed: outcome, artifact: artifact || null, version: version || null };
}

/** The first 16 hex digits of the text's SHA-256, or null where the browser has no way to tell. */
export async function digestOf(text) {
  if (!globalThis.crypto || !crypto.subtle) return null;
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return [...bytes.slice(0, 8)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
