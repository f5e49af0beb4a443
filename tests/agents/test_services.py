"""An agent has an owner, a ceiling of known words, and a revision."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.agents import services
from apps.agents.errors import AgentNotFound, BadAgent, SlugTaken, StaleRevision, TooManyAgents
from apps.agents.models import Agent
from apps.agents.selectors import visible_agent
from apps.audit.models import AuditRow
from apps.core.errors import Conflict, Forbidden, NotFound
from apps.turns.plan import tighter
from tests.factories.rooms import make_agent, make_member


@pytest.fixture
def mara(db: None) -> User:
    return make_member()


@pytest.fixture
def tomas(db: None) -> User:
    return make_member()


@pytest.fixture
def scribe(mara: User) -> Agent:
    return make_agent(mara, slug="scribe", ceiling=["docs.read"])


def test_the_owner_uses_and_manages(mara: User, scribe: Agent) -> None:
    assert may(mara, Permission.AGENT_USE, scribe)
    assert may(mara, Permission.AGENT_MANAGE, scribe)
    row = AuditRow.objects.get(action="agent.created")
    assert (row.actor, row.subject, row.detail["ceiling"]) == (mara.key, scribe.key, ["docs.read"])


@pytest.mark.parametrize(
    "slug", ["", "Scribe", "a b", "-a", "a-", "a--b", "a_b", "é", "x" * 41, "a/b", "a\n"]
)
def test_a_slug_is_plain(mara: User, slug: str) -> None:
    with pytest.raises(BadAgent) as refused:
        services.create_agent(owner=mara, slug=slug, name="Scribe")
    assert refused.value.field == "slug"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "   "),
        ("name", "x" * 81),
        ("name", "a\x1bb"),
        ("description", "x" * 301),
        ("persona", "x" * 20_001),
        ("persona", "a\x00b"),
        ("model_name", "x" * 121),
        ("ceiling", ["artifacts.own"]),
        ("ceiling", ["docs.read", ""]),
    ],
)
def test_fields_are_bounded_and_named(mara: User, field: str, value: Any) -> None:
    fields = {"slug": "scribe", "name": "Scribe", field: value}
    with pytest.raises(BadAgent) as refused:
        services.create_agent(owner=mara, **fields)
    assert refused.value.field == field
    assert not Agent.objects.exists()


def test_a_ceiling_holds_each_word_once_in_one_order(mara: User) -> None:
    agent = make_agent(mara, ceiling=["docs.read", "artifacts.read", "docs.read"])
    assert agent.ceiling == ["artifacts.read", "docs.read"]


def test_slugs_are_one_of_a_kind(tomas: User, scribe: Agent) -> None:
    with pytest.raises(SlugTaken):
        services.create_agent(owner=tomas, slug="scribe", name="Scribe")


def test_a_member_owns_so_many(mara: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MAX_OWNED", 1)
    make_agent(mara)
    with pytest.raises(TooManyAgents):
        make_agent(mara)


def test_a_change_raises_the_revision_and_is_written_down(mara: User, scribe: Agent) -> None:
    changed = services.change_agent(
        agent_id=scribe.pk,
        actor=mara,
        changes={"ceiling": ["docs.read", "packages.call"], "name": "Scribe"},
        revision=1,
    )
    assert changed.revision == 2
    row = AuditRow.objects.get(action="agent.changed")
    assert row.detail == {
        "slug": "scribe",
        "fields": ["ceiling"],
        "revision": 2,
        "ceiling": ["docs.read", "packages.call"],
    }
    with pytest.raises(StaleRevision):
        services.change_agent(agent_id=scribe.pk, actor=mara, changes={"name": "Other"}, revision=1)


def test_no_change_leaves_no_trace(mara: User, scribe: Agent) -> None:
    services.change_agent(agent_id=scribe.pk, actor=mara, changes={"ceiling": ["docs.read"]})
    assert not AuditRow.objects.filter(action="agent.changed").exists()


@pytest.mark.parametrize("field", ["slug", "owner", "revision", "id"])
def test_what_an_agent_is_cannot_be_changed(mara: User, scribe: Agent, field: str) -> None:
    with pytest.raises(BadAgent):
        services.change_agent(agent_id=scribe.pk, actor=mara, changes={field: "x"})


def test_only_who_manages_changes_disables_or_shares(tomas: User, scribe: Agent) -> None:
    with pytest.raises(Forbidden):
        services.change_agent(agent_id=scribe.pk, actor=tomas, changes={"name": "Mine"})
    with pytest.raises(Forbidden):
        services.disable_agent(agent_id=scribe.pk, actor=tomas)
    with pytest.raises(Forbidden):
        services.share_agent(agent_id=scribe.pk, sharer=tomas, username=tomas.username)


def test_sharing_lets_another_use_and_not_manage(mara: User, tomas: User, scribe: Agent) -> None:
    with pytest.raises(AgentNotFound):
        visible_agent(slug="scribe", member=tomas)
    services.share_agent(agent_id=scribe.pk, sharer=mara, username=tomas.username)
    assert visible_agent(slug="scribe", member=tomas) == scribe
    with pytest.raises(Forbidden):
        services.disable_agent(agent_id=scribe.pk, actor=tomas)
    services.unshare_agent(agent_id=scribe.pk, sharer=mara, username=tomas.username)
    with pytest.raises(AgentNotFound):
        visible_agent(slug="scribe", member=tomas)
    assert {"agent.shared", "agent.unshared"} <= set(
        AuditRow.objects.values_list("action", flat=True)
    )


def test_a_collaborator_changes_and_shares_until_that_is_taken_back(
    mara: User, tomas: User, scribe: Agent
) -> None:
    services.share_agent(
        agent_id=scribe.pk, sharer=mara, username=tomas.username, role="collaborator"
    )
    services.change_agent(agent_id=scribe.pk, actor=tomas, changes={"description": "Ours"})
    for attempt in (services.share_agent, services.unshare_agent):
        # Not even somebody who looks after it takes it from its owner, or makes them a guest.
        with pytest.raises(Conflict):
            attempt(agent_id=scribe.pk, sharer=tomas, username=mara.username)
    services.share_agent(agent_id=scribe.pk, sharer=mara, username=tomas.username, role="guest")
    with pytest.raises(Forbidden):
        services.change_agent(agent_id=scribe.pk, actor=tomas, changes={"description": "Mine"})
    assert visible_agent(slug="scribe", member=tomas) == scribe
    roles = AuditRow.objects.filter(action="agent.shared").order_by("id")
    assert [row.detail["role"] for row in roles] == ["collaborator", "guest"]


def test_whoever_collaborated_holds_nothing_once_it_is_not_shared_any_more(
    mara: User, tomas: User, scribe: Agent
) -> None:
    services.share_agent(
        agent_id=scribe.pk, sharer=mara, username=tomas.username, role="collaborator"
    )
    services.unshare_agent(agent_id=scribe.pk, sharer=mara, username=tomas.username)
    with pytest.raises(AgentNotFound):
        visible_agent(slug="scribe", member=tomas)
    with pytest.raises(Forbidden):
        services.disable_agent(agent_id=scribe.pk, actor=tomas)


def test_an_agent_is_shared_in_no_role_that_does_not_exist(
    mara: User, tomas: User, scribe: Agent
) -> None:
    with pytest.raises(BadAgent):
        services.share_agent(agent_id=scribe.pk, sharer=mara, username=tomas.username, role="owner")
    with pytest.raises(AgentNotFound):
        visible_agent(slug="scribe", member=tomas)


def test_sharing_needs_somebody(mara: User, scribe: Agent) -> None:
    with pytest.raises(NotFound):
        services.share_agent(agent_id=scribe.pk, sharer=mara, username="nobody-here")
    with pytest.raises(Conflict):
        services.unshare_agent(agent_id=scribe.pk, sharer=mara, username=mara.username)


def test_an_administrator_switches_agents_off_and_on(scribe: Agent) -> None:
    ines = User.objects.create_superuser("ines", password="x")
    client = Client()
    client.force_login(ines)
    url = "/admin/agents/agent/"
    assert client.get(url).status_code == 200
    assert client.get(f"{url}{scribe.pk}/change/").status_code == 200
    for action, enabled in (("switch_off", False), ("switch_on", True)):
        client.post(url, {"action": action, "_selected_action": [str(scribe.pk)]})
        scribe.refresh_from_db()
        assert scribe.enabled is enabled
    assert AuditRow.objects.filter(action="agent.changed", actor=ines.key).count() == 2


def test_an_owner_tightens_an_agents_own_bounds(mara: User, scribe: Agent) -> None:
    changes = {"parallel_tool_calls": False, "inactivity_s": 30, "budget_s": None}
    changed = services.change_agent(agent_id=scribe.pk, actor=mara, changes=changes)
    assert (changed.parallel_tool_calls, changed.inactivity_s) == (False, 30)
    for field, value in (("budget_s", 0), ("context_tokens", 5), ("inactivity_s", 601)):
        with pytest.raises(BadAgent) as refused:
            services.change_agent(agent_id=scribe.pk, actor=mara, changes={field: value})
        assert refused.value.field == field


def test_an_agents_bound_never_widens_the_deployments() -> None:
    assert tighter(None, 60) == 60
    assert tighter(30, 60) == 30
    assert tighter(900, 60) == 60
