// The approvals inbox: one request at a time, by mouse or by keyboard.

import { api } from "./api.js";
import { argumentsBox, loadRequest, peopleList, placeNote, questionsOf } from "./approval.js";
import { Decision } from "./decision.js";
import { announce, embedded, fill, h, icon } from "./dom.js";
import { agentPicture, problemNote, stateMark } from "./parts.js";
import { decisionWords, timeLeft } from "./words.js";

const page = embedded("inbox-page");
const inbox = document.querySelector(".inbox");
const list = document.getElementById("requests");
const view = document.getElementById("request");
let open = null;
let decision = null;
let json = false;

const items = () => [...list.querySelectorAll(".it")];

function mark() {
  for (const item of items()) {
    if (item.dataset.id === open) item.setAttribute("aria-current", "true");
    else item.removeAttribute("aria-current");
  }
}

async function show(id, { push = true } = {}) {
  open = id;
  decision = null;
  inbox.classList.add("open");
  mark();
  if (push) history.pushState({ id }, "", `/approvals/${id}/${location.search}`);
  fill(view, h("div", { class: "req late", "aria-busy": "true" }, [40, 70, 95, 95, 60].map((width) => h("span", { class: "skel", style: `width:${width}%` }))));
  try {
    const detail = await loadRequest(id);
    if (open !== id) return;
    render(detail);
    // On a phone the list is gone now, and the focus would be with it.
    if (push && list.offsetParent === null) view.querySelector("h2").focus();
  } catch (problem) {
    if (problem.status === undefined) throw problem;
    if (open === id) fill(view, h("div", { class: "req" }, problemNote(problem, () => show(id, { push: false }))));
  }
}

function back() {
  const item = items().find((one) => one.dataset.id === open);
  open = null;
  decision = null;
  inbox.classList.remove("open");
  mark();
  nothingOpen();
  if (item !== undefined) item.focus();
  history.pushState({}, "", `/approvals/${location.search}`);
}

function nothingOpen() {
  // An empty list says so itself.
  fill(view, items().length === 0 ? [] : h("div", { class: "empty" }, icon("inbox"),
    h("b", null, "Choose a request"), h("span", null, "What an agent wants to do, with every argument, appears here.")));
}

function roomName(detail) {
  const item = items().find((one) => one.dataset.id === detail.id);
  return (item && item.dataset.room) || "its room";
}

function quad(detail) {
  return h("div", { class: "quad" }, questionsOf(detail).map((question) => h("div", null,
    h("span", { class: "eyebrow" }, icon(question.icon), question.name),
    h("b", { class: question.bad ? "bad" : "" }, question.main),
    question.side ? h("span", { class: "sm m" }, question.side) : null)));
}

function argumentsPart(detail) {
  const place = h("div", null, argumentsBox(detail, { json }));
  const choose = (wanted) => () => {
    json = wanted;
    fill(place, argumentsBox(detail, { json }));
    for (const button of buttons) button.setAttribute("aria-pressed", String((button.dataset.as === "json") === json));
  };
  const button = (as, word) => h("button", { type: "button", "aria-pressed": String((as === "json") === json), data: { as }, on: { click: choose(as === "json") } }, word);
  const buttons = [button("rows", "Readable"), button("json", "JSON")];
  return [h("div", { class: "row" }, h("h3", null, "Exact arguments"), h("div", { class: "seg end", role: "group", "aria-label": "Arguments as" }, buttons)), place];
}

function whereLine(detail) {
  const mine = detail.decider.id === page.me.id;
  // Who gives a second yes need not take part in the room.
  const room = mine ? h("a", { class: "under", href: `/rooms/${detail.room}/` }, roomName(detail)) : roomName(detail);
  return h("span", { class: "grow" }, `${detail.agent.name}, acting as ${mine ? "you" : detail.decider.name} in `, room);
}

function waitsLine(detail) {
  if (!detail.may.answer) return "You agreed. Nothing has been done yet.";
  const two = detail.people.length > 1;
  return `${detail.agent.name} waits until ${two ? "two people agree" : "you decide"}. Nothing has been done yet.`;
}

