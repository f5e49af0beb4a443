// What is asked, and how is it answered? Shared by the card in a room and the inbox.
//
// The exact arguments come only from the request's own address, which answers the decider alone.

import { api } from "./api.js";
import { h, icon } from "./dom.js";
import { effectWords, shortDigest } from "./words.js";

/** Fetch a request with its exact arguments. */
export function loadRequest(id) {
  return api("GET", `approvals/${id}`);
}

// The first sentence repeats the word on the tag.
function afterFirstSentence(text) {
  const end = text.indexOf(". ");
  return end < 0 ? "" : text.slice(end + 2);
}

/** The four questions as a list of `{name, icon, main, side, tone, bad}`. */
export function questionsOf(detail) {
  const { about } = detail;
  const effect = effectWords(detail.effect);
  const lasting = detail.effect !== "read" && !about.undoable;
  return [
    { name: "Where to", icon: "globe", main: about.where },
    { name: "As whom", icon: "user", main: about.as_whom },
    { name: "Effect", icon: effect.icon, main: effect.word, tone: effect.tone, side: afterFirstSentence(about.effect) },
    { name: "Undo", icon: lasting ? "noundo" : "undo", main: about.undo, bad: lasting },
  ];
}

/** The four questions as a list of facts. */
export function factsList(detail) {
  const rows = questionsOf(detail).map((question) => {
    let answer = h("b", { class: "md" }, question.main);
    if (question.name === "Effect") {
      answer = h("span", { class: "row wrap" },
        h("span", { class: `tag ${question.tone}` }, icon(question.icon), question.main), h("span", { class: "m" }, question.side));
    } else if (question.name === "Undo") {
      answer = h("span", { class: `row top${question.bad ? " bad-text" : ""}` }, icon(question.icon), h("span", null, question.main));
    }
    return [h("dt", null, question.name), h("dd", null, answer)];
  });
  return h("dl", { class: "facts" }, rows);
}

// Letters that cannot be seen or that turn the reading order: an approver sees them as what they are.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const LONG = 120;

/** Show text so that nothing in it hides. */
export function plain(text) {
  return String(text).replace(HIDDEN, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function readable(value) {
  return plain(typeof value === "string" ? JSON.stringify(value).replaceAll("\\n", "\n") : JSON.stringify(value));
}

function rowsOf(value, path, top = path) {
  const nested = value !== null && typeof value === "object";
  const entries = nested ? Object.entries(value) : [];
  if (!nested || entries.length === 0) return [{ name: path || "value", top, value }];
  return entries.flatMap(([key, inner]) => {
    const name = Array.isArray(value) ? `${path}[${key}]` : path ? `${path}.${key}` : key;
    return rowsOf(inner, name, path ? top : key);
  });
}

function row({ name, top, value }, pinned) {
  const text = typeof value === "string" ? value : "";
  const long = text.length > LONG;
  return h("div", { class: `a${long || text.includes("\n") ? " tall" : ""}` },
    h("span", null, plain(name), pinned.has(top) ? h("span", { class: "tag line", title: "The deployment sets this argument itself" }, icon("lock"), "Pinned") : null),
    // What is long is read, not parsed: its own lines, and no quotes around it.
    h("span", null, long ? plain(text) : readable(value)));
}

/** The exact arguments, whole, with the tool and the digest that a yes is bound to. */
export function argumentsBox(detail, { json = false } = {}) {
  const pinned = new Set(detail.pinned || []);
  const body = json
    ? h("pre", null, plain(JSON.stringify(detail.arguments, null, 2)))
    : rowsOf(detail.arguments, "").map((one) => row(one, pinned));
  const maker = detail.about && detail.about.comes_from && detail.about.comes_from.replace(/^package:/, "");
  return h("div", { class: "args", role: "group", "aria-label": "Exact arguments" },
    h("div", { class: "long", tabindex: "0" }, body),
    h("footer", null,
      h("code", null, detail.tool), maker ? h("span", null, maker) : null,
      h("span", { class: "end mono", title: detail.arguments_digest }, shortDigest(detail.arguments_digest))));
}

/** Who has to agree and who has, where it takes two. */
export function peopleList(detail) {
  const people = detail.people || [];
  if (people.length < 2) return null;
  return h("ul", { class: "two", "aria-label": "Who has to agree" }, people.map((one) => {
    const said = one.said === null ? ["wait", "clock", "has to agree"] : one.said ? ["ok", "ok", "agreed"] : ["quiet", "x", "said no"];
    return h("li", null, h("span", { class: `ico ${said[0]}` }, icon(said[1])), h("span", { class: "md" }, one.who), h("span", { class: "sm m" }, said[2]));
  }));
}

/** Which request took the place of this one, or whose place it took. */
export function placeNote(detail) {
  if (detail.replaced_by) return h("p", { class: "sm m" }, "The arguments were changed. ", h("a", { class: "under", href: `/approvals/${detail.replaced_by}/` }, "See what took their place"));
  if (detail.replaces) return h("p", { class: "sm m" }, "A person wrote these arguments. ", h("a", { class: "under", href: `/approvals/${detail.replaces}/` }, "See what the agent had proposed"));
  return null;
}
