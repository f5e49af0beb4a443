// Call one exported function of a package inside a sandbox and answer with what it returned.

import { answer, asked, json, raised, text } from "./channel.mjs";

const [path, name] = [process.argv[2], process.argv[3]];
const given = asked();

async function main() {
  let found;
  try {
    found = await import(`file:///package/${path}`);
  } catch (problem) {
    return raised(problem);
  }
  const called = found[name] ?? found.default?.[name];
  if (typeof called !== "function") {
    return { kind: "contract", message: text(`${path} exports no function ${name}.`) };
  }
  let value;
  try {
    value = await called(given);
  } catch (problem) {
    return raised(problem);
  }
  try {
    return { kind: "value", value: json(value) };
  } catch (problem) {
    const said = text(problem?.message ?? problem, 500);
    return { kind: "contract", message: `${path}#${name} returned something that is not JSON: ${said}` };
  }
}

answer(await main());
