// Load a Pi package's extensions with Pi's own loader, in a sandbox that is thrown away, and report
// what they registered.
//
// Authored code runs here. It could only report for us if it knew the nonce, which was read and is
// gone before the first line of it is evaluated.

import { answer, asked, bytes, each, harden, json, text, written } from "./channel.mjs";
import { EMPTY, sdk } from "./pi_sdk.mjs";

let { nonce: word, paths } = asked();
// Kept as bytes: a snapshot of the heap, which anybody here may take, tells every text.
const nonce = bytes(word);
word = undefined;
const pi = await sdk();
const bus = pi.createEventBus();
const unsupported = [];
const tools = [];
const errors = [];
let [bound, listed, failed] = [0, 0, 0];

const RENDERERS = ["renderCall", "renderResult", "renderShell"];
const HOOKS = ["prepareLoadout", "reachesTools"];

function refuse(kind, name, place) {
  if (bound < 100) unsupported[bound] = { kind, name: text(name, 200), path: text(place, 300) };
  bound += 1;
}

const recording = {
  ...bus,
  on: (channel, handler) => {
    refuse("event_bus", channel, "");
    return bus.on(channel, handler);
  },
};

harden();
const loaded = await pi.discoverAndLoadExtensions(paths, EMPTY, EMPTY, recording);

for (const one of loaded.extensions) {
  each(one.tools, ({ definition }, name) => {
    const fields = { name: text(name, 200), path: text(one.path, 300), description: "", parameters: null };
    fields.description = text(definition.description ?? "", 4000);
    try {
      fields.parameters = json(definition.parameters);
    } catch (problem) {
      if (failed < 50) errors[failed++] = { path: fields.path, error: `The parameters of ${fields.name} are not JSON.` };
    }
    if (listed < 100) tools[listed] = fields;
    listed += 1;
    for (const hook of RENDERERS) if (definition[hook] !== undefined) refuse("tool_renderer", `${fields.name}.${hook}`, one.path);
    for (const hook of HOOKS) if (definition[hook] !== undefined) refuse("tool_hook", `${fields.name}.${hook}`, one.path);
  });
  const maps = [
    ["command", one.commands], ["flag", one.flags], ["shortcut", one.shortcuts],
    ["event", one.handlers], ["message_renderer", one.messageRenderers],
    ["entry_renderer", one.entryRenderers],
  ];
  for (const [kind, map] of maps) if (map) each(map, (_, name) => refuse(kind, name, one.path));
  for (const _ of one.toolRenderers ?? []) refuse("tool_renderer", "", one.path);
  if (one.markdownTransformer) refuse("markdown_transformer", "", one.path);
}
const { runtime } = loaded;
for (const one of runtime.pendingProviderRegistrations) refuse("provider", one.name, one.extensionPath);
for (const one of runtime.pendingNativeProviderRegistrations) refuse("provider", one.provider?.id, one.extensionPath);
for (const one of runtime.mcpServers.list()) refuse("mcp_server", one.name, one.extensionPath);
for (const one of runtime.pendingVirtualModelRegistrations) refuse("virtual_model", one.definition?.id, one.extensionPath);
for (const one of loaded.errors) {
  if (failed < 50) errors[failed++] = { path: text(one.path, 300), error: text(one.error, 1000) };
}

answer({ nonce: written(nonce), runtime: pi.VERSION, node: process.versions.node, tools, unsupported, errors });
