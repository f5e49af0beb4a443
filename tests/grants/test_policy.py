"""The tool policy is changed as a whole, by who may, on top of what they saw."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from apps.accounts.models import User
from apps.audit.models import AuditRow
from apps.core.errors import Forbidden
from apps.domain.pinning import Pins
from apps.domain.policy import ROOT, NodeState, Path, Why
from apps.grants.errors import BadPinnedValue, BadPolicy, NothingPinned, StalePolicy, TooManyNodes
from apps.grants.models import PinnedArguments, PolicyNode, PolicyState
from apps.grants.policy import deployment_policy
from apps.grants.services import change_policy, pin_arguments, unpin_arguments
from apps.grants.services import policy as policy_service
from apps.tools.registry import BUILTIN_TOOLS
from tests.factories.rooms import make_member

ARTIFACTS: Path = ("kaizen", "artifacts")
READ: Path = (*ARTIFACTS, "read_artifact")
OFF, ON, UNSET = NodeState.DISABLED, NodeState.ALLOWED, NodeState.UNSET


@pytest.fixture
def ines(db: None) -> User:
    return User.objects.create_superuser("ines", password="x")


def change(actor: User, changes: dict[Path, NodeState], **words: Any) -> PolicyState:
    revision = words.pop("revision", None)
    if revision is None:
        revision = PolicyState.objects.values_list("revision", flat=True).first() or 0
    return change_policy(actor=actor, revision=revision, changes=changes, **words)


def allowed(path: Path) -> bool:
    tree = deployment_policy().tree
    assert tree is not None
    return tree.standing(path).allowed


def test_a_change_holds_at_once_and_is_written_down(ines: User) -> None:
    assert allowed(READ)
    state = change(ines, {READ: OFF, ("mcp", "deploy"): ON}, note="  until  Monday ")
    assert (state.revision, state.changed_by) == (1, ines)
    assert not allowed(READ)
    assert allowed(("mcp", "deploy", "restart"))
    row = PolicyNode.objects.get(endpoint="read_artifact")
    assert (row.note, row.changed_by) == ("until Monday", ines)
    audit = AuditRow.objects.get(action="policy.changed")
    assert (audit.actor, audit.subject) == (ines.key, "policy:1")
    assert audit.detail == {
        "revision": 1,
        "count": 2,
        "changes": [
            {"node": "kaizen/artifacts/read_artifact", "state": "disabled"},
            {"node": "mcp/deploy", "state": "allowed"},
        ],
    }


def test_taking_a_word_back_leaves_no_row(ines: User) -> None:
    change(ines, {ROOT: OFF, READ: OFF})
    change(ines, {ROOT: UNSET, READ: UNSET})
    assert not PolicyNode.objects.exists()
    assert allowed(READ)


def test_saying_what_holds_already_is_no_change(ines: User) -> None:
    change(ines, {READ: OFF})
    assert change(ines, {READ: OFF, ROOT: UNSET}).revision == 1
    assert AuditRow.objects.filter(action="policy.changed").count() == 1


def test_a_change_on_top_of_an_older_revision_is_refused_whole(ines: User) -> None:
    change(ines, {READ: OFF})
    with pytest.raises(StalePolicy, match="revision 1, not 0"):
        change(ines, {ROOT: OFF, READ: UNSET}, revision=0)
    assert [row.path for row in PolicyNode.objects.all()] == [READ]


def test_only_who_has_the_duty_changes_it(db: None) -> None:
    mara = make_member()
    spec = BUILTIN_TOOLS["read_artifact"].spec
    with pytest.raises(Forbidden):
        change(mara, {READ: OFF})
    with pytest.raises(Forbidden):
        pin_arguments(actor=mara, spec=spec, values={"first_line": 3})
    with pytest.raises(Forbidden):
        unpin_arguments(actor=mara, path=READ)
    assert not PolicyNode.objects.exists()


@pytest.mark.parametrize("path", [ROOT, ("kaizen",)])
def test_root_and_source_only_tighten(ines: User, path: Path) -> None:
    with pytest.raises(BadPolicy, match="open or off") as refused:
        change(ines, {path: ON})
    assert refused.value.field == "state"
    # Nor does the database hold such a row.
    with pytest.raises(IntegrityError), transaction.atomic():
        family = path[0] if path else ""
        PolicyNode.objects.create(family=family, state="allowed", changed_by=ines)


@pytest.mark.parametrize(
    "path",
    [("Kaizen",), ("",), ("kaizen", "a b"), ("kaizen", "artifacts", ""), ("a", "b", "c", "d"),
     ("kaizen", "artifacts", "x" * 65), ("k" * 41,), ("kaizen", "s\x00")],
)  # fmt: skip
def test_words_that_no_node_has_are_refused(ines: User, path: Path) -> None:
    with pytest.raises(BadPolicy):
        change(ines, {path: OFF})
    assert not PolicyNode.objects.exists()


def test_the_policy_stays_bounded(ines: User, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {("mcp", f"s{number}"): ON for number in range(201)}
    with pytest.raises(BadPolicy, match="200"):
        change(ines, many)
    monkeypatch.setattr(policy_service, "MAX_NODES", 2)
    change(ines, dict(list(many.items())[:2]))
    with pytest.raises(TooManyNodes):
        change(ines, {("mcp", "one-more"): ON})
    assert PolicyNode.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_of_two_that_change_the_same_revision_one_is_told_so() -> None:
    ines = User.objects.create_superuser("ines", password="x")
    outcomes: list[str] = []
    both = threading.Barrier(2)

    def run(path: Path) -> None:
        try:
            both.wait(10)
            change_policy(actor=ines, revision=0, changes={path: OFF})
            outcomes.append("changed")
        except StalePolicy:
            outcomes.append("stale")
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(path,)) for path in (READ, ARTIFACTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["changed", "stale"]
    assert PolicyState.objects.get().revision == 1
    assert PolicyNode.objects.count() == 1


def test_a_process_reads_the_policy_once_for_each_change(
    ines: User, django_assert_num_queries: Any
) -> None:
    change(ines, {READ: OFF})
    deployment_policy()
    with django_assert_num_queries(1):
        assert not allowed(READ)
    change(ines, {READ: UNSET})
    # The mark, a savepoint around nodes and pins.
    with django_assert_num_queries(5):
        assert allowed(READ)


def test_a_policy_of_a_lost_transaction_is_not_kept_for_the_next_of_its_number(ines: User) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        change(ines, {READ: OFF})
        assert not allowed(READ)
        raise RuntimeError
    change(ines, {("kaizen", "docs"): OFF})
    assert allowed(READ)
    assert not allowed(("kaizen", "docs", "search_about"))


def test_a_word_that_nobody_knows_shuts_what_hangs_beneath_it_and_nothing_else(ines: User) -> None:
    change(ines, {READ: OFF, ("kaizen", "docs"): OFF})
    PolicyNode.objects.filter(surface="docs").update(state="perhaps")
    PolicyState.objects.update(mark="00000000-0000-4000-8000-000000000001")
    tree = deployment_policy().tree
    assert tree is not None
    assert tree.standing(("kaizen", "docs", "search_about")).why is Why.UNREADABLE
    assert allowed((*ARTIFACTS, "create_artifact"))


def test_pins_that_cannot_be_read_shut_their_tool_and_nothing_else(ines: User) -> None:
    spec = BUILTIN_TOOLS["read_artifact"].spec
    pin_arguments(actor=ines, spec=spec, values={"first_line": 3})
    PinnedArguments.objects.update(values=["no", "object"])
    PolicyState.objects.update(mark="00000000-0000-4000-8000-000000000002")
    assert not allowed(READ)
    assert allowed((*ARTIFACTS, "create_artifact"))


def test_a_policy_that_cannot_be_read_allows_nothing(ines: User) -> None:
    change(ines, {("mcp", "deploy"): ON})
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE grants_policynode RENAME TO away")
    assert deployment_policy().tree is None
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE away RENAME TO grants_policynode")
    # It is tried again, not remembered.
    assert allowed(("mcp", "deploy", "restart"))


def test_arguments_are_pinned_replaced_and_left_to_callers_again(ines: User) -> None:
    spec = BUILTIN_TOOLS["create_artifact"].spec
    pin_arguments(actor=ines, spec=spec, values={"kind": "markdown", "title": "Notes"})
    assert deployment_policy().pins_of(spec) == Pins.of({"kind": "markdown", "title": "Notes"})
    row = pin_arguments(actor=ines, spec=spec, values={"kind": "html"}, note="only pages")
    assert (row.values, row.note) == ({"kind": "html"}, "only pages")
    assert deployment_policy().pins_of(spec) == Pins.of({"kind": "html"})
    unpin_arguments(actor=ines, path=row.path)
    assert not deployment_policy().pins_of(spec)
    with pytest.raises(NothingPinned):
        unpin_arguments(actor=ines, path=row.path)
    rows = list(AuditRow.objects.filter(action__startswith="policy.arguments").order_by("id"))
    assert [row.action for row in rows] == [
        "policy.arguments_pinned",
        "policy.arguments_pinned",
        "policy.arguments_unpinned",
    ]
    assert rows[0].detail["arguments"] == ["kind", "title"]
    # Which arguments, never what to.
    assert "markdown" not in str(rows[0].detail)
    assert rows[0].digest.startswith("sha256:")


@pytest.mark.parametrize(
    ("values", "field"),
    [({}, "values"), ({"kind": "song"}, "values.kind"), ({"colour": 1}, "values.colour")],
)
def test_what_cannot_be_pinned_is_refused_by_field(
    ines: User, values: dict[str, Any], field: str
) -> None:
    spec = BUILTIN_TOOLS["create_artifact"].spec
    with pytest.raises(BadPinnedValue) as refused:
        pin_arguments(actor=ines, spec=spec, values=values)
    assert refused.value.field == field
    assert not PinnedArguments.objects.exists()
