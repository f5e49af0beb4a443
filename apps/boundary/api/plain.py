"""How is a proposal answered that is plainly one, and a question where its call stands?

The same as by their views, with less around it.

No addresses are asked as often as these. What is plainly well-formed is read and answered here;
whatever else comes is for `CallsView` and `CallView`, which say what is wrong with it.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from rest_framework.renderers import JSONRenderer

from apps.accounts.models import User
from apps.boundary.api.callback import NO_CALL, CallsView, CallView, RunView, call_view
from apps.boundary.crossing import Settled
from apps.boundary.external import call_from, count_call, run_of_token
from apps.boundary.proposing import MAX_NAME, MAX_PROPOSAL_ID
from apps.boundary.senders import read_sender
from apps.core.api.problems import CONTENT_TYPE, problem_handler
from apps.core.errors import NotFound
from apps.domain.canonical import BadJson, strict_loads
from apps.domain.tooling import CallState
from apps.runs.models import Run
from apps.runs.selectors import call_of_run

PATH = "/api/v1/callback/calls"
MAX_PLAIN_BYTES = 64 * 1024
"""What is larger takes long to parse, and is left to a thread."""

_TOLD = ("Retry-After", "WWW-Authenticate")
_FIELDS = {"name", "arguments", "proposal_id"}


@dataclass(frozen=True, slots=True)
class PlainProposal:
    """The three fields of a proposal, each of which its view would take as it is."""

    name: str
    arguments: Any
    proposal_id: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back, whoever carries it, and the member for whom the run works."""

    status: int
    content_type: str
    body: bytes
    headers: dict[str, str]
    member_id: int | None = None


def read_plainly(raw: bytes) -> PlainProposal | None:
    """Return the proposal in a body, or None where its view has to look at it."""
    try:
        given = strict_loads(raw, max_bytes=MAX_PLAIN_BYTES)
    except BadJson:
        return None
    if not isinstance(given, dict) or given.keys() != _FIELDS or given["arguments"] is None:
        return None
    if not (
        _is_plain(given["name"], MAX_NAME) and _is_plain(given["proposal_id"], MAX_PROPOSAL_ID)
    ):
        return None
    return PlainProposal(**given)


def answer_plainly(
    authorization: str, proposal: PlainProposal, *, proof: str = "", address: str = ""
) -> Answer:
    """Propose one call for whoever sends the token: 200 once it has settled, 202 while it waits.

    A proof that came along is one for this address.
    """
    try:
        crossed = call_from(
            sender=read_sender(
                authorization=authorization, proof=proof, method="POST", address=address
            ),
            name=proposal.name,
            arguments_text=json.dumps(proposal.arguments, ensure_ascii=False),
            proposal_id=proposal.proposal_id,
        )
        body = call_view(crossed.call)
    except Exception as failure:  # noqa: BLE001 - told and logged as in every other view
        return _problem(failure, "POST", PATH, CallsView())
    return Answer(
        200 if isinstance(crossed, Settled) else 202,
        "application/json",
        _text(body),
        {},
        member_id=crossed.call.run.member_id,
    )


@dataclass(frozen=True, slots=True)
class Look:
    """What a runtime is told of a call now, and the run of it while there is something to await."""

    answer: Answer
    awaited: Run | None = None


def look_plainly(authorization: str, call_id: uuid.UUID, *, counted: bool) -> Look:
    """Look where a call of the token's run stands, for whoever shows the token alone.

    A request that waits looks twice and is `counted` the second time already.
    """
    member: User | None = None
    try:
        run = run_of_token(
            read_sender(authorization=authorization, proof="", method="GET", address="").token
        )
        member = run.member
        if not counted:
            count_call(run)
        call = call_of_run(run_id=run.pk, call_id=call_id)
        if call is None:
            raise NotFound(NO_CALL)
        body = _text(call_view(call))
    except Exception as failure:  # noqa: BLE001 - told and logged as in every other view
        return Look(_problem(failure, "GET", f"{PATH}/{call_id}", CallView(), member))
    done = call.state == CallState.SETTLED.value
    answer = Answer(200 if done else 202, "application/json", body, {}, member_id=run.member_id)
    return Look(answer, None if done else run)


def _problem(
    failure: Exception, method: str, path: str, view: RunView, member: User | None = None
) -> Answer:
    asked = SimpleNamespace(user=member, method=method, path=path)
    told = problem_handler(failure, {"request": asked, "view": view})
    headers = {name: told.headers[name] for name in _TOLD if name in told.headers}
    member_id = member.pk if member is not None else None
    return Answer(told.status_code, CONTENT_TYPE, _text(told.data), headers, member_id=member_id)


def _is_plain(value: Any, most: int) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= most
        and value.isascii()
        and value.isprintable()
    )


def _text(body: Any) -> bytes:
    text: bytes = JSONRenderer().render(body)
    return text
