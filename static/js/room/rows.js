// How does one call read? A row that says what happens, with the tool's name behind it.

import { api } from "../api.js";
import { attribute, fill, h, icon } from "../dom.js";
import { argumentsBox } from "../approval.js";
import { problemNote } from "../parts.js";
import { callState, duration, effectWords } from "../words.js";
import { Terminal } from "./terminal.js";

const CHANGED_NOTHING = new Set(["suppressed", "refused", "denied", "stopped"]);

function whyOf(call, openArtifact, approval) {
  if (call.state !== "settled") return null;
  if (call.artifact && call.outcome === "ok") {
    return ["Saved as version ", String(call.artifact.version), ". ",
      h("button", { type: "button", on: { click: () => openArtifact(call.artifact.id, call.artifact.version) } }, "Open")];
  }
  if (call.outcome === "ok") return null;
  if (approval && approval.comment && call.outcome === "denied") return `“${approval.comment}”`;
  if (call.explanation) return call.explanation;
  return CHANGED_NOTHING.has(call.outcome) ? "Nothing was changed." : null;
}

/** One call as a list item that keeps its open part while it is updated. */
export class CallRow {
  constructor({ me, openArtifact, stop }) {
    this.me = me;
    this.openArtifact = openArtifact;
    this.stop = stop;
    this.icon = h("span", { class: "ico" });
    this.title = h("span", { class: "t" });
    this.state = h("span");
    this.why = h("span", { class: "why" });
    this.sum = h("div", { class: "sum" }, this.icon, this.title, this.state, this.why);
    this.element = h("li", { class: "call" }, this.sum);
    this.element.row = this;
    this.seen = "";
  }

  update(call, { approval, mine, output }) {
    this.call = call;
    this.showOutput(call, mine, output);
    const agreed = approval && (approval.agreed || []).some((one) => one.id === approval.decider.id);
    const decider = approval && approval.state === "pending" ? (agreed ? { id: null, name: "another person" } : approval.decider) : null;
    const state = callState(call, { me: this.me, decider });
    if (call.outcome === "denied" && call.reason !== "superseded" && approval && approval.by) {
      state.word = `Denied by ${approval.by.id === this.me.id ? "you" : approval.by.name}`;
    }
    const seen = JSON.stringify([call, state, approval && approval.comment, mine]);
    if (seen !== this.seen) {
      this.seen = seen;
      this.element.className = `call ${state.tone === "odd" ? "odd" : ""} ${call.outcome === "suppressed" ? "repeat" : ""}`.trim();
      this.icon.className = `ico ${state.tone}${state.late ? " late" : ""}`;
      fill(this.icon, icon(state.icon, state.spins ? "spin" : ""));
      fill(this.title, call.title || call.tool, " ", call.title && call.title !== call.tool ? h("code", { class: "f" }, call.tool) : null);
      this.mark = h("span", { class: `state ${state.tone}${state.late ? " late" : ""}` }, state.word);
      this.word = state.word;
      this.state.replaceWith(this.mark);
      this.state = this.mark;
      const why = whyOf(call, this.openArtifact, approval);
      fill(this.why, why || []);
      attribute(this.why, "hidden", why === null);
      if (mine && call.state === "settled") this.allowOpen();
    }
    this.tick();
  }

  /** Show how long a call runs, once that is worth saying. */
  tick() {
    if (!this.call || this.call.state !== "dispatched" || !this.call.since) return;
    const running = Date.now() - Date.parse(this.call.since);
    if (running > 2000) this.state.textContent = `${this.word} · ${duration(running)}`;
  }

  // What the call's program writes, from its first line until the page is left.
  showOutput(call, mine, output) {
    if (!output && !this.terminal) return;
    if (!this.terminal) {
      this.terminal = new Terminal({ title: call.title || call.tool, stop: mine && this.stop ? () => this.stop(call.run) : null });
      this.sum.after(this.terminal.element);
    }
    this.terminal.update(output ? output.text : null, call.state !== "settled");
  }

  // The run's own member may look at what went in and what came back. The title is the button and
  // its area is the row's, so that a button in the row stays beside it, not inside.
  allowOpen() {
    if (this.opener) return;
    this.inside = h("div", { class: "in", hidden: true });
    this.opener = h("button", { class: "t", type: "button", "aria-expanded": "false", on: { click: () => this.toggle() } }, ...this.title.childNodes);
    this.title.replaceWith(this.opener);
    this.title = this.opener;
    this.element.append(this.inside);
  }

  toggle() {
    const open = this.inside.hidden;
    this.inside.hidden = !open;
    attribute(this.opener, "aria-expanded", String(open));
    if (open && !this.loaded) this.load();
  }

  async load() {
    this.loaded = true;
    fill(this.inside, h("span", { class: "skel late" }));
    try {
      const detail = await api("GET", `calls/${this.call.call}`);
      const effect = effectWords(detail.effect);
      fill(this.inside,
        h("div", { class: "row" }, h("span", { class: `tag ${effect.tone}` }, icon(effect.icon), effect.word)),
        detail.arguments ? argumentsBox(detail) : null,
        detail.projection !== undefined && detail.projection !== null
          ? h("div", null, h("b", { class: "b" }, "What came back"), h("div", { class: "args" }, h("pre", { class: "long", tabindex: "0" },
            typeof detail.projection === "string" ? detail.projection : JSON.stringify(detail.projection, null, 2))))
          : null);
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      this.loaded = false;
      fill(this.inside, problemNote(problem, () => this.load()));
    }
  }
}

/** The row of a call whose arguments are being written and shown. */
export function writingRow(stream) {
  const verb = stream.meta.tool === "update_artifact" ? "Edit" : "Write";
  const title = stream.meta.title ? `${verb} “${stream.meta.title}”` : `${verb} an artifact`;
  return h("li", { class: "call" }, h("div", { class: "sum" },
    h("span", { class: "ico live" }, icon("pen")), h("span", { class: "t" }, title),
    h("span", { class: "state live" }, "Writing")));
}
