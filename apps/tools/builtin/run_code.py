"""How does an agent run a program? What it may ask for, and what it is told about it."""

from __future__ import annotations

from typing import Any

from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    DeclaredEffect,
    Effect,
    EffectDomain,
    EffectKind,
    Guard,
    Risk,
    specify,
)
from apps.domain.tooling.features import Feature
from apps.runs.models import Run
from apps.sandbox.coding.idioms import told
from apps.sandbox.coding.programs import MAX_CODE, MAX_TARGET, MAX_TARGETS, Language
from apps.sandbox.kernels import home_of
from apps.tools.builtin.run_code_work import run_code
from apps.tools.contract import Tool

# A program's JSON text can be several times its characters: escapes and multi-byte letters.
_CODE_CAP = 768 * 1024
TIMEOUT_S = 150.0


def home_of_kernel(arguments: dict[str, Any], run: Run) -> str:
    """Name the other node where the kernel of a call lives, or nothing."""
    if not arguments.get("kernel"):
        return ""
    return home_of(owner=run.member, room_id=run.room_id, language=arguments["language"])


_SHARED = (
    "Files that this turn was given may lie on disk already: KAIZEN_SHARED_RESOURCES_DIR names"
    " their read-only folder and KAIZEN_SHARED_RESOURCES_MANIFEST holds a JSON array with path, id,"
    " kind, version, digest, filename, media_type and size of each; both are absent where there are"
    " none. Take the path from there, never guess a name."
)

TOOLS = (
    Tool(
        specify(
            name="run_code",
            title="Run code",
            description=(
                "Run a Python, Node or Bash program in a sandbox without network. It starts in"
                " your workspace of this room, a folder whose files stay for later calls. List"
                " every file that people shall get in artifact_targets, by its name in the"
                f" workspace, or give an empty list. {_SHARED} Print what you want to read back."
                " For Word, Excel, PowerPoint and PDF files, in Python:\n" + told()
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "language": {"type": "string", "enum": [one.value for one in Language]},
                    "code": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": MAX_CODE,
                        "description": f"The whole program. {_SHARED}",
                    },
                    "artifact_targets": {
                        "type": "array",
                        "maxItems": MAX_TARGETS,
                        "uniqueItems": True,
                        "items": {"type": "string", "minLength": 1, "maxLength": MAX_TARGET},
                        "description": (
                            "The names of the files that the program makes for people, such as"
                            " report.docx; empty where it only computes."
                        ),
                    },
                    "kernel": {
                        "type": "boolean",
                        "description": (
                            "True runs the code as a cell of a kernel of Python or Node that"
                            " lives on: what a cell leaves in memory is there for the next one."
                            " In Python, the last expression is the value; tools.available()"
                            " lists the tools that only read, and tools.call(name, key=value)"
                            " calls one. In Node, a cell is the body of an async function: use"
                            " return, await tools.call(name, {key: value}), and keep what shall"
                            " stay in the JSON object state. Left out, nothing stays in memory."
                        ),
                    },
                },
                "required": ["language", "code", "artifact_targets"],
                "additionalProperties": False,
            },
            # Asked for by these words, a file is made here rather than written as text.
            intent_hints=(
                "pdf",
                "word document",
                "word file",
                "docx",
                "powerpoint",
                "pptx",
                "slide deck",
                "excel",
                "xlsx",
                "spreadsheet",
            ),
            effect=Effect.WRITE,
            capability=Capability.CODE_RUN,
            risk=Risk.MEDIUM,
            side_effects=(
                DeclaredEffect(EffectKind.WRITES, "workspace"),
                DeclaredEffect(EffectKind.WRITES, "artifacts"),
            ),
            guard=Guard.ISOLATED,
            effect_domain=EffectDomain.CHECKPOINTED,
            collaboration=CollaborationClass.EXACT_ROOM,
            argument_cap=_CODE_CAP,
            timeout_s=TIMEOUT_S,
            targets_argument="artifact_targets",
            # What fails without having kept anything may be tried again as it is.
            retry_safe=True,
            # What a program prints may come from any file that it read.
            outside_data=True,
            later=True,
        ),
        run_code,
        feature=Feature.CODE,
        needs_sandbox=True,
        home=home_of_kernel,
    ),
)
