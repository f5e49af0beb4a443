"""Pi packages to test with: small, whole and valid, unless a test bends them."""

from __future__ import annotations

import json
from typing import Any

EXTENSION = b"""import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";

export default function (pi: ExtensionAPI) {
  pi.registerTool({
    name: "roll",
    label: "Roll",
    description: "Roll a die.",
    parameters: Type.Object({ sides: Type.Integer({ minimum: 2 }) }),
    async execute(_id, params) {
      const text = `a ${params.sides}`;
      return { content: [{ type: "text", text }], details: { most: params.sides } };
    },
  });
}
"""
TESTS = b"""import test from "node:test";
import assert from "node:assert";
import extension from "./extensions/dice.ts";

test("registers the die", () => {
  const names: string[] = [];
  extension({ registerTool: (tool: { name: string }) => names.push(tool.name) } as never);
  assert.deepEqual(names, ["roll"]);
});
"""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"sides": {"type": "integer", "minimum": 2}},
    "required": ["sides"],
}
BODY = "Roll the die that the member names, once.\n"
SKILL = f"---\nname: rolling\ndescription: How to roll.\n---\n{BODY}".encode()


def package_json(name: str = "dice", version: str = "1.0.0", **changes: Any) -> bytes:
    """A package.json of a Pi package; a change to None removes a field."""
    fields = {
        "name": name,
        "version": version,
        "type": "module",
        "keywords": ["pi-package"],
        "pi": {"extensions": ["./extensions/dice.ts"]},
        "peerDependencies": {"@earendil-works/pi-coding-agent": "*", "typebox": "*"},
        **changes,
    }
    return json.dumps({key: value for key, value in fields.items() if value is not None}).encode()


def manifest(name: str = "dice", version: str = "1.0.0", **changes: Any) -> dict[str, Any]:
    """A manifest that promises what the extension registers."""
    return {
        "name": name,
        "version": version,
        "ref": f"{name}@{version}",
        "format": "pi",
        "tools": [
            {
                "definition": {
                    "id": f"{name}.roll",
                    "description": "Roll a die.",
                    "version": "1.0.0",
                    "input": SCHEMA,
                    "output": {"type": "object"},
                    "mutating": False,
                },
                "collaboration_class": "actor_bound_read",
                "entry": "extensions/dice.ts#roll",
            }
        ],
        **changes,
    }


def tree(**changes: Any) -> dict[str, bytes]:
    """The files of the package; `package` and `extension` change one, `files` add others."""
    return {
        "package.json": changes.get("package", package_json()),
        "extensions/dice.ts": changes.get("extension", EXTENSION),
        "dice.test.ts": TESTS,
        **changes.get("files", {}),
    }


def skill_manifest(**changes: Any) -> dict[str, Any]:
    """A manifest of instructions alone."""
    skill = {"name": "rolling", "path": "skills/rolling/SKILL.md", "body": BODY}
    return manifest(tools=[], skills=[skill], **changes)


def skill_tree(skill: bytes = SKILL, **package: Any) -> dict[str, bytes]:
    """The files of a package of instructions alone; it has no tests."""
    package.setdefault("pi", {"skills": ["./skills"]})
    return {
        "package.json": package_json(**package),
        "skills/rolling/SKILL.md": skill,
    }
