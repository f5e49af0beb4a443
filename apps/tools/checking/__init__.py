"""Are declarations fit to be used? Read and judged without running anything that they bring."""

from __future__ import annotations

from typing import Any

from django.db import DatabaseError

from apps.domain.problems import Problem
from apps.tools.checking.declarations import NotFound, declarations_of
from apps.tools.checking.selection import Audience, BadInvocation, Selection, read_selection
from apps.tools.checking.static import Sheet, judge
from apps.tools.checking.trial import try_tool

__all__ = ["BadInvocation", "check_tools", "read_selection"]


def check_tools(selection: Selection) -> dict[str, Any]:
    """Return the report on what a selection names, with what came of the one call, if any."""
    problems: list[Problem] = []
    sheets: list[Sheet] = []
    try:
        sheets = [judge(found, selection.socket) for found in declarations_of(selection)]
    except NotFound as refusal:
        problems.append(Problem("", "not_found", str(refusal)))
    except DatabaseError:
        problems.append(Problem("", "database", "The database of this deployment is not readable."))
    if selection.audience is Audience.HUMAN and not any(sheet.humans for sheet in sheets):
        message = "The declaration has no tools for people, so there is nothing to check."
        problems.append(Problem("audience", "unsupported", message))
    execution = try_tool(sheets, selection, selection.socket) if selection.executes else None
    ready = not problems and all(sheet.ready for sheet in sheets)
    return {
        "ready": ready and (execution is None or execution["ok"]),
        "problems": [problem.as_dict() for problem in problems],
        "scopes": [sheet.as_dict() for sheet in sheets],
        "execution": execution,
    }
