// What is being made here? The pane with the live artifact, its versions, source and differences.

import { api, listing } from "../api.js";
import { announce, attribute, fill, h, icon, say } from "../dom.js";
import { agentPicture, person, problemNote } from "../parts.js";
import { clock, kindWord, size } from "../words.js";
import { diffTable, sourceTable } from "./diff.js";
import { Frame } from "./frame.js";
import { filesToCome } from "./store.js";

const TITLES = { preview: "Preview", source: "Source", diff: "Diff" };

/** Whether this member may ask for a change: of a text that is theirs, where an agent could answer. */
function changeable(artifact, state) {
  return artifact.kind !== "file" && Boolean(artifact.owner) && artifact.owner.id === state.me.id && state.seats.length > 0 && !state.room.closed;
}

export class ArtifactPane {
  constructor({ element, mini, store, stop, change }) {
    Object.assign(this, { element, mini, store, stop });
    for (const name of ["head", "title", "choices", "change", "copy", "download", "bar", "info", "strip", "paper", "vers", "empty"]) {
      this[name] = element.querySelector(`[data-a-${name}]`);
    }
    this.views = this.bar.querySelector(".seg");
    this.frame = new Frame(this.paper);
    this.view = "preview";
    this.subject = null;
    this.version = null;
    this.pinned = false;
    this.versions = new Map();
    this.bodies = new Map();
    this.notice = null;
    for (const button of this.bar.querySelectorAll("[data-view]")) {
      button.addEventListener("click", () => { this.view = button.dataset.view; this.paint(this.store.state); });
    }
    this.copy.addEventListener("click", () => this.copyText());
    this.change.addEventListener("click", () => change(this.current(this.store.state).artifact));
    addEventListener("kaizen:theme", () => { this.frame.clear(); this.paint(this.store.state); });
    store.watch((state, before, message) => this.follow(state, before, message));
  }

  /** Show one artifact, at its head or at a version, because somebody asked for it. */
  open(id, version = null) {
    this.subject = { artifact: id };
    this.version = version;
    this.pinned = true;
    this.notice = null;
    this.view = "preview";
    if (matchMedia("(max-width: 860px)").matches) location.hash = "#artifact";
    this.paint(this.store.state);
  }

  watchStream(id) {
    this.subject = { stream: id };
    this.pinned = false;
    this.notice = null;
    this.paint(this.store.state);
  }

  watchFile(key) {
    this.subject = { file: key };
    this.pinned = false;
    this.notice = null;
    this.paint(this.store.state);
  }

  // Writing draws the eye: the pane goes along unless the reader chose something else.
  follow(state, before, message) {
    for (const stream of Object.values(state.streams)) {
      if (stream.of !== "artifact") continue;
      const known = before.streams[stream.stream];
      if (known === undefined && !stream.closed && !this.pinned) {
        this.subject = { stream: stream.stream };
        this.version = null;
        this.notice = null;
        if (this.view === "diff") this.view = "preview";
      }
      if (stream.closed && !(known && known.closed)) this.ended(stream);
    }
    this.followFiles(state, before);
    for (const [id, artifact] of Object.entries(state.artifacts)) {
      const known = before.artifacts[id];
      if (known && known.head !== artifact.head) this.versions.delete(id);
      if (message.type === "event" && (!known || known.head !== artifact.head)) this.saved(artifact);
    }
  }

  // A file that is to come is shown in its place at once, and goes with the call that was to make it.
  followFiles(state, before) {
    const coming = filesToCome(state);
    const keys = new Set(coming.map((file) => file.key));
    const known = filesToCome(before);
    const fresh = coming.find((file) => !known.some((one) => one.key === file.key));
    if (fresh && !this.pinned && !(this.subject && (this.subject.stream || keys.has(this.subject.file)))) {
      this.subject = { file: fresh.key };
      this.notice = null;
    }
    for (const file of known) {
      if (keys.has(file.key)) continue;
      const made = Object.values(state.artifacts).some((one) => one.title === file.name && one !== before.artifacts[one.id]);
      if (!made) {
        const call = state.calls[file.call];
        // A file that is as it was stands in no event of its own.
        if (call && call.outcome === "ok") continue;
        announce(`${file.name} was not made.`);
        if (this.subject && this.subject.file === file.key) this.notice = { tone: "bad", icon: "restore", title: "Not made.", text: `“${file.name}” did not come about` };
      }
    }
    if (this.subject && this.subject.file && !keys.has(this.subject.file)) this.subject = null;
  }

