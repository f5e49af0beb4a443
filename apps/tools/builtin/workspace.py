"""How does an agent read and edit the files of its workspace? Beside `run_code`, never without it.

Reading is a write too: it notes what was shown, and a workspace is no file surface for agents that
only read.
"""

from __future__ import annotations

from typing import Any, Final

from apps.domain.hashline import Edited, Refused, Rule, View
from apps.domain.hashline.views import MAX_VIEW_LINES
from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    DeclaredEffect,
    Effect,
    EffectDomain,
    EffectKind,
    FaultDomain,
    Guard,
    Reason,
    ToolFailure,
    ToolOk,
    specify,
)
from apps.domain.tooling.features import Feature
from apps.sandbox import editing
from apps.sandbox.editing import MAX_LISTED, Listing
from apps.sandbox.errors import (
    FileNotThere,
    FileRefused,
    MemoryMovedOn,
    WorkspaceBusy,
    WorkspaceFull,
)
from apps.tools.contract import CallContext, Tool

MAX_PATH: Final = 1_024
MAX_PATCH: Final = 1024 * 1024
_PATCH_CAP: Final = 4 * MAX_PATCH
"""A patch's JSON text can be several times its characters: escapes and multi-byte letters."""

_NOTHING: Final = "Nothing was written."
_STALE: Final = frozenset({Rule.STALE, Rule.UNKNOWN_TAG, Rule.UNSEEN_LINES})
_CONFLICTS: Final = frozenset(
    {
        Rule.OVERLAP,
        Rule.CONFLICTING_TAGS,
        Rule.DUPLICATE_TARGET,
        Rule.DESTINATION_EXISTS,
        Rule.AMBIGUOUS_BOUNDARY_ECHO,
        Rule.AMBIGUOUS_BOUNDARY_PLACEMENT,
        Rule.NO_CHANGE_REPEATED,
    }
)


