// The room page: one store, one link to the server, and the painters that show what the store says.

import { api } from "../api.js";
import { announce, attribute, embedded, fill, h, icon, say } from "../dom.js";
import { ArtifactPane } from "./artifact.js";
import { Change } from "./change.js";
import { Compose } from "./compose.js";
import { RoomLink, Store } from "./link.js";
import { People } from "./people.js";
import { markWork } from "./place.js";
import { initial, reduce } from "./store.js";
import { Timeline } from "./timeline.js";
import { Workspace } from "./workspace.js";

const find = (name) => document.querySelector(`[data-${name}]`);
const page = embedded("room-page");
const store = new Store(initial(page), reduce);
if (page.snapshot) store.state = reduce(store.state, { type: "hello", room: page.room, me: page.me, position: page.position, snapshot: page.snapshot });
if (page.snapshot) store.state = { ...store.state, link: "connecting" };

async function stop(run) {
  try {
    await api("POST", `runs/${run}/stop`, {});
  } catch (problem) {
    if (problem.status === undefined) throw problem;
    announce(problem.message);
    showTrouble(problem.message);
  }
}

function showTrouble(text) {
  const trouble = find("trouble");
  fill(trouble, icon("fail"), h("span", null, text));
  trouble.hidden = false;
  setTimeout(() => { trouble.hidden = true; }, 8000);
}

const change = new Change({ dialog: find("change"), store });
const pane = new ArtifactPane({ element: find("artifact"), mini: find("mini"), store, stop, change: (artifact) => change.show(artifact) });
const timeline = new Timeline({
  element: find("timeline"), toEnd: find("to-end"), store,
  openArtifact: (id, version) => pane.open(id, version),
  stop,
  showPeople: () => people.show(),
  loadOlder: async () => {
    const first = store.state.items.length ? store.state.items[0].position : store.state.position + 1;
    const after = Math.max(0, first - 201);
    try {
      const answer = await api("GET", `rooms/${store.state.room.id}/events?after=${after}&limit=200`);
      store.send({ type: "older", items: answer.results });
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      showTrouble(problem.message);
    }
  },
});
const people = new People({ head: find("faces"), count: find("faces-count"), dialog: find("people"), closeDialog: find("close-room"), store });
const workspace = new Workspace({ dialog: find("workspace"), confirm: find("delete-workspace"), store });
const form = find("compose");
const compose = new Compose({ form, store, timeline });
const link = new RoomLink({ roomId: page.room.id, store });

// ── what is said aloud, once, when it is finished ──
store.watch((state, before, message) => {
  if (message.type !== "event" || state.position === before.position) return;
  const { kind, data } = message;
  if (kind === "message.posted" && data.author.id !== state.me.id) announce(`${data.author.name}: ${data.text.slice(0, 600)}`);
  if (kind === "approval.requested") {
    const mine = data.decider && data.decider.id === state.me.id;
    announce(mine ? `Waiting for you: ${data.title}` : `Waiting for ${data.decider ? data.decider.name : "its member"}: ${data.title}`);
  }
  if (kind === "call.settled" && data.outcome === "ambiguous") announce(`Outcome unknown: ${data.title}`);
});
// The count of waiting questions in the navigation moves with the room.
store.watch((state, before, message) => {
  if (message.type === "event" && message.kind.startsWith("approval.")) document.body.dispatchEvent(new CustomEvent("kaizen:approvals"));
});

// ── the connection ──
let quietSince = null;
const banner = find("banner");

