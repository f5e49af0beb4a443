import assert from "node:assert";
import test from "node:test";
import dice from "./extensions/dice.ts";
import { roll } from "./roll.ts";

test("every number lies on the die", () => {
  for (const number of roll(6, 200)) assert.ok(number >= 1 && number <= 6);
});

test("the extension registers one tool", () => {
  const names: string[] = [];
  dice({ registerTool: (tool: { name: string }) => names.push(tool.name) } as never);
  assert.deepEqual(names, ["roll"]);
});
