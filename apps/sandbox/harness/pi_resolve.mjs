// Say what a Pi package declares, as Pi's own package manager and resource loader see it.
//
// Nothing of the package is run here: manifests, skills, prompts and themes are read as data.

import fs from "node:fs";
import path from "node:path";
import { answer, asked, text } from "./channel.mjs";
import { EMPTY, sdk } from "./pi_sdk.mjs";

const ROOT = "/package";
const KINDS = ["extensions", "skills", "prompts", "themes"];

const { declared } = asked();
const pi = await sdk();
const settingsManager = pi.SettingsManager.inMemory();
const home = { cwd: EMPTY, agentDir: EMPTY, settingsManager };
const diagnostics = [];
const tell = (rule, place, message) =>
  diagnostics.push({ rule, path: text(place, 300), message: text(message, 500) });
const relative = (place) => path.relative(ROOT, place);

function inside(place) {
  let real;
  try {
    real = fs.realpathSync(place);
  } catch {
    return "";
  }
  return real.startsWith(`${ROOT}/`) ? real : "";
}

const resolved = await new pi.DefaultPackageManager(home).resolveExtensionSources([ROOT], {
  temporary: true,
});
const found = {};
for (const kind of KINDS) {
  found[kind] = [];
  for (const { path: place, enabled } of resolved[kind]) {
    if (!enabled) continue;
    const real = inside(place);
    if (real) found[kind].push(real);
    else tell("outside", relative(place), `One of the ${kind} lies outside the package.`);
  }
}

// Pi says nothing of an entry that matches no file, so each is looked at on its own.
for (const kind of KINDS) {
  for (const entry of declared[kind] ?? []) {
    if (entry.startsWith("!") || entry.startsWith("-")) continue;
    const plain = entry.startsWith("+") ? entry.slice(1) : entry;
    const places = /[*?[{]/.test(plain)
      ? fs.globSync(plain, { cwd: ROOT }).map((one) => path.join(ROOT, one))
      : [path.join(ROOT, plain)];
    const used = places.some((place) =>
      found[kind].some((one) => one === place || one.startsWith(`${place.replace(/\/+$/, "")}/`)),
    );
    if (!used) tell("no_match", `package.json.pi.${kind}`, `${entry} matches nothing that Pi would load.`);
  }
}

const loader = new pi.DefaultResourceLoader({
  ...home,
  noExtensions: true,
  noSkills: true,
  noPromptTemplates: true,
  noThemes: true,
  noContextFiles: true,
  additionalSkillPaths: found.skills,
  additionalPromptTemplatePaths: found.prompts,
  additionalThemePaths: found.themes,
});
await loader.reload();
const [skills, prompts, themes] = [loader.getSkills(), loader.getPrompts(), loader.getThemes()];
for (const [kind, said] of Object.entries({ skills, prompts, themes })) {
  for (const one of said.diagnostics ?? []) {
    tell(`${kind}_${one.type ?? "problem"}`, relative(one.path ?? ROOT), one.message ?? "It is not valid.");
  }
}
// A file that Pi passes over in silence was declared all the same.
for (const [kind, loaded] of [
  ["skills", skills.skills.map((one) => one.filePath)],
  ["prompts", prompts.prompts.map((one) => one.filePath)],
  ["themes", themes.themes.map((one) => one.sourcePath)],
]) {
  for (const place of found[kind]) {
    if (!loaded.some((one) => one === place || `${one}`.startsWith(`${place}/`))) {
      tell("not_loaded", relative(place), `Pi does not take it for one of the ${kind}.`);
    }
  }
}

answer({
  runtime: pi.VERSION,
  node: process.versions.node,
  extensions: found.extensions.map(relative),
  skills: skills.skills.map((one) => ({
    name: text(one.name, 200),
    description: text(one.description, 2000),
    path: relative(one.filePath),
    body: text(pi.stripFrontmatter(fs.readFileSync(one.filePath, "utf8")), 200_000),
  })),
  prompts: prompts.prompts.map((one) => ({
    name: text(one.name, 200),
    description: text(one.description ?? "", 2000),
    path: relative(one.filePath),
  })),
  themes: themes.themes.map((one) => ({ name: text(one.name, 200), path: relative(`${one.sourcePath}`) })),
  diagnostics: diagnostics.slice(0, 100),
});
