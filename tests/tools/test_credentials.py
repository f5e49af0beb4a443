"""A tool that uses somebody's account outside is handed a handle, and never a credential."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from apps.accounts.models import User
from apps.approvals.models import ApprovalRequest, Receipt
from apps.audit.models import AuditRow
from apps.boundary import pipeline
from apps.boundary.services import decide_approval
from apps.core.deadlines import Deadline
from apps.domain.tooling import Specification, ToolOk
from apps.rooms.models import RoomEvent
from apps.runs.bodies import projection_of
from apps.runs.models import Call, Run
from apps.tools import credentials
from apps.tools.contract import CallContext
from apps.tools.credentials import Credential, Operation, SpentCredential, register_adapter
from tests.factories.effects import offer, outside_tool
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "the-secret-of-the-connection"


class Mailbox:
    """An adapter for mailboxes: it alone knows the password, and sends."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.connection: str | None = "mailbox:7"

    def binding_for(self, *, spec: Specification, member: User) -> str | None:
        return self.connection

    def account_of(self, *, spec: Specification, member: User) -> str:
        return f"{member.name}'s mailbox"

    def operate(
        self, *, binding: str, operation: Operation, call_id: Any, deadline: Deadline
    ) -> Any:
        assert SECRET
        self.sent.append((binding, operation.arguments["to"]))
        return {"accepted": True}


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    monkeypatch.setattr(credentials, "_adapter", None)
    mailbox = Mailbox()
    register_adapter(mailbox)
    return mailbox


@pytest.fixture
def kept() -> list[Credential]:
    """What a tool kept of what it was handed."""
    return []


@pytest.fixture
def run(
    transactional_db: Any, monkeypatch: pytest.MonkeyPatch, kept: list[Credential]
) -> Iterator[Run]:
    def send(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        assert context.credential is not None
        kept.append(context.credential)
        return ToolOk(context.credential.operate("send", {"to": arguments["to"]}))

    offer(monkeypatch, outside_tool(send, uses_connection=True))
    member = make_member("mara")
    agent = make_agent(member, slug="scribe")
    yield claimed_run(make_room(member, agent), agent, member)
    assert credentials._issued == {}


def asked(run: Run, step: int = 1) -> Call:
    """A call that was asked about, and has its yes."""
    call = crossed(run, "send_letter", {"to": "anna"}, step=step).call
    request = ApprovalRequest.objects.get(call=call)
    decide_approval(
        approval_id=request.pk,
        member=run.member,
        approve=True,
        arguments_digest=request.arguments_digest,
    )
    return call


def carried_out(run: Run) -> Call:
    call = asked(run)
    pipeline.execute_waiting(call_id=call.pk, executor="worker")
    return Call.objects.get(pk=call.pk)


def test_a_call_is_bound_to_one_connection_and_its_adapter_does_what_is_asked(
    run: Run, mailbox: Mailbox
) -> None:
    call = carried_out(run)
    assert (call.outcome, call.binding) == ("ok", "mailbox:7")
    assert mailbox.sent == [("mailbox:7", "anna")]


def test_the_handle_holds_nothing_and_goes_nowhere(
    run: Run, mailbox: Mailbox, kept: list[Credential]
) -> None:
    call = carried_out(run)
    handle = kept[0]
    assert repr(handle) == "Credential()"
    assert not hasattr(handle, "__dict__")
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leave(handle)
    with pytest.raises(TypeError):
        json.dumps(handle)
    everything = [
        projection_of(call),
        list(RoomEvent.objects.values_list("data", flat=True)),
        list(AuditRow.objects.values_list("detail", flat=True)),
    ]
    assert SECRET not in str(everything)
    assert handle._reference not in str(everything)


def test_a_handle_is_worth_nothing_once_its_call_is_over(
    run: Run, mailbox: Mailbox, kept: list[Credential]
) -> None:
    carried_out(run)
    with pytest.raises(SpentCredential):
        kept[0].operate("send", {"to": "eve"})
    with pytest.raises(SpentCredential):
        Credential("guessed").operate("send", {"to": "eve"})
    assert len(mailbox.sent) == 1


@pytest.mark.parametrize("connection", [None, "", "x" * 121])
def test_without_a_connection_nothing_is_done_and_nothing_is_spent(
    run: Run, mailbox: Mailbox, connection: str | None
) -> None:
    mailbox.connection = connection
    # Nobody is asked about a call that cannot go through.
    never_asked = crossed(run, "send_letter", {"to": "anna"}).call
    assert not ApprovalRequest.objects.exists()
    mailbox.connection = "mailbox:7"
    then_lost = asked(run, step=2)
    mailbox.connection = connection
    pipeline.execute_waiting(call_id=then_lost.pk, executor="worker")
    for call in (never_asked, Call.objects.get(pk=then_lost.pk)):
        assert (call.outcome, call.reason, call.domain, call.rule) == (
            "refused",
            "dependency_unavailable",
            "dependency",
            "connection_is_there",
        )
        assert "needs a connection" in projection_of(call)["message"]
    assert mailbox.sent == []
    assert Receipt.objects.get(call=then_lost).spent_at is None


def test_where_no_adapter_is_registered_such_a_tool_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_adapter", None)
    assert crossed(run, "send_letter", {"to": "anna"}).call.reason == "dependency_unavailable"


def test_there_is_one_adapter(mailbox: Mailbox) -> None:
    with pytest.raises(ValueError, match="already"):
        register_adapter(Mailbox())


def test_only_what_the_specification_declares_is_bound(
    run: Run, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[Any] = []

    def send(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        handed.append(context.credential)
        return ToolOk({})

    offer(monkeypatch, outside_tool(send, name="plain"))
    plain = claimed_run(make_room(run.member, run.agent), run.agent, run.member)
    call = crossed(plain, "plain", {"to": "anna"}).call
    asked = ApprovalRequest.objects.get(call=call)
    decide_approval(
        approval_id=asked.pk,
        member=run.member,
        approve=True,
        arguments_digest=asked.arguments_digest,
    )
    pipeline.execute_waiting(call_id=call.pk, executor="worker")
    assert handed == [None]
    assert Call.objects.get(pk=call.pk).binding == ""
