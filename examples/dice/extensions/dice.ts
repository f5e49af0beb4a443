import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";
import { roll } from "../roll.ts";

export default function dice(pi: ExtensionAPI) {
  pi.registerTool({
    name: "roll",
    label: "Roll dice",
    description: "Roll dice and return what each shows.",
    parameters: Type.Object({
      sides: Type.Integer({ minimum: 2, maximum: 100 }),
      times: Type.Optional(Type.Integer({ minimum: 1, maximum: 20 })),
    }),
    async execute(_id, { sides, times }) {
      const rolled = roll(sides, times ?? 1);
      return { content: [{ type: "text", text: rolled.join(", ") }], details: { rolled } };
    },
  });
}
