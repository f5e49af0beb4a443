// Run cells of JavaScript in one process that lives on, each asked for by a line on descriptor 3.
//
// A cell is the body of an async function: it may await, and what it returns is its value. What
// stays for the next cell is `state`, a JSON object; a cell that fails leaves it as it was. This file runs beside the code it carries out,
// so whatever it says is as untrusted as that code.

import { createRequire } from "node:module";
import { Socket } from "node:net";
import { inspect } from "node:util";
import { constants, runInThisContext } from "node:vm";

const SHOWN = 64 * 1024;
const channel = new Socket({ fd: 3, readable: true, writable: true });
const require = createRequire("/workspace/cell.js");

let kept = "{}";
let number = 0;
let waiting = null;
let busy = Promise.resolve();

const say = (what) => channel.write(JSON.stringify(what) + "\n");

function ask(name, args) {
  // One question at a time: the next one is put when the one before it is answered.
  const answer = busy.then(
    () =>
      new Promise((resolve, reject) => {
        waiting = { resolve, reject };
        say({ kind: "call", name, args });
      }),
  );
  busy = answer.catch(() => undefined);
  return answer;
}

const tools = Object.freeze({
  available: () => ask("tools.available", {}),
  call: (name, args = {}) => {
    if (typeof name !== "string" || name === "") throw new TypeError("A tool has a name.");
    return ask(name, args);
  },
});

Object.assign(globalThis, { tools, require });

function shown(text) {
  const bounded = text.length <= SHOWN ? text : text.slice(0, SHOWN) + " [...]";
  return bounded.toWellFormed().replaceAll("\0", "?");
}

async function carryOut(code) {
  number += 1;
  const head = "(async () => {";
  globalThis.state = JSON.parse(kept);
  try {
    const cell = runInThisContext(`${head}${code}\n})`, {
      filename: `cell-${number}.js`,
      columnOffset: -head.length,
      importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    });
    const value = await cell();
    const text = JSON.stringify(globalThis.state);
    if (text === undefined || text[0] !== "{") throw new TypeError("state is not a JSON object.");
    kept = text;
    return { kind: "done", ok: true, value: value === undefined ? null : shown(inspect(value)) };
  } catch (problem) {
    const is = problem instanceof Error;
    const trace = String((is && problem.stack) || "").split("\n");
    return {
      kind: "done",
      ok: false,
      type: shown(String(is ? problem.name : typeof problem)).slice(0, 200),
      message: shown(String(is ? problem.message : problem)).slice(0, 2000),
      traceback: shown(trace.filter((line) => !line.includes(import.meta.url)).join("\n")).slice(-8000),
    };
  }
}

function take(said) {
  if (said.kind === "answer" && waiting !== null) {
    const { resolve, reject } = waiting;
    waiting = null;
    if (said.ok) resolve(said.value);
    else reject(new Error(said.value));
  } else if (said.kind === "cell") {
    // What the cell asked and did not wait for is answered first.
    carryOut(said.code).then(async (done) => {
      await busy;
      say(done);
    });
  }
}

let unread = "";
channel.setEncoding("utf8");
channel.on("data", (text) => {
  const lines = (unread + text).split("\n");
  unread = lines.pop();
  for (const line of lines) take(JSON.parse(line));
});
channel.on("end", () => process.exit(0));
say({ kind: "ready" });
