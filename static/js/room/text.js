// How is a message set? Paragraphs, fenced code and mentions, from text and nothing else.

import { h } from "../dom.js";

const FENCE = /^```[^\n]*\n([\s\S]*?)(?:\n```[ \t]*$|$(?![\s\S]))/m;

function withMentions(text, known) {
  if (known.size === 0) return [text];
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(/@([\w-]+)/g)) {
    if (!known.has(match[1].toLowerCase())) continue;
    if (match.index > from) parts.push(text.slice(from, match.index));
    parts.push(h("span", { class: "mention" }, match[0]));
    from = match.index + match[0].length;
  }
  parts.push(text.slice(from));
  return parts;
}

/** Set a message. `known` holds the lower-case names that count as mentions. */
export function setMessage(text, known = new Set()) {
  const parts = [];
  let rest = text;
  const prose = (piece) => {
    for (const paragraph of piece.split(/\n{2,}/)) {
      if (paragraph.trim()) parts.push(h("p", null, withMentions(paragraph.replace(/^\n+|\n+$/g, ""), known)));
    }
  };
  for (let match = FENCE.exec(rest); match !== null; match = FENCE.exec(rest)) {
    prose(rest.slice(0, match.index));
    parts.push(h("pre", { tabindex: "0" }, h("code", null, match[1])));
    rest = rest.slice(match.index + match[0].length);
  }
  prose(rest);
  return parts;
}
