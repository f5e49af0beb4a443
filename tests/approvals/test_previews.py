"""An operation outside is applied as it was previewed and approved, once, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection

from apps.accounts.models import User
from apps.approvals import previews
from apps.approvals.errors import BeingApplied, NotAuthorized, OutcomeUnknown, PreviewAgain
from apps.approvals.models import ApprovalRequest, Preview, Receipt
from apps.approvals.previews import Applied, NothingDone, apply_preview, show_preview
from apps.approvals.services import spend_receipt, waive
from apps.audit.models import AuditRow
from apps.boundary.services import decide_approval
from apps.domain.policy import Waived
from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    DeclaredEffect,
    Effect,
    EffectDomain,
    EffectKind,
    Guard,
    ToolOk,
    specify,
)
from apps.runs.models import Call, Run
from apps.tools.contract import Tool
from tests.factories.effects import offer
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room

pytestmark = pytest.mark.django_db(transaction=True)

ROOM = {"rooms": ["a"]}
OPERATION = "demo.ensure"


class Platform:
    """A platform outside, whose changes are counted outside the database."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def change(self) -> dict[str, Any]:
        """Change something, for good."""
        with self.path.open("a") as file:
            file.write("changed\n")
        return {"made": len(self.changes)}

    @property
    def changes(self) -> list[str]:
        """What was changed."""
        return self.path.read_text().splitlines() if self.path.exists() else []


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    return Platform(tmp_path / "platform")


@pytest.fixture
def run(db: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    spec = specify(
        name="apply_demo",
        title="Apply a demo",
        description="Apply what was previewed.",
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "preview_digest": {"type": "string"},
                "environment_digest": {"type": "string"},
            },
        },
        effect=Effect.WRITE,
        capability=Capability.ARTIFACTS_WRITE,
        side_effects=(DeclaredEffect(EffectKind.EXTERNAL_SIDE_EFFECT),),
        guard=Guard.EXTERNAL,
        effect_domain=EffectDomain.EXTERNAL,
        collaboration=CollaborationClass.ACTOR_BOUND_WRITE,
        surface="demo",
        later=True,
    )
    offer(monkeypatch, Tool(spec, lambda *_: ToolOk({})))
    member = make_member("mara")
    agent = make_agent(member, slug="scribe")
    return claimed_run(make_room(member, agent), agent, member)


def previewed(run: Run, name: str = "shop") -> dict[str, str]:
    shown = show_preview(
        run=run,
        operation=OPERATION,
        request={"name": name},
        preview={"creates": [name]},
        environment=ROOM,
    )
    return {
        "name": name,
        "preview_digest": shown.preview_digest,
        "environment_digest": shown.environment_digest,
    }


def asked(run: Run, arguments: dict[str, str], step: int = 1) -> Call:
    return crossed(run, "apply_demo", arguments, step=step).call


def approved(run: Run, arguments: dict[str, str], step: int = 1) -> Call:
    call = asked(run, arguments, step)
    request = ApprovalRequest.objects.get(call=call)
    decide_approval(
        approval_id=request.pk,
        member=run.member,
        approve=True,
        arguments_digest=request.arguments_digest,
    )
    spend_receipt(call=call, actor=run.member)
    return Call.objects.select_related("run").get(pk=call.pk)


def apply(call: Call, operate: Callable[[], Any], environment: Any = ROOM) -> Applied:
    return apply_preview(call=call, operation=OPERATION, environment=environment, operate=operate)


def test_an_approved_preview_is_applied_once_and_replays_find_its_tombstone(
    run: Run, platform: Platform
) -> None:
    call = approved(run, previewed(run))
    assert apply(call, platform.change) == Applied({"made": 1}, replayed=False)
    assert apply(call, platform.change) == Applied({"made": 1}, replayed=True)
    again = approved(run, previewed(run), step=2)
    assert apply(again, platform.change) == Applied({"made": 1}, replayed=True)
    assert len(platform.changes) == 1
    actions = [row.action for row in AuditRow.objects.filter(action__startswith="preview.")]
    assert "preview.applying" in actions
    assert actions.count("preview.applied") == 1


def test_the_yes_is_bound_to_request_preview_and_environment(run: Run) -> None:
    one, other = previewed(run), previewed(run, "inn")
    bindings = {previews.binding_in(arguments) for arguments in (one, other)}
    for change in ({"name": "inn"}, {"preview_digest": "x"}, {"environment_digest": "y"}):
        bindings.add(previews.binding_in({**one, **change}))
    assert len(bindings) == 5
    approved(run, one)
    assert Receipt.objects.get().binding == previews.binding_in(one)


@pytest.mark.parametrize("change", ["request", "preview", "environment", "world"])
def test_whatever_has_drifted_is_previewed_again(run: Run, platform: Platform, change: str) -> None:
    arguments = previewed(run)
    if change == "request":
        arguments["name"] = "inn"
    elif change != "world":
        arguments[f"{change}_digest"] = "sha256:" + "0" * 64
    call = approved(run, arguments)
    world = {"rooms": ["a", "b"]} if change == "world" else ROOM
    with pytest.raises(PreviewAgain):
        apply(call, platform.change, environment=world)
    assert platform.changes == []