  ended(stream) {
    const watching = this.subject && this.subject.stream === stream.stream;
    const title = stream.meta.title || "The artifact";
    const forWhom = stream.member ? ` for ${stream.member.name}` : "";
    if (stream.closed === "saved" && stream.artifact) {
      announce(`${title} was saved as version ${stream.version}.`);
      if (!watching) return;
      this.subject = { artifact: stream.artifact };
      this.version = null;
      this.notice = { tone: "ok", icon: "ok", title: `Saved as version ${stream.version}.`, text: `By ${stream.agent.name}${forWhom}`, artifact: stream.artifact, version: stream.version };
    } else {
      announce(`${title} was not saved.`);
      if (!watching) return;
      this.subject = null;
      this.notice = { tone: "bad", icon: "restore", title: "Not saved.", text: `“${title}” was not finished and nothing of it was kept` };
    }
  }

  saved(artifact) {
    if (this.subject && this.subject.stream) return;
    if (!this.subject || !this.pinned) {
      this.subject = { artifact: artifact.id };
      this.version = null;
    }
    const told = this.notice && this.notice.artifact === artifact.id && this.notice.version === artifact.head;
    if (this.subject.artifact === artifact.id && !told) {
      this.version = null;
      const by = artifact.by || {};
      const who = by.agent ? `By ${by.agent}${by.member ? ` for ${by.member.name}` : ""}` : by.member ? `By ${by.member.name}` : "";
      this.notice = { tone: "ok", icon: "ok", title: `Saved as version ${artifact.head}.`, text: who, artifact: artifact.id, version: artifact.head };
    }
  }

  current(state) {
    if (this.subject && this.subject.stream) {
      const stream = state.streams[this.subject.stream];
      if (stream && !stream.closed) return { stream };
      this.subject = null;
    }
    if (this.subject && this.subject.file) {
      const file = filesToCome(state).find((one) => one.key === this.subject.file);
      if (file) return { file };
      this.subject = null;
    }
    if (!this.subject || !state.artifacts[this.subject.artifact]) {
      const latest = Object.values(state.artifacts).sort((a, b) => String(b.updated_at).localeCompare(String(a.updated_at)))[0];
      this.subject = latest ? { artifact: latest.id } : null;
      this.version = null;
    }
    return this.subject ? { artifact: state.artifacts[this.subject.artifact] } : {};
  }

  paint(state) {
    const { stream, artifact, file } = this.current(state);
    const none = !stream && !artifact && !file;
    this.empty.hidden = !none || !state.ready;
    for (const part of [this.head, this.bar, this.paper, this.vers]) part.hidden = none;
    attribute(this.change, "hidden", !artifact || !changeable(artifact, state));
    this.paintMini(state, stream, artifact, file);
    this.paintStrip(state, stream, artifact, file);
    if (none) {
      this.frame.clear();
      this.paper.replaceChildren();
      return;
    }
    if (file) {
      this.paintFile(state, file);
      return;
    }
    const meta = stream ? stream.meta : artifact;
    const shown = stream ? null : this.version || artifact.head;
    say(this.title, meta.title || "Untitled");
    this.paintChoices(state, stream, artifact);
    attribute(this.views, "hidden", meta.kind === "file");
    for (const button of this.bar.querySelectorAll("[data-view]")) {
      const { view } = button.dataset;
      // A file has no text to read here, only a picture or what was derived from it.
      button.hidden = (view === "diff" && (Boolean(stream) || shown < 2)) || (view !== "preview" && meta.kind === "file");
      if (button.hidden && this.view === view) this.view = "preview";
      attribute(button, "aria-pressed", view === this.view ? "true" : "false");
    }
    attribute(this.paper, "aria-label", TITLES[this.view]);
    this.copy.hidden = Boolean(stream) || meta.kind === "file";
    attribute(this.download, "hidden", Boolean(stream));
    if (stream) {
      say(this.info, `${kindWord(meta.kind, meta.language)} · ${stream.length.toLocaleString("en")} characters so far`);
      this.paintLive(stream);
      this.paintVersions(null, stream);
      return;
    }
    attribute(this.download, "href", `/artifacts/${artifact.id}/versions/${shown}/download`);
    const rows = this.versionsOf(artifact);
    const row = rows && rows.find((one) => one.number === shown);
    const by = row ? ` by ${row.agent_name || row.author.name}` : "";
    say(this.info, `${kindWord(artifact.kind, artifact.language)} · ${size(row ? row.size : artifact.size)} · v${shown}${by}`);
    this.paintVersions(artifact, null);
    this.paintSaved(artifact, shown);
  }

  // What stands in a file's place until it is there: its name and who makes it, and nothing to take away.
  paintFile(state, file) {
    say(this.title, file.name);
    say(this.info, "Not there yet");
    this.paintChoices(state, null, null, file);
    attribute(this.views, "hidden", true);
    this.copy.hidden = true;
    attribute(this.download, "hidden", true);
    this.download.removeAttribute("href");
    const key = `coming:${file.key}`;
    if (this.frame.shown !== key) {
      this.frame.clear();
      this.frame.shown = key;
      fill(this.paper, h("div", { class: "coming" }, icon("doc"), h("b", null, file.name), h("span", null, `${file.agent.name} is making this file. It can be opened once it is there.`)));
    }
    fill(this.vers, h("span", { class: "now" }, agentPicture(file.agent, { small: true }), "Being made"));
    this.vers.seen = null;
  }

