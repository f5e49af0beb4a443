// What changed between two texts? Lines side by side, with long unchanged stretches folded.

import { h, icon } from "../dom.js";

const AROUND = 3;
const MOST = 4_000_000;

/** Pair the lines of two texts: `[{left, right}]`, each a line number from 0 or null. */
export function pairLines(before, after) {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  const a = before.slice(head, before.length - tail);
  const b = after.slice(head, after.length - tail);
  const pairs = [];
  for (let line = 0; line < head; line += 1) pairs.push({ left: line, right: line });
  pairs.push(...middle(a, b).map(({ left, right }) => ({ left: left === null ? null : left + head, right: right === null ? null : right + head })));
  for (let line = tail; line > 0; line -= 1) pairs.push({ left: before.length - line, right: after.length - line });
  return pairs;
}

// The longest common run of lines; two texts too large to compare are shown as replaced whole.
function middle(a, b) {
  if (a.length * b.length > MOST) return aligned(a.map((_, left) => left), b.map((_, right) => right));
  const width = b.length + 1;
  const best = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      best[i * width + j] = a[i] === b[j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  const pairs = [];
  let gone = [];
  let come = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      pairs.push(...aligned(gone, come), { left: i, right: j });
      gone = [];
      come = [];
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && best[(i + 1) * width + j] >= best[i * width + j + 1])) {
      gone.push(i);
      i += 1;
    } else {
      come.push(j);
      j += 1;
    }
  }
  pairs.push(...aligned(gone, come));
  return pairs;
}

function aligned(gone, come) {
  const pairs = [];
  for (let row = 0; row < Math.max(gone.length, come.length); row += 1) {
    pairs.push({ left: gone[row] ?? null, right: come[row] ?? null });
  }
  return pairs;
}

/** A table of two texts side by side. */
export function diffTable(beforeText, afterText, titles) {
  const before = beforeText.split("\n");
  const after = afterText.split("\n");
  const pairs = pairLines(before, after);
  const same = ({ left, right }) => left !== null && right !== null && before[left] === after[right];
  const near = pairs.map(() => false);
  pairs.forEach((pair, place) => {
    if (same(pair)) return;
    for (let other = Math.max(0, place - AROUND); other <= Math.min(pairs.length - 1, place + AROUND); other += 1) near[other] = true;
  });
  const rows = [];
  for (let place = 0; place < pairs.length; place += 1) {
    if (near[place]) {
      rows.push(rowOf(pairs[place], before, after, same(pairs[place])));
      continue;
    }
    let end = place;
    while (end < pairs.length && !near[end]) end += 1;
    rows.push(foldOf(pairs.slice(place, end), before, after));
    place = end - 1;
  }
  return h("div", null, h("div", { class: "dh" }, titles.map((title) => h("span", null, title))),
    h("table", { class: "diff" },
      h("colgroup", null, h("col", { class: "ln" }), h("col"), h("col", { class: "ln" }), h("col")), h("tbody", null, rows)));
}

function rowOf({ left, right }, before, after, same) {
  const lost = same ? "" : left === null ? "e" : "d";
  const won = same ? "" : right === null ? "e" : "a";
  const mark = (sign) => (same ? null : h("span", { class: "sr" }, sign));
  return h("tr", null,
    h("td", { class: `ln ${lost}` }, left === null ? "" : left + 1),
    h("td", { class: lost }, left === null ? "" : [mark("removed: "), before[left]]),
    h("td", { class: `ln x ${won}` }, right === null ? "" : right + 1),
    h("td", { class: won }, right === null ? "" : [mark("added: "), after[right]]));
}

function foldOf(pairs, before, after) {
  const words = pairs.length === 1 ? "1 unchanged line" : `${pairs.length} unchanged lines`;
  const row = h("tr", { class: "gap" }, h("td", { colspan: "4" }, h("button", {
    class: "btn quiet s", type: "button",
    on: { click: () => row.replaceWith(...pairs.map((pair) => rowOf(pair, before, after, true))) },
  }, icon("cdown"), words)));
  return row;
}

/** A text with line numbers. */
export function sourceTable(text) {
  return h("table", { class: "diff" }, h("colgroup", null, h("col", { class: "ln" }), h("col")),
    h("tbody", null, text.split("\n").map((line, place) => h("tr", null, h("td", { class: "ln" }, place + 1), h("td", null, line)))));
}
