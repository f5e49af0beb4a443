// How does Markdown look while it is still being written? A small formatter that only makes elements
// and text; a link shows its words and leads nowhere. The saved page is rendered by the server.

import { h } from "../dom.js";

// Every search ahead has an end, because the text is a model's: it must not hold up the page.
const INLINE = /(?<!`)(`{1,8})(?!`)([\s\S]{1,1000}?)(?<!`)\1(?!`)|\*\*([\s\S]{1,1000}?)\*\*|__([\s\S]{1,1000}?)__|\*([^*\s][^*]{0,1000}?)\*|\b_([^_\s][^_]{0,1000}?)_\b|~~([\s\S]{1,1000}?)~~|!?\[([^[\]]{0,1000})\]\([^()\s]{0,1000}(?:\s{1,8}"[^"]{0,200}")?\)/;
// Deeper ones are shown as they are written.
const DEPTH = 12;

/** Format a line of text. */
export function inline(text) {
  const parts = [];
  let rest = text;
  for (let match = INLINE.exec(rest); match !== null && rest; match = INLINE.exec(rest)) {
    if (match.index > 0) parts.push(rest.slice(0, match.index));
    const [, , code, strong, strong2, em, em2, gone, link] = match;
    if (code !== undefined) parts.push(h("code", null, code.trim()));
    else if (strong !== undefined || strong2 !== undefined) parts.push(h("strong", null, inline(strong ?? strong2)));
    else if (em !== undefined || em2 !== undefined) parts.push(h("em", null, inline(em ?? em2)));
    else if (gone !== undefined) parts.push(h("s", null, inline(gone)));
    else parts.push(match[0].startsWith("!") ? `[${link}]` : h("span", { class: "mention" }, inline(link)));
    rest = rest.slice(match.index + match[0].length);
  }
  if (rest) parts.push(rest);
  return parts;
}

const ITEM = /^(\s*)(?:([-*+])|(\d{1,9})[.)])\s+(.*)$/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const DIVIDER = /^\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?$/;

function cells(line) {
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").map((cell) => cell.trim());
}

function headingOf(line) {
  const found = /^ {0,3}(#{1,6})\s+(\S.*)$/.exec(line.trimEnd());
  if (found === null) return null;
  let end = found[2].length;
  while (end > 0 && found[2][end - 1] === "#") end -= 1;
  return { level: found[1].length, text: found[2].slice(0, end).trimEnd() };
}

function listOf(lines, depth) {
  const first = ITEM.exec(lines[0]);
  const list = h(first[2] ? "ul" : "ol", first[3] && first[3] !== "1" ? { start: first[3] } : null);
  const indent = first[1].length;
  let inner = [];
  const close = () => {
    if (inner.length) list.lastElementChild.append(...format(inner.map((line) => line.slice(Math.min(line.search(/\S|$/), indent + 2))), depth + 1));
    inner = [];
  };
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item !== null && item[1].length <= indent) {
      close();
      list.append(h("li", null, inline(item[4])));
    } else {
      inner.push(line);
    }
  }
  close();
  return list;
}

/** Format lines as a list of elements. */
export function format(lines, depth = 0) {
  if (depth > DEPTH) return [h("p", null, lines.join("\n"))];
  const out = [];
  let place = 0;
  const takeWhile = (test) => {
    const from = place;
    while (place < lines.length && test(lines[place], place - from)) place += 1;
    return lines.slice(from, place);
  };
  while (place < lines.length) {
    const line = lines[place];
    const heading = headingOf(line);
    const fence = /^ {0,3}(```+|~~~+)/.exec(line);
    if (!line.trim()) {
      place += 1;
    } else if (fence !== null) {
      place += 1;
      const code = takeWhile((inner) => !inner.trimStart().startsWith(fence[1]));
      place += 1;
      out.push(h("pre", null, h("code", null, code.join("\n"))));
    } else if (heading !== null) {
      place += 1;
      out.push(h(`h${heading.level}`, null, inline(heading.text)));
    } else if (RULE.test(line)) {
      place += 1;
      out.push(h("hr"));
    } else if (/^\s*>/.test(line)) {
      out.push(h("blockquote", null, format(takeWhile((inner) => /^\s*>/.test(inner)).map((inner) => inner.replace(/^\s*> ?/, "")), depth + 1)));
    } else if (ITEM.test(line)) {
      out.push(listOf(takeWhile((inner, count) => count === 0 || ITEM.test(inner) || /^\s{2,}\S/.test(inner)), depth));
    } else if (line.includes("|") && DIVIDER.test((lines[place + 1] || "").trim()) && (lines[place + 1] || "").includes("-")) {
      const head = cells(line);
      place += 2;
      const rows = takeWhile((inner) => inner.includes("|"));
      out.push(h("table", null,
        h("thead", null, h("tr", null, head.map((cell) => h("th", null, inline(cell))))),
        h("tbody", null, rows.map((row) => h("tr", null, cells(row).slice(0, head.length).map((cell) => h("td", null, inline(cell))))))));
    } else {
      const text = takeWhile((inner, count) => inner.trim() && (count === 0 || !/^ {0,3}(#{1,6}\s|```|~~~|>)/.test(inner)) && (count === 0 || !ITEM.test(inner)));
      out.push(h("p", null, inline(text.join("\n"))));
    }
  }
  return out;
}

/** Format a text as a list of elements. */
export function markdown(text) {
  return format(text.replaceAll("\r\n", "\n").split("\n"));
}

/** The innermost element that ends where the text ends, so that a caret stands behind the last letter. */
export function endOf(element) {
  const last = [...element.childNodes].filter((node) => node.nodeType === 1 || node.data.trim()).pop();
  return last && last.nodeType === 1 && last.tagName !== "HR" ? endOf(last) : element;
}
