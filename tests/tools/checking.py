"""Ask `manage.py tools check`, and read what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

Write = Callable[..., Path]


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, the report, and the lines for people."""
    code = 0
    try:
        call_command("tools", "check", *words)
    except SystemExit as ended:
        code = int(ended.code or 0)
    said = capsys.readouterr()
    return code, json.loads(said.out), said.err


def rules(report: dict[str, Any]) -> set[str]:
    """Every rule that something in a report breaks."""
    found = {problem["rule"] for problem in report["problems"]}
    for scope in report["scopes"]:
        found |= {problem["rule"] for problem in scope["problems"]}
        found |= {problem["rule"] for tool in scope["tools"] for problem in tool["problems"]}
    return found
