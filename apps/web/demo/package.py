"""Which package does the demonstration bring along?"""

from __future__ import annotations

import json
from typing import Any

_CODE = '''"""Counts what a text is made of."""

import re


def count(arguments):
    """Return how many words, sentences and characters a text has, and its longest word."""
    text = arguments["text"]
    words = re.findall(r"[\\w'-]+", text)
    return {
        "words": len(words),
        "sentences": len(re.findall(r"[.!?]+(?:\\s|$)", text)),
        "characters": len(text),
        "longest": max(words, key=len, default=""),
    }
'''

_TESTS = """import unittest

from tally.counting import count


class Counting(unittest.TestCase):
    def test_it_counts_words_and_sentences(self):
        found = count({"text": "One two three. Four!"})
        self.assertEqual((found["words"], found["sentences"]), (4, 2))

    def test_nothing_has_no_words(self):
        self.assertEqual(count({"text": ""})["words"], 0)

    def test_the_longest_word_is_named(self):
        self.assertEqual(count({"text": "a long sentence"})["longest"], "sentence")


if __name__ == "__main__":
    unittest.main()
"""


def manifest(suffix: str) -> dict[str, Any]:
    """Return the manifest of a package whose names no other demonstration has used."""
    name = f"tally-{suffix}"
    return {
        "name": name,
        "version": "1.0.0",
        "ref": f"{name}@1.0.0",
        "format": "python",
        "description": "Counts words, sentences and characters of a text.",
        "tools": [
            {
                "definition": {
                    "id": f"tally-{suffix}.count",
                    "description": "Count the words, sentences and characters of a text.",
                    "version": "1.0.0",
                    "input": {
                        "type": "object",
                        "properties": {"text": {"type": "string", "maxLength": 4000}},
                        "required": ["text"],
                        "additionalProperties": False,
                    },
                    "output": {
                        "type": "object",
                        "properties": {
                            "words": {"type": "integer"},
                            "sentences": {"type": "integer"},
                            "characters": {"type": "integer"},
                            "longest": {"type": "string"},
                        },
                        "required": ["words", "sentences", "characters", "longest"],
                    },
                    "limits": {"memMB": 128, "cpuMs": 5000},
                    "network": {"kind": "none"},
                },
                "collaboration_class": "actor_bound_write",
                "entry": "tally.counting:count",
            }
        ],
    }


def files(suffix: str) -> dict[str, str]:
    """Return the file tree of that package."""
    return {
        "package.json": json.dumps({"name": f"tally-{suffix}", "version": "1.0.0"}, indent=2),
        "tally/__init__.py": "",
        "tally/counting.py": _CODE,
        "tests/__init__.py": "",
        "tests/test_counting.py": _TESTS,
    }
