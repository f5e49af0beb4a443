"""Packages to test with: small, whole and valid, unless a test bends them."""

from __future__ import annotations

import json
from typing import Any

MODULE = b'''"""Temperatures."""


def convert(arguments):
    celsius = arguments["celsius"]
    return {"fahrenheit": celsius * 9 / 5 + 32}
'''
TESTS = b"""import unittest

from weather import convert


class Converting(unittest.TestCase):
    def test_water_boils(self):
        self.assertEqual(convert({"celsius": 100}), {"fahrenheit": 212})
"""


def definition(identity: str = "weather.convert", **changes: Any) -> dict[str, Any]:
    """A tool definition that reads."""
    return {
        "id": identity,
        "description": "Convert degrees Celsius to Fahrenheit.",
        "version": "1.0.0",
        "input": {
            "type": "object",
            "properties": {"celsius": {"type": "number"}},
            "required": ["celsius"],
            "additionalProperties": False,
        },
        "output": {"type": "object"},
        "mutating": False,
        **changes,
    }


def manifest(
    name: str = "weather", version: str = "1.0.0", *tools: dict[str, Any], **changes: Any
) -> dict[str, Any]:
    """A manifest; each of `tools` is a definition."""
    return {
        "name": name,
        "version": version,
        "ref": f"{name}@{version}",
        "format": "python",
        "tools": [
            {
                "definition": one,
                "collaboration_class": "actor_bound_read"
                if one.get("mutating") is False
                else "actor_bound_write",
                "entry": "weather:convert",
            }
            for one in (tools or (definition(),))
        ],
        **changes,
    }


def tree(
    name: str = "weather", version: str = "1.0.0", **changes: bytes | None
) -> dict[str, bytes]:
    """The files of a package; `changes` are given as `path_py=b"..."`, None removes one."""
    files: dict[str, bytes] = {
        "package.json": json.dumps({"name": name, "version": version}).encode(),
        "weather.py": MODULE,
        "test_weather.py": TESTS,
    }
    for word, content in changes.items():
        path = word.replace("_py", ".py")
        if content is None:
            files.pop(path, None)
        else:
            files[path] = content
    return files
