// Who is here? People with their presence, agents with their seats, and how both change.

import { api, attemptKey, listing } from "../api.js";
import { attribute, fill, h, icon } from "../dom.js";
import { agentPicture, person, problemNote } from "../parts.js";

// How a member may want to be asked by one agent in this room; none of these is the general mode.
const MODES = [["as_declared", "as each tool declares"], ["first_use", "on first use"], ["always", "always"], ["never", "never, where allowed"]];

/** The faces in the head of the room and the dialog behind them. */
export class People {
  constructor({ head, count, dialog, closeDialog, store }) {
    Object.assign(this, { head, count, dialog, closeDialog, store });
    this.roster = dialog.querySelector("[data-roster]");
    this.seats = dialog.querySelector("[data-seats]");
    this.invite = dialog.querySelector("[data-invite]");
    this.addSeat = dialog.querySelector("[data-add-seat]");
    this.problem = dialog.querySelector("[data-problem]");
    this.invite.addEventListener("submit", (event) => { event.preventDefault(); this.inviteMember(); });
    this.addSeat.addEventListener("submit", (event) => { event.preventDefault(); this.seatAgent(); });
    closeDialog.querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); this.closeRoom(); });
  }

  get path() { return `rooms/${this.store.state.room.id}`; }

  async show({ inviting = false } = {}) {
    this.fail(null);
    this.dialog.showModal();
    if (inviting) this.invite.querySelector("input").focus();
    const select = this.addSeat.querySelector("select");
    try {
      this.agents = (await listing("agents")).filter((agent) => agent.enabled !== false);
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      this.agents = [];
      this.fail(problem);
    }
    this.fillAgents(select);
    await this.loadModes();
  }

  async loadModes() {
    try {
      const here = (await listing("approvals/modes")).filter((one) => one.room === this.store.state.room.id);
      this.modes = Object.fromEntries(here.map((one) => [one.agent.slug, one.mode]));
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      this.fail(problem);
      return;
    }
    this.seen = "";
    this.paint(this.store.state);
  }

  modeChoice(seat) {
    if (this.modes === undefined || this.store.state.room.closed) return null;
    const chosen = this.modes[seat.slug] || "";
    const place = `room=${this.store.state.room.id}&agent=${encodeURIComponent(seat.slug)}`;
    const select = h("select", { class: "input s", "aria-label": `${seat.name} asks you` },
      h("option", { value: "", selected: chosen === "" }, "Asks you as in general"),
      MODES.map(([mode, words]) => h("option", { value: mode, selected: chosen === mode }, `Asks you ${words}`)));
    select.addEventListener("change", async () => {
      const mode = select.value;
      const body = { mode, room: this.store.state.room.id, agent: seat.slug };
      const done = await this.attempt(() => (mode ? api("PUT", "approvals/modes", body) : api("DELETE", `approvals/modes?${place}`)));
      if (done) this.modes[seat.slug] = mode;
      else select.value = chosen;
    });
    return select;
  }

  fillAgents(select) {
    const seated = new Set(this.store.state.seats.map((seat) => seat.slug));
    const free = (this.agents || []).filter((agent) => !seated.has(agent.slug));
    attribute(this.addSeat, "hidden", free.length === 0 || this.store.state.room.closed);
    fill(select, free.map((agent) => h("option", { value: agent.slug }, agent.name)));
  }

  fail(problem) {
    fill(this.problem, problem === null ? [] : problemNote(problem));
  }

  async attempt(work) {
    this.fail(null);
    try {
      await work();
      return true;
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      this.fail(problem);
      return false;
    }
  }

  async inviteMember() {
    const field = this.invite.querySelector("input");
    const username = field.value.trim();
    if (!username) return;
    if (await this.attempt(() => api("POST", `${this.path}/participants`, { username }, { key: attemptKey() }))) field.value = "";
  }

  async seatAgent() {
    const select = this.addSeat.querySelector("select");
    if (!select.value) return;
    await this.attempt(() => api("POST", `${this.path}/seats`, { agent: select.value }, { key: attemptKey() }));
  }

  async closeRoom() {
    const done = await this.attempt(() => api("POST", `${this.path}/close`, {}));
    this.closeDialog.close();
    if (!done && !this.dialog.open) this.dialog.showModal();
  }

  async leave(one) {
    const mine = one.id === this.store.state.me.id;
    const done = await this.attempt(() => api("DELETE", `${this.path}/participants/${encodeURIComponent(one.username)}`));
    if (done && mine) location.assign("/rooms/");
  }

  paint(state) {
    const seen = JSON.stringify([state.participants, state.seats, state.room.closed]);
    if (seen === this.seen) return;
    this.seen = seen;
    const people = [...state.participants].sort((a, b) => b.online - a.online || a.name.localeCompare(b.name));
    const here = people.filter((one) => one.online).length;
    const me = people.find((one) => one.id === state.me.id);
    const owner = me !== undefined && me.role === "owner";
    fill(this.head, people.slice(0, 5).map((one) => person(one, { online: one.online })),
      people.length > 5 ? h("span", { class: "av", "aria-hidden": "true" }, `+${people.length - 5}`) : null);
    this.head.append(h("span", { class: "sr" }, `${people.length} ${people.length === 1 ? "participant" : "participants"}, ${here} here now`));
    fill(this.count, icon("users"), `${here} of ${people.length}`, h("span", { class: "sr" }, "here now"));
    for (const element of document.querySelectorAll("[data-owner-only]")) element.hidden = !owner || state.room.closed;
    for (const element of document.querySelectorAll("[data-open-only]")) element.hidden = state.room.closed;
    fill(this.roster, people.map((one) => {
      const self = one.id === state.me.id;
      const removable = one.role !== "owner" && (self || owner);
      return h("li", null, person(one, { online: one.online }),
        h("div", { class: "col grow" }, h("span", { class: "sm md clip" }, one.name, self ? " (you)" : ""),
          h("span", { class: "xs f clip" }, `${one.username} · ${one.role === "owner" ? "owner" : "member"} · ${one.online ? "here now" : "away"}`)),
        removable ? h("button", { class: "btn s", type: "button", on: { click: () => this.leave(one) } }, self ? "Leave" : ["Remove", h("span", { class: "sr" }, ` ${one.name}`)]) : null);
    }));
    fill(this.seats, state.seats.map((seat) => h("li", null, agentPicture(seat),
      h("div", { class: "col grow" }, h("span", { class: "sm md clip" }, seat.name), h("span", { class: "xs f mono" }, `@${seat.slug}`), this.modeChoice(seat)),
      state.room.closed ? null : h("button", {
        class: "btn s", type: "button",
        on: { click: () => this.attempt(() => api("DELETE", `${this.path}/seats/${encodeURIComponent(seat.slug)}`)) },
      }, "Remove", h("span", { class: "sr" }, ` ${seat.name}`)))));
    if (state.seats.length === 0) fill(this.seats, h("li", { class: "sm m" }, "No agent has a seat here yet."));
    this.fillAgents(this.addSeat.querySelector("select"));
  }
}
