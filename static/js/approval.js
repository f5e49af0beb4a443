// What is asked, and how is it answered? Shared by the card in a room and the inbox.
//
// The exact arguments come only from the request's own address, which answers the decider alone.

import { api } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { problemNote } from "./parts.js";
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

function readable(value) {
  return typeof value === "string" ? JSON.stringify(value).replaceAll("\\n", "\n") : JSON.stringify(value);
}

function rowsOf(value, path) {
  const nested = value !== null && typeof value === "object";
  const entries = nested ? Object.entries(value) : [];
  if (!nested || entries.length === 0) return [[path || "value", readable(value)]];
  return entries.flatMap(([key, inner]) => {
    const name = Array.isArray(value) ? `${path}[${key}]` : path ? `${path}.${key}` : key;
    return rowsOf(inner, name);
  });
}

/** The exact arguments, whole, with the tool and the digest that a yes is bound to. */
export function argumentsBox(detail, { json = false } = {}) {
  const body = json
    ? h("pre", null, JSON.stringify(detail.arguments, null, 2))
    : rowsOf(detail.arguments, "").map(([name, value]) => h("div", { class: "a" }, h("span", null, name), h("span", null, value)));
  const maker = detail.about && detail.about.comes_from && detail.about.comes_from.replace(/^package:/, "");
  return h("div", { class: "args", role: "group", "aria-label": "Exact arguments" },
    h("div", { class: "long", tabindex: "0" }, body),
    h("footer", null,
      h("code", null, detail.tool), maker ? h("span", null, maker) : null,
      h("span", { class: "end mono", title: detail.arguments_digest }, shortDigest(detail.arguments_digest))));
}

/**
 * The buttons of a decision, in a given element: Approve, Deny with a reason, and what went wrong.
 * Letters go through `press`, so that the page decides when they count.
 */
export class Decision {
  constructor({ element, onDecided, keys = true }) {
    this.element = element;
    this.onDecided = onDecided;
    this.keys = keys;
    this.detail = null;
    this.mode = "choose";
    this.problem = null;
    this.typed = "";
  }

  show(detail) {
    this.detail = detail;
    this.render();
  }

  press(letter) {
    if (this.detail === null || this.mode === "busy" || this.mode === "deny") return false;
    if (letter === "a") {
      // A letter is easily hit by mistake: what cannot be taken back asks once more.
      if (!["read", "write"].includes(this.detail.effect) && this.mode !== "sure") this.to("sure");
      else this.approve();
      return true;
    }
    if (letter === "d") {
      this.to("deny");
      return true;
    }
    return false;
  }

  back() {
    if (this.mode !== "deny" && this.mode !== "sure") return false;
    this.to("choose");
    return true;
  }

  to(mode) {
    this.mode = mode;
    this.problem = null;
    this.render();
    const field = this.element.querySelector("input");
    if (field !== null) field.focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  approve() {
    return this.decide("approve", { arguments_digest: this.detail.arguments_digest });
  }

  deny() {
    const reason = this.typed.trim();
    return this.decide("deny", reason ? { reason } : {});
  }

  async decide(verb, body) {
    if (this.mode === "busy") return;
    const before = this.mode;
    this.mode = "busy";
    this.problem = null;
    this.render();
    try {
      const answer = await api("POST", `approvals/${this.detail.id}/${verb}`, body);
      this.mode = "done";
      this.onDecided(verb === "approve" ? "approved" : "denied", answer);
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      this.problem = problem;
      this.mode = before === "sure" ? "choose" : before;
      this.render();
    }
  }

  render() {
    const busy = this.mode === "busy";
    const key = (letter) => (this.keys ? h("kbd", { "aria-hidden": "true" }, letter) : null);
    const parts = [];
    if (this.problem) parts.push(h("div", { class: "grow reason" }, problemNote(this.problem)));
    if (this.mode === "deny") {
      const field = h("input", { class: "input", maxlength: "500", placeholder: "Why not (optional, the agent reads it)", "aria-label": "Why not", value: this.typed });
      field.addEventListener("input", () => { this.typed = field.value; });
      parts.push(h("form", {
        class: "reason",
        on: { submit: (event) => { event.preventDefault(); this.deny(); } },
      }, field, h("div", { class: "row" },
        h("button", { class: "btn danger", type: "submit" }, icon("x"), "Deny"),
        h("button", { class: "btn quiet", type: "button", on: { click: () => this.to("choose") } }, "Back"))));
    } else {
      parts.push(
        h("button", { class: "btn primary", type: "button", "aria-disabled": busy ? "true" : null, on: { click: () => !busy && this.approve() } },
          icon("check"), this.mode === "sure" ? "Approve, for sure" : "Approve", key("A")),
        h("button", { class: "btn danger", type: "button", "aria-disabled": busy ? "true" : null, on: { click: () => !busy && this.to("deny") } },
          icon("x"), "Deny", key("D")));
      if (this.mode === "sure") parts.push(h("span", { class: "xs m", role: "status" }, "Press A once more, or Esc."));
      if (busy) parts.push(h("span", { class: "xs m late" }, "Sending your answer"));
    }
    const held = this.element.querySelector(":focus-visible") !== null;
    fill(this.element, parts);
    // Whoever decides by keyboard stays with what is asked, never on a button that nobody chose.
    if (held && this.element.closest("[tabindex]")) this.element.closest("[tabindex]").focus({ preventScroll: true });
  }
}
