// How is a question answered? Approve, change the arguments, or deny with a reason.

import { api } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { problemNote } from "./parts.js";

// What the deployment sets stays as it is, so it is not among what can be changed.
function changeable(detail) {
  const pinned = new Set(detail.pinned || []);
  return Object.fromEntries(Object.entries(detail.arguments).filter(([name]) => !pinned.has(name)));
}

/**
 * The buttons of a decision, in a given element, and what went wrong.
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
    this.reason = "";
    this.json = "";
    this.remember = false;
  }

  show(detail) {
    this.detail = detail;
    this.json = JSON.stringify(changeable(detail), null, 2);
    // What asks on first use is asked once; what asks every time only where somebody says so.
    this.remember = detail.may.remember && detail.asks === "ask_first_time";
    this.render();
  }

  get idle() {
    return this.mode === "choose" || this.mode === "sure";
  }

  press(letter) {
    if (this.detail === null || !this.detail.may.answer || !this.idle) return false;
    if (letter === "a") {
      // A letter is easily hit by mistake: what cannot be taken back asks once more.
      if (!["read", "write"].includes(this.detail.effect) && this.mode !== "sure") this.to("sure");
      else this.approve();
      return true;
    }
    if (letter === "e" && this.detail.may.edit) {
      this.to("edit");
      return true;
    }
    if (letter === "d") {
      this.to("deny");
      return true;
    }
    return false;
  }

  back() {
    if (this.mode === "choose" || this.mode === "busy" || this.mode === "done") return false;
    this.to("choose");
    return true;
  }

  to(mode) {
    this.mode = mode;
    this.problem = null;
    this.render();
    const field = this.element.querySelector("textarea, input:not([type=checkbox])");
    if (field !== null) field.focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  approve() {
    const remember = this.detail.may.remember ? { remember: this.remember } : {};
    return this.send("approve", { arguments_digest: this.detail.arguments_digest, ...remember });
  }

  deny() {
    const reason = this.reason.trim();
    return this.send("deny", reason ? { reason } : {});
  }

  edit() {
    let wanted = null;
    try {
      wanted = JSON.parse(this.json);
    } catch (bad) {
      this.fail({ message: "This is not JSON yet.", hint: bad.message });
      return undefined;
    }
    if (wanted === null || typeof wanted !== "object" || Array.isArray(wanted)) {
      this.fail({ message: "Arguments are one JSON object.", hint: "It begins with { and ends with }." });
      return undefined;
    }
    return this.send("edit", { arguments_digest: this.detail.arguments_digest, arguments: wanted });
  }

  fail(problem) {
    this.problem = problem;
    this.render();
    const field = this.element.querySelector("textarea, input:not([type=checkbox])");
    if (field !== null) field.focus();
  }

  async send(verb, body) {
    if (this.mode === "busy") return;
    const before = this.mode;
    this.mode = "busy";
    this.problem = null;
    this.render();
    try {
      const answer = await api("POST", `approvals/${this.detail.id}/${verb}`, body);
      this.mode = "done";
      this.onDecided({ approve: "approved", deny: "denied", edit: "edited" }[verb], answer);
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      this.mode = before === "sure" ? "choose" : before;
      this.fail(problem);
    }
  }

  render() {
    const busy = this.mode === "busy";
    const parts = [];
    // Where fields are named below, the whole sentence would say it twice.
    const named = this.problem && this.problem.errors && this.problem.errors.length > 0;
    if (this.problem) parts.push(h("div", { class: "grow reason" }, problemNote(named ? { ...this.problem, message: "These arguments are not valid." } : this.problem)));
    if (!this.detail.may.answer) parts.push(this.waiting());
    else if (this.mode === "deny") parts.push(this.denyForm());
    else if (this.mode === "edit") parts.push(this.editForm());
    else parts.push(...this.buttons(busy));
    const held = this.element.querySelector(":focus-visible") !== null;
    fill(this.element, parts);
    // Whoever decides by keyboard stays with what is asked, never on a button that nobody chose.
    if (held && this.element.closest("[tabindex]")) this.element.closest("[tabindex]").focus({ preventScroll: true });
  }

  waiting() {
    return h("span", { class: "state wait" }, icon("users"), "You agreed. It waits for another person.");
  }

  buttons(busy) {
    const key = (letter) => (this.keys ? h("kbd", { "aria-hidden": "true" }, letter) : null);
    const button = (kind, name, words, letter, press) => h("button",
      { class: `btn ${kind}`, type: "button", "aria-disabled": busy ? "true" : null, on: { click: () => !busy && press() } },
      icon(name), words, key(letter));
    const { may } = this.detail;
    return [
      may.remember ? this.rememberBox() : null,
      button("primary", "check", this.mode === "sure" ? "Approve, for sure" : "Approve", "A", () => this.approve()),
      may.edit ? button("", "pen", "Edit", "E", () => this.to("edit")) : null,
      button("danger", "x", "Deny", "D", () => this.to("deny")),
      this.mode === "sure" ? h("span", { class: "xs m", role: "status" }, "Press A once more, or Esc.") : null,
      busy ? h("span", { class: "xs m late" }, "Sending your answer") : null,
    ];
  }

  rememberBox() {
    const box = h("input", { type: "checkbox", checked: this.remember });
    box.addEventListener("change", () => { this.remember = box.checked; });
    return h("label", { class: "always sm" }, box, "Always allow this exact call in this room");
  }

  denyForm() {
    const field = h("input", { class: "input", maxlength: "500", placeholder: "Why not (optional, the agent reads it)", "aria-label": "Why not", value: this.reason });
    field.addEventListener("input", () => { this.reason = field.value; });
    return h("form", { class: "reason", on: { submit: (event) => { event.preventDefault(); this.deny(); } } }, field,
      h("div", { class: "row" }, h("button", { class: "btn danger", type: "submit" }, icon("x"), "Deny"), this.backButton()));
  }

  editForm() {
    const errors = (this.problem && this.problem.errors) || [];
    const field = h("textarea", {
      class: "input mono", rows: String(Math.min(18, Math.max(5, this.json.split("\n").length))), spellcheck: "false", "aria-label": "Arguments as JSON",
      "aria-invalid": this.problem ? "true" : null, "aria-describedby": errors.length > 0 ? "edit-errors" : null,
    });
    field.value = this.json;
    field.addEventListener("input", () => { this.json = field.value; });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.edit(); }
    });
    return h("form", { class: `reason field${this.problem ? " bad" : ""}`, on: { submit: (event) => { event.preventDefault(); this.edit(); } } }, field,
      errors.length > 0 ? h("ul", { class: "errors", id: "edit-errors" }, errors.map((one) => h("li", { class: "sm bad-text" }, h("code", null, one.field.replace(/^arguments\/?/, "") || "arguments"), " ", one.detail))) : null,
      h("p", { class: "xs f" }, "The agent is told that you wrote these arguments. They are checked like its own, and agreed to at once."),
      h("div", { class: "row" }, h("button", { class: "btn primary", type: "submit" }, icon("check"), "Approve with these"), this.backButton()));
  }

  backButton() {
    return h("button", { class: "btn quiet", type: "button", on: { click: () => this.to("choose") } }, "Back");
  }
}
