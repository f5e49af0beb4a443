// Speak to whoever started this sandbox: read what is asked, answer once on descriptor 3, leave.
//
// Everything that is used after authored code has run is taken here, before it runs. What is said
// is still only a claim, and is read as one.

import fs from "node:fs";

const { readFileSync, writeSync } = fs;
const { stringify, parse } = JSON;
const { isArray } = Array;
const { keys, create, setPrototypeOf, freeze, preventExtensions, getPrototypeOf } = Object;
const { from: bytesOf } = Buffer;
const { isFinite } = Number;
const leave = process.reallyExit.bind(process);
const join = Function.prototype.call.bind(Array.prototype.join);
const slice = Function.prototype.call.bind(String.prototype.slice);
const toWellFormed = Function.prototype.call.bind(String.prototype.toWellFormed);
const replaceAll = Function.prototype.call.bind(String.prototype.replaceAll);
const sort = Function.prototype.call.bind(Array.prototype.sort);
const subarray = Function.prototype.call.bind(Uint8Array.prototype.subarray);

export const each = Function.prototype.call.bind(Map.prototype.forEach);
export const sizeOf = (map) => {
  let size = 0;
  each(map, () => (size += 1));
  return size;
};

const MAX_DEPTH = 60;

/** Read the one JSON value that was sent; afterwards nothing of it is left to read. */
export function asked() {
  return parse(readFileSync(0, "utf8"));
}

/** Keep a text as bytes, and write such bytes as text again. */
export const bytes = (said) => bytesOf(said, "latin1");
export const written = Function.prototype.call.bind(Buffer.prototype.latin1Slice);

/** Characters of what is said of a failure; who shows it cuts it to size and says so. */
export const MAX_MESSAGE = 64 * 1024;

/** Return text that JSON and a database take, within a bound. */
export function text(value, most = 2000) {
  let said;
  try {
    said = typeof value === "string" ? value : `${value}`;
  } catch {
    said = "(no readable text)";
  }
  return replaceAll(toWellFormed(slice(said, 0, most)), "\0", "?");
}

/** Copy a JSON value into objects and arrays that inherit nothing, so that no hook of theirs acts. */
export function plain(value, depth = 0) {
  if (value === null || typeof value === "boolean" || typeof value === "string") return value;
  if (typeof value === "number") return isFinite(value) ? value : null;
  if (typeof value !== "object" || depth > MAX_DEPTH) return null;
  if (isArray(value)) {
    const copy = setPrototypeOf([], null);
    for (let index = 0; index < value.length; index += 1) copy[index] = plain(value[index], depth + 1);
    return copy;
  }
  const copy = create(null);
  const names = keys(value);
  for (let index = 0; index < names.length; index += 1) {
    if (value[names[index]] !== undefined) copy[names[index]] = plain(value[names[index]], depth + 1);
  }
  return copy;
}

/** Turn what an author returned into JSON once; a value of its own class decides how it looks. */
export function json(value) {
  const said = stringify(value);
  return said === undefined ? null : plain(parse(said));
}

/** Return the one text of a JSON value: keys in order, so that two can be compared. */
export function canonical(value) {
  if (value === null || typeof value !== "object") return stringify(value);
  const parts = [];
  if (isArray(value)) {
    for (let index = 0; index < value.length; index += 1) parts[index] = canonical(value[index]);
    return `[${join(parts, ",")}]`;
  }
  const names = sort(keys(value));
  for (let index = 0; index < names.length; index += 1) {
    parts[index] = `${stringify(names[index])}:${canonical(value[names[index]])}`;
  }
  return `{${join(parts, ",")}}`;
}

/** Answer once and leave at once, without waiting for timers, sockets or listeners. */
export function answer(value, code = 0) {
  const body = bytesOf(stringify(plain(value)), "utf8");
  const { length } = body;
  const head = bytesOf([length >>> 24, (length >>> 16) & 255, (length >>> 8) & 255, length & 255]);
  write(head);
  write(body);
  leave(code);
}

function write(bytes) {
  let rest = bytes;
  while (rest.length > 0) rest = subarray(rest, writeSync(3, rest));
}

/** Describe what an author's code threw. */
export function raised(problem) {
  const is = problem !== null && typeof problem === "object";
  let name = "Error";
  let message = problem;
  let trace = "";
  try {
    name = is ? (problem.constructor?.name ?? problem.name ?? name) : typeof problem;
    message = is ? problem.message : problem;
    trace = is ? problem.stack : "";
  } catch {
    message = "(no readable text)";
  }
  return {
    kind: "raised",
    type: text(name, 200),
    message: text(message, MAX_MESSAGE),
    traceback: text(trace ?? "", 8000),
  };
}

/** Close what authored code could turn against the observation, as far as packages still load. */
export function harden() {
  const iterators = [
    [][Symbol.iterator](), new Map()[Symbol.iterator](), new Set()[Symbol.iterator](),
    ""[Symbol.iterator](),
  ];
  for (const one of iterators) freeze(getPrototypeOf(one));
  freeze(getPrototypeOf(getPrototypeOf(iterators[0])));
  for (const one of [Map, Set, WeakMap, WeakSet, Array, Promise]) {
    freeze(one);
    freeze(one.prototype);
  }
  for (const one of [JSON, Reflect, Object, Buffer]) freeze(one);
  // A `then` or `toJSON` there would be asked of every object that passes.
  preventExtensions(Object.prototype);
}

