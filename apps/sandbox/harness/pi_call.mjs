// Run one tool of an approved Pi package once, as Pi would, with everything else of Pi left out.

import { MAX_MESSAGE, answer, asked, canonical, json, plain, raised, text } from "./channel.mjs";
import { EMPTY, ai, sdk } from "./pi_sdk.mjs";

const { path, tool, parameters, arguments: given, id, deadline_ms: most } = asked();
const pi = await sdk();
const { validateToolArguments } = await ai();
const reviewed = canonical(plain(parameters));

const contract = (message) => ({ kind: "contract", message: text(message) });

/** Make an object whose every function does nothing, as far as Pi asks for one. */
function inert(known = {}) {
  return new Proxy(known, {
    get: (target, name) => (name in target ? target[name] : name === "then" ? undefined : () => undefined),
  });
}

function context(loaded, signal) {
  const session = pi.SessionManager.inMemory(EMPTY);
  const runner = new pi.ExtensionRunner(loaded.extensions, loaded.runtime, EMPTY, session, undefined);
  runner.bindCore(
    inert({
      getActiveTools: () => [],
      getAllTools: () => [],
      getCommands: () => [],
      getSettings: () => ({}),
    }),
    inert({
      getScopedModels: () => [],
      isIdle: () => true,
      isProjectTrusted: () => false,
      getSignal: () => signal,
      hasPendingMessages: () => false,
      getSystemPrompt: () => "",
      getCallableTools: () => [],
      // Without it a nested call answers that there is none.
      executeTool: undefined,
    }),
    inert(),
  );
  return runner.createToolContext(id, signal);
}

/** Rebuild a result from the fields that Kaizen knows; everything else is left behind. */
function rebuilt(result) {
  const content = [];
  for (const part of result.content ?? []) {
    if (part?.type === "text" && typeof part.text === "string") {
      content.push({ type: "text", text: part.text.toWellFormed().replaceAll("\0", "?") });
    } else if (part?.type === "image" && typeof part.data === "string") {
      content.push({ type: "image", mimeType: text(part.mimeType ?? "", 100), data: part.data });
    } else {
      throw new TypeError("a part of its content is neither text nor an image");
    }
  }
  const value = { content };
  if (result.details !== undefined) value.details = json(result.details);
  if (result.structuredContent !== undefined) value.structuredContent = json(result.structuredContent);
  return value;
}

async function main() {
  const loaded = await pi.discoverAndLoadExtensions([`/package/${path}`], EMPTY, EMPTY, pi.createEventBus());
  if (loaded.errors.length > 0) return contract(loaded.errors[0].error);
  const definition = loaded.extensions[0]?.tools.get(tool)?.definition;
  if (!definition) return contract(`${path} registers no tool ${tool}.`);
  if (canonical(json(definition.parameters)) !== reviewed) {
    return contract(`${tool} has other parameters than those that were reviewed.`);
  }
  const control = new AbortController();
  const ended = new Promise((resolve) => {
    setTimeout(() => {
      control.abort(new Error("The deadline has passed."));
      // A tool that listens ends by itself within this; for any other it is over.
      setTimeout(resolve, 700, { kind: "aborted" });
    }, Math.max(0, most - performance.now()));
  });
  pi.initTheme("dark");
  const run = async () => {
    let result;
    try {
      const prepared = definition.prepareArguments ? definition.prepareArguments(given) : given;
      const call = { type: "toolCall", id, name: tool, arguments: prepared };
      const valid = validateToolArguments(definition, call);
      result = await definition.execute(id, valid, control.signal, () => {}, context(loaded, control.signal));
    } catch (problem) {
      return control.signal.aborted ? { kind: "aborted" } : raised(problem);
    }
    if (result === null || typeof result !== "object") return contract(`${tool} returned no result.`);
    try {
      const value = rebuilt(result);
      if (result.isError !== true) return { kind: "value", value };
      const said = value.content.map((part) => part.text ?? "").join("\n");
      return { kind: "stated", message: text(said || "The tool reported an error.", MAX_MESSAGE) };
    } catch (problem) {
      return contract(`${tool} returned something that Kaizen does not take: ${text(problem?.message ?? "", 300)}`);
    }
  };
  return Promise.race([run(), ended]);
}

answer(await main());
