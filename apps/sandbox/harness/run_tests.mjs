// Run a package's own tests with Node's runner, on a writable copy of the tree, and count them.
//
// This process imports nothing of the package: each test file runs in a process of its own. The
// counts are a claim of the code under test all the same.

import fs from "node:fs";
import path from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { answer } from "./channel.mjs";

const HOME = "/workspace";
const TREE = `${HOME}/package`;
const SDK = "/runtime/pi/node_modules";
const SUFFIX = /\.(?:[cm]?js|[cm]?ts)$/;
const NAMED = /(?:[.\-_]test|^test|^test-.*)\.(?:[cm]?js|[cm]?ts)$/;
// What a Pi package finds without bringing it, under its present and its earlier names.
const HOSTS = {
  "@earendil-works/pi-ai": "@earendil-works/pi-ai",
  "@earendil-works/pi-agent-core": "@earendil-works/pi-agent-core",
  "@earendil-works/pi-coding-agent": "@earendil-works/pi-coding-agent",
  "@earendil-works/pi-tui": "@earendil-works/pi-tui",
  "@mariozechner/pi-ai": "@earendil-works/pi-ai",
  "@mariozechner/pi-agent-core": "@earendil-works/pi-agent-core",
  "@mariozechner/pi-coding-agent": "@earendil-works/pi-coding-agent",
  "@mariozechner/pi-tui": "@earendil-works/pi-tui",
  typebox: "typebox",
  "@sinclair/typebox": "typebox",
};

function copy(from, to) {
  fs.mkdirSync(to);
  for (const entry of fs.readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    if (entry.isDirectory()) copy(source, target);
    else fs.writeFileSync(target, fs.readFileSync(source));
  }
}

function tests(folder, inside = false) {
  return fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const place = path.join(folder, entry.name);
    if (entry.isDirectory()) return tests(place, inside || entry.name === "test");
    return NAMED.test(entry.name) || (inside && SUFFIX.test(entry.name)) ? [place] : [];
  });
}

copy("/package", TREE);
process.chdir(TREE);
if (process.argv[2] === "pi") {
  for (const [name, real] of Object.entries(HOSTS)) {
    const link = `${HOME}/node_modules/${name}`;
    fs.mkdirSync(path.dirname(link), { recursive: true });
    fs.symlinkSync(`${SDK}/${real}`, link);
  }
}

const files = tests(TREE).sort();
const counts = { ran: 0, failed: 0, skipped: 0, names: [] };
const stream = run({ files, concurrency: 1 });
const note = (failed) => (event) => {
  // A suite holds tests and is none; a file counts only where it failed before its tests began.
  const whole = event.nesting === 0 && files.includes(event.name) && event.name === event.file;
  if (event.details?.type === "suite" || (whole && !failed)) return;
  counts.ran += 1;
  if (event.skip !== undefined || event.todo !== undefined) counts.skipped += 1;
  else if (failed) {
    counts.failed += 1;
    if (counts.names.length < 20) counts.names.push(`${event.name}`.toWellFormed().slice(0, 200));
  }
};
stream.on("test:pass", note(false));
stream.on("test:fail", note(true));
const report = stream.compose(new spec());
report.pipe(process.stdout);
report.on("end", () => {
  process.stdout.write("", () =>
    answer({ ...counts, runtime: process.versions.node }, counts.failed > 0 ? 1 : 0),
  );
});
