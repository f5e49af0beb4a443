"""On which node is a waiting call carried out? Whoever hears of it elsewhere sends it there.

The row stays the queue: only the bell goes to that node, and where nobody answers it, the sweep
rings everywhere again, until the node is taken for lost.
"""

from __future__ import annotations

from typing import Any, Final

from django.db.models import Exists, OuterRef, Q, QuerySet, UUIDField

from apps.core.prepared import Given, Prepared
from apps.core.queue import ring_at
from apps.domain.tooling import CallState
from apps.grants.policy import deployment_policy
from apps.runs.bodies import arguments_of
from apps.runs.models import Call
from apps.sandbox.sessions import sessions_of_others
from apps.tools.catalog import resolve_tool
from apps.tools.contract import Tool
from apps.tools.registry import BUILTIN_TOOLS

EXECUTE: Final = "boundary.execute_call"


def sent_home(call_id: Any) -> bool:
    """Ring for a waiting call on the node that it belongs to; tell whether that is another one."""
    call = _HOMELY.first(call=call_id)
    tool = None if call is None else _tool(call)
    if call is None or tool is None or tool.home is None:
        return False
    node = tool.home(arguments_of(call), call.run)
    if node:
        ring_at(node, EXECUTE, call_id=str(call.pk))
    return bool(node)


def _homely() -> QuerySet[Call]:
    homely = [name for name, tool in BUILTIN_TOOLS.items() if tool.home is not None]
    elsewhere = Exists(sessions_of_others().filter(run=OuterRef("run")))
    rows: QuerySet[Call] = (
        Call.objects.select_related("run__member", "run__agent")
        .defer("run__catalog", "run__agent__persona")
        .order_by()
        .filter(
            Q(tool__in=homely) | elsewhere,
            pk=Given("call", UUIDField()),
            state=CallState.WAITING.value,
        )
    )
    return rows


_HOMELY = Prepared(_homely)


def _tool(call: Call) -> Tool | None:
    known = BUILTIN_TOOLS.get(call.tool)
    return known or resolve_tool(call.tool, call.run.agent, deployment_policy())
