// Small parts that several pages show.

import { h, icon } from "./dom.js";
import { initials, tint } from "./words.js";

/** A person's round picture. `online` is true, false, or null where it does not matter. */
export function person({ username, name }, { small = false, online = null } = {}) {
  const presence = online === null ? "" : online ? " on" : " idle";
  return h("span", { class: `av a${tint(username)}${small ? " s" : ""}${presence}`, "aria-hidden": "true" }, initials(name));
}

/** An agent's square picture; its tint follows the name, which is all that a saved version keeps. */
export function agentPicture({ name }, { small = false } = {}) {
  return h("span", { class: `av ag a${tint(name)}${small ? " s" : ""}`, "aria-hidden": "true" }, initials(name).slice(0, 1));
}

/** A state with its icon and word. */
export function stateMark({ tone, icon: name, word, spins, late }) {
  return h("span", { class: `state ${tone}${late ? " late" : ""}` }, icon(name, spins ? "spin" : ""), word);
}

/** What went wrong, whether anything changed, what to do, and the id to quote. */
export function problemNote(problem, again) {
  return h("div", { class: "note bad", role: "alert" },
    icon("fail"),
    h("div", { class: "grow" },
      h("b", { class: "b" }, problem.message), h("br"),
      problem.hint || "Nothing was changed.",
      problem.correlation ? h("div", { class: "idline mono" }, problem.correlation) : null,
      again ? h("div", null, h("button", { class: "btn s", type: "button", on: { click: again } }, "Try again")) : null));
}
