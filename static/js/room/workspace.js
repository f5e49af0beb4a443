// What lies in the member's own workspace of this room? A list to look at, take from and delete.

import { api } from "../api.js";
import { announce, attribute, fill, h, icon, say } from "../dom.js";
import { problemNote } from "../parts.js";
import { size } from "../words.js";

const PAGE = 100;

/** The dialog with the files, and the one that asks before they go. */
export class Workspace {
  constructor({ dialog, confirm, store }) {
    Object.assign(this, { dialog, confirm, store });
    const part = (name) => dialog.querySelector(`[data-${name}]`);
    this.problem = part("problem");
    this.sum = part("w-sum");
    this.files = part("w-files");
    this.more = part("w-more");
    this.remove = part("w-delete");
    this.next = null;
    this.asked = 0;
    this.more.addEventListener("click", () => this.loadMore());
    this.remove.addEventListener("click", () => confirm.showModal());
    confirm.querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); this.delete(); });
    // What a call did may have changed the files.
    store.watch((state, before, message) => {
      if (message.type === "event" && message.kind === "call.settled" && dialog.open) this.load();
    });
  }

  get path() { return `rooms/${this.store.state.room.id}/workspace`; }

  show() {
    say(this.sum, "Loading");
    fill(this.files);
    this.dialog.showModal();
    return this.load();
  }

  async attempt(work) {
    fill(this.problem);
    try {
      await work();
      return true;
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      fill(this.problem, problemNote(problem));
      return false;
    }
  }

  async load() {
    const mine = ++this.asked;
    await this.attempt(async () => {
      const [state, page] = await Promise.all([api("GET", this.path), api("GET", `${this.path}/files?page_size=${PAGE}`)]);
      if (mine === this.asked) this.paint(state, page);
    });
  }

  async loadMore() {
    const mine = ++this.asked;
    await this.attempt(async () => {
      const page = await api("GET", this.next);
      if (mine !== this.asked) return;
      const first = this.files.children.length;
      this.files.append(...page.results.map((file) => this.row(file)));
      this.takeNext(page);
      // The button may be gone; the keyboard goes on where the new files begin.
      this.files.children[first].querySelector("a").focus();
    });
  }

  paint(state, page) {
    const used = `${size(state.bytes)} of ${size(state.most_bytes)}`;
    const count = state.files === 1 ? "1 file" : `${state.files.toLocaleString("en")} files`;
    say(this.sum, state.files ? `${count}, ${used}${state.busy ? ". An agent is working in it." : ""}` : "It is empty. Agents put files here when they run code for you.");
    attribute(this.remove, "hidden", state.updated_at === null);
    attribute(this.remove, "disabled", state.busy);
    fill(this.files, page.results.map((file) => this.row(file)));
    this.takeNext(page);
  }

  takeNext(page) {
    this.next = page.next ? page.next.slice(page.next.indexOf("/api/v1/") + "/api/v1/".length) : null;
    attribute(this.more, "hidden", this.next === null);
  }

  row(file) {
    const place = `/api/v1/${this.path}/content?path=${encodeURIComponent(file.path)}`;
    return h("li", null, icon(file.executable ? "source" : "file"),
      h("div", { class: "col grow" }, h("span", { class: "sm mono wordy" }, file.path),
        h("span", { class: "xs f" }, `${size(file.size)}${file.executable ? ", a program" : ""}`)),
      h("a", { class: "btn s icon", href: place, download: true, "aria-label": `Download ${file.path}` }, icon("down")));
  }

  async delete() {
    const done = await this.attempt(() => api("DELETE", this.path));
    this.confirm.close();
    if (!done) return;
    announce("Your workspace was deleted.");
    await this.load();
  }
}
