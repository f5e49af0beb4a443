// How does a member write to the room? A box that never loses what was typed.

import { api, attemptKey } from "../api.js";
import { attribute, fill, h, icon } from "../dom.js";
import { agentPicture } from "../parts.js";

/** The message box, its agent menu and its list of mentions. */
export class Compose {
  constructor({ form, store, timeline }) {
    Object.assign(this, { form, store, timeline });
    this.field = form.querySelector("textarea");
    this.sendButton = form.querySelector("[data-send]");
    this.problem = form.querySelector("[data-problem]");
    this.list = form.querySelector("[data-mentions]");
    this.menu = form.querySelector("[data-agents]");
    this.steer = form.querySelector("[data-steer]");
    this.slot = `kaizen-draft-${store.state.room.id}-${store.state.me.id}`;
    this.attempt = null;
    this.choice = 0;
    this.restore();
    form.addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    this.field.addEventListener("input", () => this.typed());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.field.addEventListener("blur", () => setTimeout(() => this.showMentions([]), 150));
  }

  restore() {
    try {
      this.field.value = localStorage.getItem(this.slot) || "";
    } catch {
      // Without storage the text lives as long as the page.
    }
    this.fit();
  }

  keep() {
    try {
      if (this.field.value) localStorage.setItem(this.slot, this.field.value);
      else localStorage.removeItem(this.slot);
    } catch {
      // See restore.
    }
  }

  typed() {
    this.keep();
    this.fit();
    this.offer();
  }

  fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
  }

  key(event) {
    if (event.isComposing) return;
    const open = !this.list.hidden;
    if (open && ["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      this.choice = (this.choice + (event.key === "ArrowDown" ? 1 : -1) + this.offers.length) % this.offers.length;
      this.showMentions(this.offers);
    } else if (open && ["Enter", "Tab"].includes(event.key)) {
      event.preventDefault();
      this.complete(this.offers[this.choice]);
    } else if (open && event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      this.showMentions([]);
    } else if (event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      this.send();
    }
  }

  async send() {
    const text = this.field.value.trim();
    if (!text || this.store.state.room.closed) return;
    const steer = !this.steer.hidden && this.steer.control.checked;
    // The same text sent again after a failure is the same attempt: it can arrive once only.
    if (this.attempt === null || this.attempt.text !== text || this.attempt.steer !== steer) this.attempt = { text, steer, key: attemptKey() };
    const attempt = this.attempt;
    if (attempt.busy) return;
    attempt.busy = true;
    this.showProblem(null);
    this.field.value = "";
    this.fit();
    this.timeline.pending.push(attempt);
    this.timeline.following = true;
    this.store.paint();
    try {
      const answer = await api("POST", `rooms/${this.store.state.room.id}/messages`, { text, steer }, { key: attempt.key });
      if (this.attempt === attempt) this.attempt = null;
      attempt.position = answer.position;
      this.keep();
      this.clearArrived(this.store.state);
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      attempt.busy = false;
      this.forget(attempt);
      // Whatever was typed meanwhile stays, after the text that did not go out.
      this.field.value = this.field.value ? `${text}\n${this.field.value}` : text;
      this.keep();
      this.fit();
      this.showProblem(problem);
    }
    this.store.paint();
  }

  forget(attempt) {
    const place = this.timeline.pending.indexOf(attempt);
    if (place >= 0) this.timeline.pending.splice(place, 1);
  }

  /** Drop the placeholder of each message that the room has by now. */
  clearArrived(state) {
    for (const attempt of [...this.timeline.pending]) {
      if (attempt.position !== undefined && attempt.position <= state.position) this.forget(attempt);
    }
  }

  showProblem(problem) {
    attribute(this.problem, "hidden", problem === null);
    if (problem === null) return;
    fill(this.problem, icon("fail"), h("span", null,
      h("b", { class: "md" }, "Not sent. "), problem.message, " ", problem.retry ? "Your text is kept; press Enter to send it again." : "Your text is kept.",
      problem.code === "not_authenticated" ? h("a", { href: `/sign-in/?next=${encodeURIComponent(location.pathname)}` }, " Sign in") : null,
      problem.correlation ? h("span", { class: "f mono" }, ` ${problem.correlation}`) : null));
  }

  offer() {
    const before = this.field.value.slice(0, this.field.selectionStart);
    const match = /(?:^|\s)@([\w-]*)$/.exec(before);
    if (match === null) {
      this.showMentions([]);
      return;
    }
    const start = match[1].toLowerCase();
    this.choice = 0;
    this.showMentions(this.store.state.seats.filter((seat) => seat.slug.toLowerCase().startsWith(start) || seat.name.toLowerCase().startsWith(start)));
  }

  showMentions(offers) {
    this.offers = offers;
    this.list.hidden = offers.length === 0;
    attribute(this.field, "aria-activedescendant", offers.length > 0 ? `mention-${this.choice}` : null);
    fill(this.list, offers.map((seat, place) => h("div", {
      class: "opt", role: "option", id: `mention-${place}`, "aria-selected": place === this.choice ? "true" : "false",
      on: { mousedown: (event) => { event.preventDefault(); this.complete(seat); } },
    }, agentPicture(seat, { small: true }), h("span", { class: "grow clip" }, seat.name), h("span", { class: "f xs mono" }, `@${seat.slug}`))));
  }

  complete(seat) {
    const end = this.field.selectionStart;
    const before = this.field.value.slice(0, end).replace(/@[\w-]*$/, `@${seat.slug} `);
    const after = this.field.value.slice(end).replace(/^ /, "");
    this.field.value = before + after;
    this.field.setSelectionRange(before.length, before.length);
    this.showMentions([]);
    this.field.focus();
    this.keep();
    this.fit();
  }

  // Work that is under way for this very member can be steered; otherwise a message waits its turn.
  offerSteering(state, target) {
    const mine = Object.values(state.runs).some((run) => !run.parent && target && run.agent.slug === target.slug && run.member.id === state.me.id);
    if (this.steer.hidden === !mine) return;
    this.steer.hidden = !mine;
    this.steer.control.checked = false;
  }

  /** Name an agent from the menu. */
  address(seat) {
    const others = this.field.value.replace(/^@[\w-]+\s*/, "");
    this.field.value = `@${seat.slug} ${others}`;
    this.menu.open = false;
    this.field.focus();
    this.field.setSelectionRange(this.field.value.length, this.field.value.length);
    this.keep();
    this.fit();
  }

  paint(state) {
    this.clearArrived(state);
    const named = /^@([\w-]+)/.exec(this.field.value);
    const only = state.seats.length === 1 ? state.seats[0] : null;
    const target = (named && state.seats.find((seat) => seat.slug === named[1])) || only;
    this.offerSteering(state, target);
    const seen = JSON.stringify([state.seats, target]);
    if (seen === this.seen) return;
    this.seen = seen;
    this.menu.hidden = state.seats.length === 0;
    this.field.placeholder = only ? `Write to the room, or ask ${only.name} for something` : state.seats.length ? "Write to the room; name an agent with @" : "Write to the people here; no agent has a seat yet";
    fill(this.menu.querySelector("summary"), target ? [agentPicture(target, { small: true }), h("span", { class: "sr" }, "Choose an agent, now "), h("span", { class: "clip" }, target.name)] : [icon("at"), "Choose an agent"], icon("cdown"));
    fill(this.menu.querySelector(".pop"), state.seats.map((seat) => h("button", {
      class: "opt", type: "button", "aria-current": target === seat ? "true" : null, on: { click: () => this.address(seat) },
    }, agentPicture(seat, { small: true }), h("span", { class: "grow clip" }, seat.name), h("span", { class: "f xs mono" }, `@${seat.slug}`))));
  }
}