def read_workspace(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
    """Return numbered lines of a file, or a page of the files of a folder."""
    try:
        found = editing.read_workspace(
            owner=context.member,
            room_id=context.room_id,
            deadline=context.deadline,
            path=arguments.get("path", ""),
            # JSON has one kind of number: 2.0 is a whole one.
            first=int(arguments.get("first_line", 1)),
            count=int(arguments.get("lines", MAX_VIEW_LINES)),
            after=arguments.get("after", ""),
        )
    except FileNotThere as refusal:
        return ToolFailure(Reason.NOT_FOUND, f"{refusal} Leave out path to list the files.")
    except FileRefused as refusal:
        return ToolFailure(Reason.INVALID_ARGUMENTS, str(refusal), details=dict(refusal.extra))
    except (WorkspaceBusy, MemoryMovedOn) as busy:
        return ToolFailure(Reason.CONFLICT, str(busy), retryable=True)
    return ToolOk(_listed(found) if isinstance(found, Listing) else _shown(found))


def edit_workspace(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
    """Carry out a Hashline patch as a whole, or refuse it."""
    try:
        result = editing.edit_workspace(
            owner=context.member,
            room_id=context.room_id,
            deadline=context.deadline,
            patch=arguments["patch"],
        )
    except WorkspaceFull as refusal:
        return ToolFailure(
            Reason.LIMIT_EXCEEDED, f"{refusal} {_NOTHING}", domain=FaultDomain.CALLER
        )
    except (WorkspaceBusy, MemoryMovedOn) as busy:
        return ToolFailure(Reason.CONFLICT, f"{busy} {_NOTHING}", retryable=True)
    return _done(result) if isinstance(result, Edited) else _refused(result)


def _shown(view: View) -> dict[str, Any]:
    return {
        "first_line": view.first,
        "last_line": view.last,
        "total_lines": view.lines,
        "text": view.text,
    }


def _listed(listing: Listing) -> dict[str, Any]:
    value: dict[str, Any] = {
        "files": [
            {"path": file.path, "bytes": file.size}
            | ({"executable": True} if file.executable else {})
            for file in listing.files
        ],
        "total": listing.total,
    }
    if listing.more:
        value["continue_after"] = listing.files[-1].path
    return value


def _done(result: Edited) -> ToolOk:
    return ToolOk(
        {
            "files": [
                {"path": section.path, "outcome": section.outcome.value}
                | ({"moved_from": section.source} if section.moved_to else {})
                | ({"header": f"[{section.path}#{section.tag}]"} if section.tag else {})
                for section in result.sections
            ],
            "answer": result.answer(),
        }
    )


def _refused(result: Refused) -> ToolFailure:
    details = {
        "rule": result.rule.value,
        "path": result.path,
        "row": result.row,
        "line": result.line,
        "shown": result.shown,
    }
    return ToolFailure(
        _reason_of(result.rule),
        f"{result.sentence} {_NOTHING}",
        # The lines are shown with the refusal, and the very same edit may be sent again.
        retryable=result.rule is Rule.UNSEEN_LINES,
        details={name: value for name, value in details.items() if value not in (None, "")},
        keeps_notes=True,
    )


def _reason_of(rule: Rule) -> Reason:
    if rule in _STALE:
        return Reason.STALE_FILE
    if rule in _CONFLICTS:
        return Reason.CONFLICT
    return Reason.NOT_FOUND if rule is Rule.FILE_NOT_FOUND else Reason.INVALID_ARGUMENTS


_GRAMMAR: Final = """\
Edit files of your workspace by the line numbers that read_workspace showed. One section for each \
file, under the header that the read gave; then hunks. All sections happen, or none.
[src/load.py#1A2B]
PUT 4.=5:
+the rows that take the place of lines 4 to 5; each begins with +
PUT >9:
+rows after line 9; <9: is before it, <1: the head of the file, >$: its tail
PUT 12*:
+rows that take the place of the block that begins on line 12; >12*: goes after it
CUT 20.=22 @name
PUT >30 @name
CUT takes lines out (20* a block), with or without a @name, and PUT without a colon pastes them, \
here or in another section; named ones also in later calls. REM alone removes the file, MV \
new/place.py moves it. A colon promises rows; without one there are none.
All numbers mean the text that the tag names, however many hunks there are. Only lines that were \
shown may be named. If others changed the file, the edit lands only where that is proved. Use the \
new header of the answer for the next edit. New files are made with run_code."""

TOOLS = (
    Tool(
        specify(
            name="read_workspace",
            title="Read the workspace",
            description=(
                "Read a file of your workspace of this room, the folder in which run_code starts,"
                " as numbered lines under a header [PATH#TAG] for edit_workspace. Without a path,"
                " or with a folder, it lists files. Continue with first_line, or with after, where"
                " there is more."
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string",
                        "maxLength": MAX_PATH,
                        "description": "A file or folder, relative to the workspace.",
                    },
                    "first_line": {"type": "integer", "minimum": 1},
                    "lines": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_VIEW_LINES,
                        "description": "At most so many lines.",
                    },
                    "after": {
                        "type": "string",
                        "maxLength": MAX_PATH,
                        "description": (
                            f"For a listing of more than {MAX_LISTED} files: the continue_after of"
                            " the last page."
                        ),
                    },
                },
                "additionalProperties": False,
            },
            effect=Effect.WRITE,
            capability=Capability.CODE_RUN,
            side_effects=(
                DeclaredEffect(EffectKind.READS, "workspace"),
                DeclaredEffect(EffectKind.WRITES, "workspace.notes"),
            ),
            guard=Guard.MEMBER_STORE,
            effect_domain=EffectDomain.OURS,
            collaboration=CollaborationClass.EXACT_ROOM,
            retry_safe=True,
            # A file may be what a program fetched or computed.
            outside_data=True,
        ),
        read_workspace,
        feature=Feature.CODE,
        needs_sandbox=True,
        goes_with="run_code",
    ),
    Tool(
        specify(
            name="edit_workspace",
            title="Edit the workspace",
            description=_GRAMMAR,
            input_schema={
                "type": "object",
                "properties": {
                    "patch": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": MAX_PATCH,
                        "description": "The whole patch, one section for each file.",
                    }
                },
                "required": ["patch"],
                "additionalProperties": False,
            },
            effect=Effect.WRITE,
            capability=Capability.CODE_RUN,
            side_effects=(
                DeclaredEffect(EffectKind.WRITES, "workspace"),
                DeclaredEffect(EffectKind.DELETES, "workspace"),
            ),
            guard=Guard.MEMBER_STORE,
            effect_domain=EffectDomain.OURS,
            collaboration=CollaborationClass.EXACT_ROOM,
            argument_cap=_PATCH_CAP,
            # All or nothing: what was refused changed no file, and what was done is seen again.
            retry_safe=True,
            outside_data=True,
        ),
        edit_workspace,
        feature=Feature.CODE,
        needs_sandbox=True,
        goes_with="run_code",
    ),
)
