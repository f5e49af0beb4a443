import { randomInt } from "node:crypto";

/** Roll dice of so many sides. */
export function roll(sides: number, times: number): number[] {
  return Array.from({ length: times }, () => randomInt(1, sides + 1));
}