  paintLive(stream) {
    if (this.view === "source") {
      const key = `source:${stream.stream}:${stream.length}`;
      if (this.frame.shown === key) return;
      const { scrollHeight, scrollTop, clientHeight } = this.paper;
      const following = scrollHeight - scrollTop - clientHeight < 80;
      this.frame.clear();
      this.frame.shown = key;
      fill(this.paper, h("div", { class: "source" }, sourceTable(stream.text)));
      if (following) this.paper.scrollTop = this.paper.scrollHeight;
    } else {
      this.frame.live(stream);
    }
  }

  paintSaved(artifact, shown) {
    if (this.view === "preview") {
      const theme = getComputedStyle(document.documentElement).colorScheme === "dark" ||
        (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches) ? "dark" : "light";
      this.frame.saved(`/artifacts/${artifact.id}/versions/${shown}/preview?theme=${theme}`, `Preview of ${artifact.title}, version ${shown}`, artifact.kind);
      return;
    }
    const key = `${this.view}:${artifact.id}:${shown}`;
    if (this.frame.shown === key) return;
    this.frame.clear();
    this.frame.shown = key;
    this.showText(key, artifact, shown);
  }

  async showText(key, artifact, shown) {
    fill(this.paper, h("div", { class: "source late", "aria-busy": "true" }, [60, 85, 40].map((width) => h("span", { class: "skel", style: `width:${width}%;margin:1rem` }))));
    try {
      const after = await this.body(artifact.id, shown);
      const before = this.view === "diff" ? await this.body(artifact.id, shown - 1) : null;
      if (this.frame.shown !== key) return;
      fill(this.paper, this.view === "source"
        ? h("div", { class: "source" }, sourceTable(after))
        : h("div", { class: "compare" }, diffTable(before, after, [`Version ${shown - 1}`, `Version ${shown}`])));
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      if (this.frame.shown !== key) return;
      fill(this.paper, h("div", { class: "livebox" }, problemNote(problem, () => { this.frame.clear(); this.paint(this.store.state); })));
    }
  }

  async body(id, version) {
    const key = `${id}/${version}`;
    if (!this.bodies.has(key)) this.bodies.set(key, (await api("GET", `artifacts/${id}/versions/${version}`)).body);
    return this.bodies.get(key);
  }

  versionsOf(artifact) {
    const known = this.versions.get(artifact.id);
    if (known === undefined) {
      this.versions.set(artifact.id, null);
      listing(`artifacts/${artifact.id}/versions`).then((rows) => {
        this.versions.set(artifact.id, rows);
        this.store.paint();
      }, () => this.versions.delete(artifact.id));
    }
    return known || null;
  }

  paintVersions(artifact, stream) {
    if (stream) {
      fill(this.vers, h("span", { class: "now" }, agentPicture(stream.agent, { small: true }), "Not saved yet"));
      this.vers.seen = null;
      return;
    }
    const rows = this.versionsOf(artifact) || [];
    const shown = this.version || artifact.head;
    const seen = JSON.stringify([artifact.id, artifact.head, shown, rows.length]);
    if (this.vers.seen === seen) return;
    this.vers.seen = seen;
    const byNumber = new Map(rows.map((row) => [row.number, row]));
    const first = Math.max(1, artifact.head - 49);
    const buttons = [];
    for (let number = first; number <= artifact.head; number += 1) {
      const row = byNumber.get(number);
      const picture = row && (row.agent_name ? agentPicture({ name: row.agent_name }, { small: true }) : person(row.author, { small: true }));
      buttons.push(h("button", {
        type: "button", "aria-current": number === shown ? "true" : null,
        on: { click: () => { this.version = number; this.pinned = true; this.notice = null; this.paint(this.store.state); } },
      }, picture, `v${number}`, number === shown && row ? h("span", { class: "f" }, `saved ${clock(row.created_at)}`) : null));
    }
    fill(this.vers, buttons);
    const chosen = this.vers.querySelector("[aria-current]");
    if (chosen) this.vers.scrollLeft = chosen.offsetLeft - this.vers.clientWidth / 2;
  }

