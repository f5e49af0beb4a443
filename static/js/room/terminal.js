// What does a program write while it runs? A block of plain text that follows its own end.
//
// Output comes quickly and means little line by line, so nothing of it is read out by itself: the
// block can be focused and read like any other text.

import { fill, h, icon, say } from "../dom.js";

const NEAR_END = 24;

/** The output of one call: open while it runs, folded once it is over, as the reader left it. */
export class Terminal {
  constructor({ title, stop }) {
    this.text = "";
    this.running = true;
    this.words = document.createTextNode("");
    this.label = h("span", { class: "grow" }, "Output");
    this.paper = h("pre", { tabindex: "0", role: "region", "aria-label": `Output of ${title}`, "aria-live": "off" }, this.words);
    this.stop = stop === null ? null : h("button", { class: "btn s danger", type: "button", on: { click: stop } }, icon("stop"), "Stop", h("span", { class: "sr" }, ` ${title}`));
    this.fold = h("button", { class: "fold", type: "button", "aria-expanded": "true", on: { click: () => this.toggle(this.paper.hidden) } }, icon("source"), this.label);
    this.element = h("div", { class: "term" }, h("div", { class: "bar" }, this.fold, this.stop), this.paper);
  }

  /** Show what has been written so far; null leaves what is there. */
  update(text, running) {
    if (text !== null && text !== this.text) {
      const following = this.paper.scrollHeight - this.paper.scrollTop - this.paper.clientHeight < NEAR_END;
      // Only what is new is added, so that a selection and a long text stay as they are.
      if (text.startsWith(this.text)) this.words.appendData(text.slice(this.text.length));
      else this.words.data = text;
      this.text = text;
      if (following) this.paper.scrollTop = this.paper.scrollHeight;
    }
    if (running === this.running) return;
    this.running = running;
    if (running) return;
    if (this.stop) this.stop.remove();
    const lines = this.text.split("\n").filter(Boolean).length;
    say(this.label, lines === 1 ? "Output, 1 line" : `Output, ${lines} lines`);
    // Whoever reads in it keeps it.
    if (!this.element.matches(":hover, :focus-within")) this.toggle(false);
  }

  toggle(open) {
    this.paper.hidden = !open;
    this.fold.setAttribute("aria-expanded", String(open));
  }
}