def test_a_record_that_was_lost_or_is_old_is_previewed_again(run: Run, platform: Platform) -> None:
    call = approved(run, previewed(run))
    Preview.objects.update(expires_at="2020-01-01T00:00Z")
    with pytest.raises(PreviewAgain):
        apply(call, platform.change)
    Preview.objects.all().delete()
    with pytest.raises(PreviewAgain):
        apply(call, platform.change)
    assert platform.changes == []
    previewed(run)
    assert apply(call, platform.change).replayed is False


def test_nothing_is_applied_without_a_spent_yes_to_exactly_this(
    run: Run, platform: Platform
) -> None:
    call = asked(run, previewed(run))
    with pytest.raises(NotAuthorized):
        apply(call, platform.change)
    other = approved(run, {"name": "shop"}, step=2)
    Receipt.objects.filter(call=other).update(binding="sha256:" + "0" * 64)
    with pytest.raises(PreviewAgain):
        apply(other, platform.change)
    assert platform.changes == []
    waive(call=call, actor=run.member, kind=Waived.NEVER_ASK)
    assert apply(call, platform.change).result == {"made": 1}


def test_another_members_run_finds_nothing(run: Run, platform: Platform) -> None:
    arguments = previewed(run)
    other: User = make_member("tomas")
    agent = make_agent(other, slug="other")
    foreign = claimed_run(make_room(other, agent), agent, other)
    call = approved(foreign, arguments)
    with pytest.raises(PreviewAgain):
        apply(call, platform.change)
    assert platform.changes == []


def test_of_two_that_apply_at_once_one_does(run: Run, platform: Platform) -> None:
    call = approved(run, previewed(run))
    inside, go_on = threading.Event(), threading.Event()
    ends: list[Any] = []

    def slow() -> Any:
        inside.set()
        go_on.wait(30)
        return platform.change()

    def first() -> None:
        ends.append(apply(call, slow))
        connection.close()

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(30)
    with pytest.raises(BeingApplied):
        apply(call, platform.change)
    go_on.set()
    thread.join()
    assert ends == [Applied({"made": 1}, replayed=False)]
    assert len(platform.changes) == 1


def test_an_operation_that_was_never_heard_of_again_has_an_unknown_end(
    run: Run, platform: Platform
) -> None:
    class Died(BaseException):
        pass

    def die() -> Any:
        platform.change()
        raise Died

    call = approved(run, previewed(run))
    with pytest.raises(Died):
        apply(call, die)
    Preview.objects.update(applying_until="2020-01-01T00:00Z")
    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            apply(call, platform.change)
    assert (Preview.objects.get().state, len(platform.changes)) == ("ambiguous", 1)


def test_an_operation_that_fails_inside_has_an_unknown_end(run: Run, platform: Platform) -> None:
    def burst() -> Any:
        raise TimeoutError

    call = approved(run, previewed(run))
    with pytest.raises(TimeoutError):
        apply(call, burst)
    with pytest.raises(OutcomeUnknown):
        apply(call, platform.change)


def test_what_the_platform_refused_outright_may_be_previewed_again(
    run: Run, platform: Platform
) -> None:
    def refuse() -> Any:
        raise NothingDone("The name is taken.")

    call = approved(run, previewed(run))
    with pytest.raises(PreviewAgain, match="taken"):
        apply(call, refuse)
    with pytest.raises(PreviewAgain):
        apply(call, platform.change)
    assert platform.changes == []
    other = approved(run, previewed(run), step=2)
    assert apply(other, platform.change).result == {"made": 1}


def test_a_store_that_is_away_before_means_no_operation(
    run: Run, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = approved(run, previewed(run))

    def away(*_: Any) -> Any:
        raise OperationalError("the connection is closed")

    with monkeypatch.context() as patched:
        patched.setattr(previews, "_standing", away)
        with pytest.raises(PreviewAgain):
            apply(call, platform.change)
    assert platform.changes == []
    assert Preview.objects.get().state == "shown"


def test_a_store_that_is_lost_after_the_platform_answered_is_never_a_success(
    run: Run, platform: Platform
) -> None:
    call = approved(run, previewed(run))

    def change_and_lose_the_store() -> Any:
        made = platform.change()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (pid,) = cursor.fetchone()
        _end_connection(pid)
        return made

    with pytest.raises(OutcomeUnknown):
        apply(call, change_and_lose_the_store)
    connection.close()
    assert len(platform.changes) == 1
    Preview.objects.update(applying_until="2020-01-01T00:00Z")
    with pytest.raises(OutcomeUnknown):
        apply(call, platform.change)
    assert len(platform.changes) == 1


def _end_connection(pid: int) -> None:
    """Let another connection end this one, as an administrator or a failover would."""

    def end() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        connection.close()

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
