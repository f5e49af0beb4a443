"""On which node is a waiting call carried out? Whoever hears of it elsewhere sends it there.

The row stays the queue: only the bell goes to that node, and where nobody answers it, the sweep
rings everywhere again, until the node is taken for lost.
"""

from __future__ import annotations

from typing import Any, Final

from apps.core.queue import ring_at
from apps.domain.tooling import CallState
from apps.runs.bodies import arguments_of
from apps.runs.models import Call
from apps.tools.registry import BUILTIN_TOOLS

EXECUTE: Final = "boundary.execute_call"


def sent_home(call_id: Any) -> bool:
    """Ring for a waiting call on the node that it belongs to; tell whether that is another one."""
    homely = [name for name, tool in BUILTIN_TOOLS.items() if tool.home is not None]
    call = (
        Call.objects.select_related("run__member")
        .filter(pk=call_id, state=CallState.WAITING.value, tool__in=homely)
        .first()
    )
    home = None if call is None else BUILTIN_TOOLS[call.tool].home
    if call is None or home is None:
        return False
    node = home(arguments_of(call), call.run)
    if node:
        ring_at(node, EXECUTE, call_id=str(call.pk))
    return bool(node)