function paintLink(state) {
  if (state.link === "refused") {
    const signedOut = state.refusal === "signed-out";
    banner.hidden = false;
    fill(banner, icon("lock"), h("span", { class: "grow" }, h("b", null, signedOut ? "You are signed out." : "You no longer take part in this room."), " ",
      signedOut ? "What you typed is kept." : "What you see is what was said until then."),
    h("a", { class: "btn s", href: signedOut ? `/sign-in/?next=${encodeURIComponent(location.pathname)}` : "/rooms/" }, signedOut ? "Sign in" : "Your rooms"));
    return;
  }
  if (state.link === "open") {
    quietSince = null;
    banner.hidden = true;
    return;
  }
  quietSince = quietSince || Date.now();
  const long = Date.now() - quietSince > 1500;
  if (long && banner.hidden) fill(banner, icon("load", "spin"), h("span", null, h("b", null, state.ready ? "Reconnecting." : "Connecting."), " Your text is kept; you will catch up by itself."));
  banner.hidden = !long;
  if (!long) setTimeout(() => paintLink(store.state), 1600 - (Date.now() - quietSince));
}

// ── who works, what waits ──
const working = find("working");
const place = document.querySelector(".nav.rooms a[aria-current]");

function paintWorking(state) {
  const runs = Object.values(state.runs);
  const mine = runs.filter((run) => run.member.id === state.me.id);
  const hidden = timeline.hiddenCards();
  working.hidden = runs.length === 0;
  markWork(place, runs.length > 0);
  const run = mine[0] || runs[0];
  const asked = run && Object.values(state.approvals).filter((one) => one.run === run.id && one.state === "pending");
  const waits = asked && asked.length > 0;
  const agreed = waits && asked.every((one) => (one.agreed || []).some((by) => by.id === run.member.id));
  const me = state.participants.find((one) => one.id === state.me.id);
  const stoppable = mine.length > 0 || (me !== undefined && me.role === "owner");
  const seen = JSON.stringify([run, runs.length, hidden.length, waits, agreed, stoppable]);
  if (working.seen === seen) return;
  working.seen = seen;
  if (!run) return;
  const whom = mine.length ? "you" : run.member.name;
  const others = runs.length > 1 ? `, and ${runs.length - 1} more ${runs.length === 2 ? "agent works" : "agents work"}` : "";
  const words = run.state === "parked" && waits ? `${run.agent.name} waits for ${agreed ? "a second person" : whom}` : `${run.agent.name} is working for ${whom}`;
  fill(working,
    run.state === "parked" && waits ? h("span", { class: "ico wait" }, icon("hand")) : h("span", { class: "pulse" }),
    h("span", { class: "grow clip" }, words + others),
    hidden.length ? h("button", { class: "btn s wait", type: "button", on: { click: () => showCard(hidden[0]) } }, icon("hand"), `${hidden.length} waits for you`) : null,
    stoppable ? h("button", { class: "btn s danger", type: "button", on: { click: () => stop(run.id) } },
      icon("stop"), "Stop", h("span", { class: "sr" }, ` ${run.agent.name}`), mine.length ? h("kbd", { "aria-hidden": "true" }, "Esc") : null) : null);
}

function showCard(card) {
  timeline.following = false;
  card.element.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  card.element.focus({ preventScroll: true });
}

find("timeline").addEventListener("scroll", () => paintWorking(store.state), { passive: true });

function paintRoom(state) {
  say(find("room-name"), state.room.name);
  attribute(form, "hidden", Boolean(state.room.closed));
  attribute(find("closed"), "hidden", !state.room.closed);
  const waiting = Object.values(state.approvals).filter((one) => one.state === "pending" && one.decider && one.decider.id === state.me.id).length;
  document.title = `${waiting ? `(${waiting}) ` : ""}${state.room.name} · Kaizen`;
  attribute(find("loading"), "hidden", state.ready);
}

for (const painter of [paintLink, paintRoom, (state) => people.paint(state), (state) => compose.paint(state), (state) => pane.paint(state), (state) => timeline.paint(state), paintWorking]) store.onPaint(painter);

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
  const mine = Object.values(store.state.runs).find((run) => run.member.id === store.state.me.id);
  if (mine) stop(mine.id);
});
for (const button of document.querySelectorAll("[data-show-people]")) {
  button.addEventListener("click", () => people.show({ inviting: button.hasAttribute("data-inviting") }));
}
find("show-workspace").addEventListener("click", () => workspace.show());

store.paint();
link.open();
