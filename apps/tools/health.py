"""Which tools are off because what they run in was not prepared? For probes.

The sandbox itself tells of itself; this part is about what works in it.
"""

from __future__ import annotations

import structlog
from django.db import DatabaseError

from apps.core.health import Part, Word
from apps.packages.selectors import active_package_tools
from apps.sandbox.client import available
from apps.sandboxd.probe import MEND_RUNTIMES, ProbeReport
from apps.sandboxd.runtimes import NAMES
from apps.tools.packaged import as_tool

log = structlog.get_logger(__name__)

NAME = "tools"
PATIENCE = 1.0
MOST_NAMED = 20
_NODE = "node"


def tools_part() -> Part:
    """Return whether every tool has the runtime that it needs, and name those that have not."""
    report = available(patience=PATIENCE)
    if not report.ok:
        return Part(NAME, Word.OFF, "No tool that runs code is there.", needed=False)
    lacking = [name for name in NAMES if report.lacks((name,))]
    if not lacking:
        said = "Every runtime that a tool can ask for is prepared."
        return Part(NAME, Word.OK, said, needed=False)
    try:
        off = _off(report)
    except DatabaseError as gone:
        log.warning("tools_unknown", error=type(gone).__name__)
        off = ["whichever packages' tools need them"]
    if _NODE in lacking:
        off.insert(0, "run_code for Node programs")
    if not off:
        said = f"No tool needs what is not prepared: {', '.join(lacking)}."
        return Part(NAME, Word.OK, said, needed=False)
    more = f" and {len(off) - MOST_NAMED} more" if len(off) > MOST_NAMED else ""
    said = (
        f"Not prepared: {', '.join(lacking)}. Off therefore: {', '.join(off[:MOST_NAMED])}{more}."
    )
    mend = f"{MEND_RUNTIMES[0].upper()}{MEND_RUNTIMES[1:]}"
    return Part(NAME, Word.OFF, said, needed=False, mend=mend)


def _off(report: ProbeReport) -> list[str]:
    tools = ((row.name, as_tool(row)) for row in active_package_tools())
    return [name for name, tool in tools if tool is not None and report.lacks(tool.runtimes)]