  paintChoices(state, stream, artifact, file = null) {
    const artifacts = Object.values(state.artifacts).sort((a, b) => String(b.updated_at).localeCompare(String(a.updated_at)));
    const streams = Object.values(state.streams).filter((one) => one.of === "artifact" && !one.closed);
    const coming = filesToCome(state);
    const seen = JSON.stringify([artifacts.map((one) => [one.id, one.head, one.title]), streams.map((one) => [one.stream, one.meta.title]), coming.map((one) => one.key), stream && stream.stream, artifact && artifact.id, file && file.key]);
    if (this.choices.seen === seen) return;
    this.choices.seen = seen;
    const pick = (action) => () => { this.choices.closest("details").open = false; action(); };
    fill(this.choices,
      streams.map((one) => h("button", { class: "opt", type: "button", "aria-current": stream && stream.stream === one.stream ? "true" : null, on: { click: pick(() => this.watchStream(one.stream)) } },
        h("span", { class: "pulse" }), h("span", { class: "grow clip" }, one.meta.title || "Untitled"), h("span", { class: "xs f" }, "being written"))),
      coming.map((one) => h("button", { class: "opt", type: "button", "aria-current": file && file.key === one.key ? "true" : null, on: { click: pick(() => this.watchFile(one.key)) } },
        h("span", { class: "pulse" }), h("span", { class: "grow clip" }, one.name), h("span", { class: "xs f" }, "being made"))),
      artifacts.map((one) => h("button", { class: "opt", type: "button", "aria-current": artifact && artifact.id === one.id ? "true" : null, on: { click: pick(() => this.open(one.id)) } },
        icon("doc"), h("span", { class: "grow clip" }, one.title), h("span", { class: "xs f" }, `v${one.head}`))));
  }

  paintStrip(state, stream, artifact, file) {
    let notice = this.notice;
    if (file) notice = { tone: "live", pulse: true, title: `${file.agent.name} is making this file.`, text: "It cannot be downloaded yet", run: file.run };
    if (stream) {
      const verb = stream.meta.tool === "update_artifact" ? "editing" : "writing";
      notice = { tone: "live", pulse: true, title: `${stream.agent.name} is ${verb} this.`, text: "Not saved yet", run: stream.run };
    }
    if (notice && notice.artifact && artifact && notice.artifact !== artifact.id) notice = null;
    const other = !stream && Object.values(state.streams).find((one) => one.of === "artifact" && !one.closed);
    if (!notice && other) notice = { tone: "live", pulse: true, title: `${other.agent.name} is writing`, text: other.meta.title ? `“${other.meta.title}”` : "something new", watch: other.stream };
    const mine = notice && notice.run && state.runs[notice.run] && state.runs[notice.run].member.id === state.me.id;
    const seen = JSON.stringify([notice, mine]);
    if (this.strip.seen === seen) return;
    this.strip.seen = seen;
    this.strip.hidden = notice === null;
    if (notice === null) return;
    this.strip.className = `strip ${notice.tone}`;
    fill(this.strip, notice.pulse ? h("span", { class: "pulse" }) : icon(notice.icon),
      h("span", { class: "clip" }, h("b", null, notice.title), " ", notice.text),
      mine ? h("button", { class: "btn s", type: "button", on: { click: () => this.stop(notice.run) } }, icon("stop"), "Stop") : null,
      notice.watch ? h("button", { class: "btn s", type: "button", on: { click: () => this.watchStream(notice.watch) } }, icon("eye"), "Watch") : null);
  }

  // On a phone the pane is a page of its own, behind this line.
  paintMini(state, stream, artifact, file) {
    const live = stream || Object.values(state.streams).find((one) => one.of === "artifact" && !one.closed);
    attribute(this.mini, "hidden", !live && !artifact && !file);
    if (file) {
      if (this.mini.seen === file.key) return;
      this.mini.seen = file.key;
      this.mini.classList.add("live");
      fill(this.mini, h("span", { class: "pulse" }), h("span", { class: "clip grow" }, h("b", null, file.name), ` · ${file.agent.name} is making it`), h("span", { class: "nw md" }, "Watch ", icon("cright")));
      return;
    }
    const seen = live ? `live:${live.meta.title}:${live.agent.name}` : artifact && `${artifact.title}:${artifact.head}`;
    if (!seen || this.mini.seen === seen) return;
    this.mini.seen = seen;
    this.mini.classList.toggle("live", Boolean(live));
    const title = (live ? live.meta.title : artifact.title) || "Untitled";
    fill(this.mini, live ? h("span", { class: "pulse" }) : icon("doc"),
      h("span", { class: "clip grow" }, h("b", null, title), live ? ` · ${live.agent.name} is writing` : ` · version ${artifact.head}`),
      h("span", { class: "nw md" }, live ? "Watch " : "Open ", icon("cright")));
  }

  async copyText() {
    const { artifact } = this.current(this.store.state);
    if (!artifact) return;
    try {
      await navigator.clipboard.writeText(await this.body(artifact.id, this.version || artifact.head));
      announce("Copied.");
      fill(this.copy, icon("check"));
    } catch {
      announce("The text could not be copied.");
      fill(this.copy, icon("x"));
    }
    setTimeout(() => fill(this.copy, icon("copy")), 1500);
  }
}