function render(detail) {
  const pending = detail.state === "pending";
  const left = timeLeft(detail.expires_at);
  const act = h("div", { class: "act" });
  const buttons = h("div", { class: "row wrap grow" });
  const top = h("div", { class: "row sm m" }, agentPicture(detail.agent, { small: true }), whereLine(detail),
    pending ? h("span", { class: "tag wait", data: { until: detail.expires_at } }, icon("clock"), h("span", null, left.text)) : null);
  fill(view, h("div", { class: "req" }, top,
    h("h2", { class: "t", tabindex: "-1" }, detail.title || detail.tool),
    pending ? h("p", { class: "m" }, waitsLine(detail)) : null,
    placeNote(detail), quad(detail), peopleList(detail), argumentsPart(detail),
    detail.why ? h("details", { class: "disc card" }, h("summary", { class: "sm" }, icon("cright"), "Why you are asked"), h("p", { class: "sm m" }, detail.why)) : null,
    act));
  view.scrollTop = 0;
  if (!pending) {
    const last = detail.people.find((one) => one.said === false) || detail.people.find((one) => one.person !== null);
    fill(act, stateMark(decisionWords(detail.state, (last && last.person) || detail.decider, page.me)), detail.comment ? h("span", { class: "sm m" }, `“${detail.comment}”`) : null);
    return;
  }
  fill(act, buttons, h("span", { class: "xs f nw keys" }, h("kbd", null, "J"), " ", h("kbd", null, "K"), " next, previous"));
  decision = new Decision({
    element: buttons,
    onDecided: async (how, answer) => {
      announce({ approved: "Approved.", denied: "Denied.", edited: "Approved with your arguments." }[how]);
      const next = neighbour(1) || neighbour(-1);
      refresh();
      const follow = how !== "edited" && !(how === "approved" && answer && answer.state === "pending");
      if (follow && next && !next.classList.contains("past") && next.dataset.id !== detail.id && !matchMedia("(max-width: 860px)").matches) show(next.dataset.id);
      else show((how === "edited" && answer.approval && answer.approval.id) || detail.id, { push: how === "edited" });
    },
  });
  decision.show(detail);
}

function refresh() {
  document.body.dispatchEvent(new CustomEvent("kaizen:approvals"));
}

function neighbour(step) {
  const all = items();
  const place = all.findIndex((item) => item.dataset.id === open);
  return place < 0 ? all[step > 0 ? 0 : all.length - 1] : all[place + step];
}

list.addEventListener("click", (event) => {
  const item = event.target.closest(".it");
  if (item === null || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  show(item.dataset.id);
});
const pick = document.querySelector("[data-pick]");
if (pick !== null) pick.addEventListener("change", () => pick.submit());
document.querySelector(".back").addEventListener("click", (event) => { event.preventDefault(); back(); });
addEventListener("popstate", () => {
  const match = /^\/approvals\/([0-9a-f-]{36})\/$/.exec(location.pathname);
  if (match) show(match[1], { push: false });
  else { open = null; decision = null; inbox.classList.remove("open"); mark(); nothingOpen(); }
});
// The list is fetched anew now and then; the open request is left alone unless it was decided.
document.body.addEventListener("htmx:afterSettle", async (event) => {
  if (event.target !== list) return;
  mark();
  if (open === null) { nothingOpen(); return; }
  if (decision === null || !decision.idle) return;
  const item = items().find((one) => one.dataset.id === open);
  if (item !== undefined && !item.classList.contains("past")) return;
  const detail = await api("GET", `approvals/${open}`).catch(() => null);
  if (detail !== null && detail.state !== "pending" && detail.id === open) render(detail);
});

document.addEventListener("keydown", (event) => {
  if (event.target.closest("input:not([type=checkbox]), textarea, select, dialog[open]") && event.key !== "Escape") return;
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const letter = event.key.toLowerCase();
  if (letter === "j" || letter === "k") {
    const next = neighbour(letter === "j" ? 1 : -1);
    if (next !== undefined) { next.focus(); show(next.dataset.id); }
  } else if (letter === "escape") {
    if (decision === null || !decision.back()) back();
  } else if (decision !== null && decision.press(letter)) {
    event.preventDefault();
  }
});

setInterval(() => {
  const tag = view.querySelector("[data-until] > span");
  if (tag !== null) {
    const { text } = timeLeft(tag.parentElement.dataset.until);
    if (tag.textContent !== text) tag.textContent = text;
  }
}, 1000);

if (page.open) show(page.open, { push: false });
else nothingOpen();
