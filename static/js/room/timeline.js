// How is the conversation painted? Blocks become elements that live as long as their block.

import { h, fill, icon, reconcile, say } from "../dom.js";
import { agentPicture, person } from "../parts.js";
import { clock } from "../words.js";
import { approvalOf, blocksOf, pendingApprovalOf } from "./blocks.js";
import { ApprovalCard } from "./card.js";
import { endOf, markdown } from "./markdown.js";
import { CallRow, writingRow } from "./rows.js";
import { setMessage } from "./text.js";

const NEAR_END = 64;
const FOLD_FROM = 1400;

/** Paints the timeline and keeps the reader's place in it. */
export class Timeline {
  constructor({ element, toEnd, store, openArtifact, loadOlder, showPeople, stop }) {
    Object.assign(this, { element, toEnd, store, openArtifact, loadOlder, showPeople, stop });
    this.cards = new Map();
    this.following = true;
    this.pending = [];
    element.addEventListener("scroll", () => this.scrolled(), { passive: true });
    toEnd.addEventListener("click", () => this.goToEnd());
    setInterval(() => this.tick(), 1000);
    new ResizeObserver(() => this.following && this.jump()).observe(element);
  }

  paint(state) {
    const still = this.element.querySelector(".ask:hover, .ask:focus-within");
    const anchor = still || (this.following ? null : this.firstVisible());
    const before = anchor && anchor.getBoundingClientRect().top;
    const height = this.element.scrollHeight;
    for (const id of this.cards.keys()) if (!state.approvals[id]) this.cards.delete(id);
    this.known = new Set(state.seats.map((seat) => seat.slug.toLowerCase()));
    const blocks = blocksOf(state);
    const wanted = blocks.map((block) => this.entry(block, state));
    if (state.more) wanted.unshift({ key: "older", make: () => this.olderButton() });
    for (const note of this.pending) wanted.push(this.pendingEntry(note, state));
    if (state.ready && wanted.length === blocks.length && blocks.every((block) => block.type === "fact")) wanted.push(this.emptyEntry(state));
    reconcile(this.element, wanted);
    if (anchor && anchor.isConnected) this.element.scrollTop += anchor.getBoundingClientRect().top - before;
    else if (this.following) this.jump();
    this.toEnd.hidden = this.following || this.atEnd();
    if (!this.following && this.element.scrollHeight > height) this.toEnd.classList.add("fresh");
  }

  entry(block, state) {
    if (block.type === "fact") return { key: block.key, make: () => h("p", { class: "fact" }, block.text, " · ", h("time", { datetime: block.at }, clock(block.at))) };
    if (block.type === "person") return { key: block.key, make: () => this.message(block, state), update: null };
    return { key: block.key, make: () => this.turn(), update: (element) => this.updateTurn(element, block, state) };
  }

  message(block, state) {
    const you = block.author.id === state.me.id;
    const author = { username: block.author.username || String(block.author.id), name: block.author.name };
    const known = state.participants.find((one) => one.id === block.author.id);
    return h("article", { class: "msg" }, person(known || author),
      h("div", { class: "what" },
        h("div", { class: "who" }, h("b", null, block.author.name), you ? h("span", { class: "f" }, "you") : null, block.automation ? h("span", { class: "f" }, `by automation ${block.automation.name}`) : null, h("time", { datetime: block.at }, clock(block.at))),
        block.about ? this.about(block.about) : null,
        this.said(block.text)));
  }

  // What a message asks to be changed, and the way to it.
  about({ artifact, title, version }) {
    return h("div", null, h("button", { class: "btn s about", type: "button", on: { click: () => this.openArtifact(artifact) } },
      icon("pen"), h("span", { class: "sr" }, "Asks for a change of "), h("span", { class: "clip" }, title), h("span", { class: "f" }, `v${version}`)));
  }

  // A very long message is folded, so that what follows it stays in reach.
  said(text) {
    const words = h("div", { class: "say" }, setMessage(text, this.known));
    if (text.length < FOLD_FROM) return words;
    words.classList.add("folded");
    const more = h("button", { class: "btn s", type: "button", "aria-expanded": "false" }, "Show all");
    more.addEventListener("click", () => {
      const folded = words.classList.toggle("folded");
      more.textContent = folded ? "Show all" : "Show less";
      more.setAttribute("aria-expanded", String(!folded));
    });
    return [words, h("div", null, more)];
  }

  pendingEntry(note, state) {
    return {
      key: `pending:${note.key}`,
      make: () => h("article", { class: "msg sending", "aria-busy": "true" }, person(state.me),
        h("div", { class: "what" },
          h("div", { class: "who" }, h("b", null, state.me.name), h("span", { class: "f" }, "sending")),
          this.said(note.text))),
    };
  }

  turn() {
    const parts = h("div", { class: "parts" });
    const who = h("div", { class: "who" });
    const picture = h("span");
    const element = h("article", { class: "msg" }, picture, h("div", { class: "what" }, who, parts));
    Object.assign(element, { who, parts, picture, seen: "" });
    return element;
  }

  updateTurn(element, block, state) {
    const agent = block.agent || { slug: "agent", name: "Agent" };
    const seen = JSON.stringify([agent, block.member, block.at]);
    if (element.seen !== seen) {
      element.seen = seen;
      const picture = agentPicture(agent);
      element.picture.replaceWith(picture);
      element.picture = picture;
      const forWhom = block.member ? (block.member.username === state.me.username ? "you" : block.member.name) : null;
      fill(element.who, h("b", null, agent.name),
        h("span", { class: "f" }, forWhom ? `agent, acting as ${forWhom}` : "agent"),
        block.at ? h("time", { datetime: block.at }, clock(block.at)) : null);
    }
    reconcile(element.parts, this.partsOf(block, state));
  }

