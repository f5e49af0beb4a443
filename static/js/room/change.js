// How does a member ask for a change of an artifact? A wish, and an agent that could carry it out.

import { api, attemptKey } from "../api.js";
import { announce, attribute, fill, h, say } from "../dom.js";
import { problemNote } from "../parts.js";

/** The tool that an agent needs to change an artifact; the server routes the wish to it. */
const TOOL = "update_artifact";

/** The dialog in which somebody says what should change. */
export class Change {
  constructor({ dialog, store }) {
    Object.assign(this, { dialog, store });
    const part = (name) => dialog.querySelector(`[data-${name}]`);
    this.title = part("c-title");
    this.help = part("c-help");
    this.send = part("c-send");
    this.problem = part("problem");
    this.form = dialog.querySelector("form");
    this.agent = dialog.querySelector("select");
    this.field = dialog.querySelector("textarea");
    this.artifact = null;
    this.attempt = null;
    this.asked = 0;
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.ask(); });
    // Enter begins a new line here, as in every longer text; with Ctrl it sends.
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) this.form.requestSubmit();
    });
  }

  get path() { return `rooms/${this.store.state.room.id}`; }

  /** Ask about one artifact; what was typed for another one does not come along. */
  show(artifact) {
    if (this.artifact === null || this.artifact.id !== artifact.id) this.field.value = "";
    this.artifact = artifact;
    fill(this.problem);
    say(this.title, artifact.title);
    this.dialog.showModal();
    return this.loadAgents();
  }

  /** Offer the agents of the room that have the tool for this member, and no other. */
  async loadAgents() {
    const mine = ++this.asked;
    this.choose([]);
    say(this.help, "Looking who can do it");
    const { seats } = this.store.state;
    try {
      const choices = await Promise.all(seats.map((seat) => api("GET", `${this.path}/seats/${encodeURIComponent(seat.slug)}/tools`)));
      if (mine !== this.asked) return;
      const able = seats.filter((seat, place) => choices[place].tools.some((tool) => tool.name === TOOL && tool.kept));
      this.choose(able);
      say(this.help, able.length ? "" : "No agent in this room may change artifacts for you.");
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      if (mine !== this.asked) return;
      say(this.help, "");
      fill(this.problem, problemNote(problem, () => { fill(this.problem); this.loadAgents(); }));
    }
  }

  choose(seats) {
    const before = this.agent.value;
    fill(this.agent, seats.map((seat) => h("option", { value: seat.slug, selected: seat.slug === before }, seat.name)));
    attribute(this.agent, "disabled", seats.length === 0);
    attribute(this.send, "disabled", seats.length === 0);
  }

  async ask() {
    const wish = this.field.value.trim();
    if (!wish || !this.agent.value || this.send.disabled) return;
    const text = `@${this.agent.value} ${wish}`;
    const { id } = this.artifact;
    // The same wish sent again after a failure is the same attempt: it can arrive once only.
    if (this.attempt === null || this.attempt.text !== text || this.attempt.id !== id) this.attempt = { text, id, key: attemptKey() };
    attribute(this.send, "disabled", true);
    fill(this.problem);
    try {
      await api("POST", `${this.path}/messages`, { text, about: { artifact: id } }, { key: this.attempt.key });
      this.attempt = null;
      this.field.value = "";
      this.dialog.close();
      announce(`${this.agent.selectedOptions[0].textContent} was asked for a change of ${this.artifact.title}.`);
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      fill(this.problem, problemNote(problem));
    }
    attribute(this.send, "disabled", false);
  }
}
