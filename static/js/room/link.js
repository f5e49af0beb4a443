// How does the page stay in touch? One socket that resumes where it was, and asks for what it missed.

import { api } from "../api.js";
import { digestOf } from "./streams.js";

const FINAL = { 4401: "signed-out", 4403: "no-place", 4404: "no-place" };
const PAUSES = [500, 1000, 2000, 4000, 8000, 15000];
const PING_EVERY = 25000;
const ANSWER_WITHIN = 10000;

/** Keep `store` fed from the room's socket for as long as the page lives. */
export class RoomLink {
  constructor({ roomId, store }) {
    this.roomId = roomId;
    this.store = store;
    this.tries = 0;
    this.asked = new Map();
    this.socket = null;
    this.timer = null;
    addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.hurry());
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", (event) => event.persisted && this.open());
    store.watch((state) => this.mend(state));
  }

  open() {
    clearTimeout(this.timer);
    const state = this.store.state;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const resume = state.ready ? `?after=${state.position}` : "";
    const socket = new WebSocket(`${scheme}://${location.host}/ws/rooms/${this.roomId}/${resume}`);
    this.socket = socket;
    let greeted = false;
    socket.addEventListener("message", ({ data }) => {
      if (this.socket !== socket) return;
      this.heard();
      const message = JSON.parse(data);
      if (message.type === "pong") return;
      if (message.type === "hello") {
        greeted = true;
        this.tries = 0;
        this.asked.clear();
      }
      this.store.send(message);
      if (message.type === "stream.delta" || message.type === "stream.text") this.check(message);
    });
    socket.addEventListener("close", ({ code }) => {
      if (this.socket !== socket) return;
      this.socket = null;
      clearInterval(this.pinging);
      clearTimeout(this.silence);
      this.lost(code, greeted);
    });
    this.pinging = setInterval(() => {
      if (socket.readyState !== WebSocket.OPEN) return;
      socket.send('{"type":"ping"}');
      this.silence = this.silence || setTimeout(() => this.restart(), ANSWER_WITHIN);
    }, PING_EVERY);
  }

  close() {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    clearInterval(this.pinging);
    if (socket !== null) socket.close(1000);
  }

  restart() {
    this.close();
    this.open();
  }

  heard() {
    clearTimeout(this.silence);
    this.silence = null;
  }

  hurry() {
    if (this.socket === null && this.store.state.link === "lost") this.open();
  }

  async lost(code, greeted) {
    let refusal = FINAL[code] || null;
    // A refusal before the handshake has no code of its own: the API knows which it was.
    if (refusal === null && !greeted && this.tries > 0) refusal = await this.askWhy();
    if (refusal !== null) {
      this.store.send({ type: "link", link: "refused", refusal });
      return;
    }
    this.store.send({ type: "link", link: "lost" });
    const pause = code === 4429 ? 30000 : PAUSES[Math.min(this.tries, PAUSES.length - 1)];
    this.tries += 1;
    this.timer = setTimeout(() => this.open(), pause * (0.75 + Math.random() / 2));
  }

  async askWhy() {
    try {
      await api("GET", `rooms/${this.roomId}`);
    } catch (problem) {
      if (problem.code === "not_authenticated") return "signed-out";
      if (problem.status === 403 || problem.status === 404) return "no-place";
    }
    return null;
  }

  async check({ stream }) {
    const known = this.store.state.streams[stream];
    if (known === undefined || !known.digest || known.broken) return;
    const { text, length, digest } = known;
    const found = await digestOf(text);
    if (found !== null && found !== digest) this.store.send({ type: "stream.mismatch", stream, length });
  }

  // After each change: ask for the whole text of a broken stream, resume after a missed event.
  mend(state) {
    if (this.socket === null || this.socket.readyState !== WebSocket.OPEN) return;
    if (state.gap && state.link === "open") {
      this.restart();
      return;
    }
    for (const stream of Object.values(state.streams)) {
      if (!stream.broken || stream.closed) continue;
      const last = this.asked.get(stream.stream) || 0;
      if (Date.now() - last < 1000) continue;
      this.asked.set(stream.stream, Date.now());
      this.socket.send(JSON.stringify({ type: "text", stream: stream.stream }));
    }
  }
}

/** Hold the state, and tell the watchers about each change, at most once a frame for painters. */
export class Store {
  constructor(state, reducer) {
    this.state = state;
    this.reducer = reducer;
    this.watchers = [];
    this.painters = [];
    this.waiting = false;
  }

  send(message) {
    const before = this.state;
    this.state = this.reducer(before, message);
    if (this.state === before) return;
    for (const watcher of this.watchers) watcher(this.state, before, message);
    this.paint();
  }

  watch(watcher) { this.watchers.push(watcher); }

  onPaint(painter) { this.painters.push(painter); }

  paint() {
    if (this.waiting) return;
    this.waiting = true;
    const run = () => {
      this.waiting = false;
      for (const painter of this.painters) painter(this.state);
    };
    // A hidden page gets no frames; its state still has to reach the title and the announcer.
    if (document.visibilityState === "visible") requestAnimationFrame(run);
    else setTimeout(run, 250);
  }
}