  // Calls that follow each other share a frame; a question stands by itself, in its call's place.
  partsOf(block, state) {
    const parts = [];
    let frame = null;
    const mine = block.member !== null && block.member.username === state.me.username;
    for (const part of block.parts) {
      const pending = part.type === "call" && pendingApprovalOf(state, part.id);
      const card = part.type === "call" && this.cardFor(pending || approvalOf(state, part.id), block.agent);
      if (card) {
        frame = null;
        parts.push({ key: `ask:${card.approval.id}`, make: () => card.element, update: () => card.update(state.approvals[card.approval.id]) });
      } else if (part.type === "call" || part.type === "writing") {
        if (frame === null) {
          frame = { key: `calls:${part.key}`, rows: [], make: () => h("ul", { class: "calls", "aria-label": "Calls" }) };
          const { rows } = frame;
          frame.update = (list) => reconcile(list, rows);
          parts.push(frame);
        }
        frame.rows.push(part.type === "call" ? this.callEntry(part, state, mine) : this.writingEntry(part));
      } else {
        frame = null;
        parts.push(part.type === "say" ? this.sayEntry(part) : endEntry(part));
      }
    }
    return parts;
  }

  cardFor(approval, agent) {
    if (!approval || !approval.decider) return null;
    const known = this.cards.get(approval.id);
    if (approval.state === "pending") {
      if (known) return known;
      const card = new ApprovalCard(approval, { me: this.store.state.me, agent, onFold: () => this.store.paint(), onGrown: () => this.following && this.jump() });
      this.cards.set(approval.id, card);
      return card;
    }
    if (known && known.held) return known;
    this.cards.delete(approval.id);
    return null;
  }

  callEntry(part, state, mine) {
    return {
      key: part.key,
      make: () => new CallRow({ me: state.me, openArtifact: this.openArtifact, stop: this.stop }).element,
      update: (element) => element.row.update(state.calls[part.id], { approval: approvalOf(state, part.id), mine, output: state.streams[`output:${part.id}`] }),
    };
  }

  writingEntry(part) {
    const { stream } = part;
    return {
      key: part.key,
      make: () => writingRow(stream),
      update: (element) => {
        if (element.seen === stream.meta.title) return;
        element.seen = stream.meta.title;
        fill(element, ...writingRow(stream).childNodes);
      },
    };
  }

  sayEntry(part) {
    return {
      key: part.key,
      make: () => h("div", { class: "say" }),
      update: (element) => {
        const seen = `${part.live ? "live" : "done"}:${part.mark || ""}:${part.text}`;
        if (element.seen === seen) return;
        element.seen = seen;
        fill(element, markdown(part.text));
        if (part.live) endOf(element).append(h("span", { class: "caret" }));
        if (part.mark) element.append(h("p", { class: "f xs" }, part.mark));
      },
    };
  }

  // Nothing was said yet: what will be here, and the one step that a room without an agent lacks.
  emptyEntry(state) {
    const lonely = state.seats.length === 0 && !state.room.closed;
    return {
      key: `empty:${lonely}`,
      make: () => h("div", { class: "empty" }, icon("msg"), h("b", null, "Nothing was said here yet"),
        h("span", null, "What people and agents say and do appears here, for everyone in the room."),
        lonely ? h("button", { class: "btn", type: "button", on: { click: () => this.showPeople() } }, icon("plus"), "Add an agent") : null),
    };
  }

  olderButton() {
    const button = h("button", { class: "btn s older", type: "button" }, icon("hist"), "Show earlier");
    button.addEventListener("click", async () => {
      button.setAttribute("aria-disabled", "true");
      await this.loadOlder();
      button.removeAttribute("aria-disabled");
    });
    return button;
  }

  tick() {
    for (const card of this.cards.values()) card.tick();
    for (const element of this.element.querySelectorAll(".call")) if (element.row) element.row.tick();
  }

  firstVisible() {
    const top = this.element.getBoundingClientRect().top;
    return [...this.element.children].find((child) => child.getBoundingClientRect().bottom > top + 1) || null;
  }

  atEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.element;
    return scrollHeight - scrollTop - clientHeight < NEAR_END;
  }

  scrolled() {
    this.following = this.atEnd();
    if (this.following) {
      this.toEnd.hidden = true;
      this.toEnd.classList.remove("fresh");
    }
  }

  jump() {
    this.element.scrollTop = this.element.scrollHeight;
  }

  goToEnd() {
    this.following = true;
    this.jump();
    this.toEnd.hidden = true;
  }

  /** Cards of this member that are out of view. */
  hiddenCards() {
    const frame = this.element.getBoundingClientRect();
    return [...this.cards.values()].filter((card) => {
      if (!card.mine || card.decided !== null || !card.element.isConnected) return false;
      const box = card.element.getBoundingClientRect();
      return box.top > frame.bottom - 60 || box.bottom < frame.top + 60;
    });
  }
}

function endEntry(part) {
  const stopped = part.outcome === "stopped";
  return {
    key: part.key,
    make: () => h("div", { class: `note ${stopped ? "" : "bad"}` }, icon(stopped ? "stop" : "fail"), h("span")),
    update: (element) => say(element.lastElementChild, part.explanation || (stopped ? "Stopped. Nothing partial was kept." : "The turn could not be finished.")),
  };
}
