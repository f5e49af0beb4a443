// Where is model-made work shown? Saved versions come from their own address; what is being written
// is set as text, or, for HTML and drawings, put into a frame that may run nothing and reach nothing.

import { fill, h } from "../dom.js";
import { endOf, markdown } from "./markdown.js";

const EVERY = 150;
// The frame's own policy, first in the document, so that nothing written after it can widen it.
const POLICY = '<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'; img-src data:"><meta http-equiv="x-dns-prefetch-control" content="off">';
// A frame or a link connects to its host before a policy stops it; the server does the same.
const REACHING = /<(?=(?:i?frame|fencedframe|portal|object|embed|link)[\s/>])/gi;
const DRAWING = "<style>body{margin:1.5rem;display:grid;justify-items:center}svg{max-width:100%;height:auto}</style>";

// Links of a cleaned page may open a page of their own; nothing else is ever allowed.
function sandboxed(title, links = false) {
  return h("iframe", { sandbox: links ? "allow-popups allow-popups-to-escape-sandbox" : "", referrerpolicy: "no-referrer", title });
}

/** The preview area: one saved version, or text that grows. */
export class Frame {
  constructor(paper) {
    this.paper = paper;
    this.shown = null;
    this.timer = null;
  }

  clear() {
    clearTimeout(this.timer);
    this.timer = null;
    this.shown = null;
  }

  /** Show a saved version. What was there stays until the frame is ready, so that nothing flashes. */
  saved(url, title, kind) {
    if (this.shown === url) return;
    this.clear();
    this.shown = url;
    const frame = sandboxed(title, kind === "markdown");
    if (kind === "html" || kind === "svg") frame.classList.add("white");
    const before = [...this.paper.children];
    const settle = () => {
      if (this.shown !== url) return;
      frame.classList.remove("under");
      for (const child of before) child.remove();
    };
    frame.classList.toggle("under", before.length > 0);
    frame.addEventListener("load", settle, { once: true });
    setTimeout(settle, 1500);
    frame.src = url;
    this.paper.append(frame);
  }

  /** Show text that is being written. */
  live(stream) {
    const kind = stream.meta.kind || "text";
    const name = `live:${stream.stream}:${kind}`;
    if (this.shown !== name) {
      this.clear();
      this.shown = name;
      this.drawn = "";
      this.last = 0;
      fill(this.paper, h("div", { class: "livebox" }, h("article", { class: "sheet prose", "aria-live": "off" })));
      if (kind === "html" || kind === "svg") fill(this.paper, sandboxed("What is being written"));
    }
    this.next = { kind, text: stream.text, done: stream.closed !== null };
    if (this.timer !== null) return;
    const wait = Math.max(0, this.last + EVERY - Date.now());
    this.timer = setTimeout(() => this.draw(), wait);
  }

  draw() {
    this.timer = null;
    this.last = Date.now();
    const { kind, text, done } = this.next;
    const seen = `${done}:${text}`;
    if (this.drawn === seen) return;
    this.drawn = seen;
    if (kind === "html" || kind === "svg") this.drawFrame(kind === "svg" ? DRAWING + text : text);
    else this.drawText(kind, text, done);
  }

  drawText(kind, text, done) {
    const sheet = this.paper.querySelector(".sheet");
    const { scrollHeight, scrollTop, clientHeight } = this.paper;
    const following = scrollHeight - scrollTop - clientHeight < 80;
    const caret = done ? null : h("span", { class: "caret" });
    if (kind === "markdown") {
      fill(sheet, markdown(text));
      if (caret) endOf(sheet).append(caret);
    } else {
      fill(sheet, h(kind === "code" ? "pre" : "div", { class: "plain" }, text, caret));
    }
    if (following) this.paper.scrollTop = this.paper.scrollHeight;
  }

  // The next state loads underneath and takes the place of the last one when it is ready.
  drawFrame(text) {
    const frame = sandboxed("What is being written");
    frame.classList.add("white", "under");
    frame.addEventListener("load", () => {
      for (const other of [...this.paper.querySelectorAll("iframe")]) {
        if (other === frame) break;
        other.remove();
      }
      frame.classList.remove("under");
    }, { once: true });
    frame.srcdoc = POLICY + text.replace(REACHING, "&lt;");
    this.paper.append(frame);
  }
}
