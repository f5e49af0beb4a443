"""An agent is given exact tools of exact versions, and only while they may be used."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.services import change_agent
from apps.audit.models import AuditRow
from apps.core.errors import Forbidden
from apps.domain.manifests import parse_manifest
from apps.grants.errors import AboveCeiling, GrantNotFound, PackageNotInUse, ToolNotGrantable
from apps.grants.models import ToolGrant
from apps.grants.selectors import granted_package_tools, grants_of
from apps.grants.services import grant_tool, revoke_tool
from apps.packages.models import PackageVersion
from apps.packages.services import disable_package, enable_package, publish_package
from tests.factories import packages as made
from tests.factories.rooms import make_agent, make_member


@pytest.fixture
def mara(db: None) -> User:
    return make_member()


@pytest.fixture
def ines(db: None) -> User:
    return User.objects.create_superuser("ines", password="x")


@pytest.fixture
def agent(mara: User) -> Agent:
    return make_agent(mara, slug="scribe")


def publish(author: User, reviewer: User, version: str = "1.0.0") -> PackageVersion:
    return publish_package(
        manifest=parse_manifest(made.manifest(version=version)),
        files=made.tree(version=version),
        author=author,
        admitted_by=reviewer,
    )


@pytest.fixture
def version(mara: User, ines: User) -> PackageVersion:
    return publish(mara, ines)


@pytest.fixture
def tool(version: PackageVersion) -> str:
    return version.tools.get().name


def held(agent: Agent) -> list[str]:
    return [row.version.ref for row in granted_package_tools(agent.pk)]


def test_a_grant_names_version_and_tool(
    mara: User, agent: Agent, version: PackageVersion, tool: str
) -> None:
    grant = grant_tool(agent_id=agent.pk, granter=mara, ref=version.ref, tool=tool)
    assert (grant.version, grant.tool_name, grant.granted_by) == (version, tool, mara)
    assert held(agent) == [version.ref]
    row = AuditRow.objects.get(action="grant.given")
    assert row.detail == {"agent": "scribe", "ref": version.ref, "tool": tool}


def test_granting_again_changes_nothing(
    mara: User, agent: Agent, version: PackageVersion, tool: str
) -> None:
    first = grant_tool(agent_id=agent.pk, granter=mara, ref=version.ref, tool=tool)
    again = grant_tool(agent_id=agent.pk, granter=mara, ref=version.ref, tool=tool)
    assert first == again
    assert AuditRow.objects.filter(action="grant.given").count() == 1


def test_only_who_manages_the_agent_grants(
    agent: Agent, version: PackageVersion, tool: str
) -> None:
    stranger = make_member()
    with pytest.raises(Forbidden):
        grant_tool(agent_id=agent.pk, granter=stranger, ref=version.ref, tool=tool)
    with pytest.raises(Forbidden):
        revoke_tool(agent_id=agent.pk, revoker=stranger, tool=tool)
    assert not ToolGrant.objects.exists()


def test_nothing_is_granted_above_the_ceiling(
    mara: User, version: PackageVersion, tool: str
) -> None:
    low = make_agent(mara, ceiling=["docs.read"])
    with pytest.raises(AboveCeiling):
        grant_tool(agent_id=low.pk, granter=mara, ref=version.ref, tool=tool)


@pytest.mark.parametrize(
    ("ref", "name"),
    [("weather@9.9.9", None), ("", None), ("weather@1.0.0", "other"), ("WEATHER@1.0.0", None)],
)
def test_only_what_was_admitted_can_be_granted(
    mara: User, agent: Agent, tool: str, ref: str, name: str | None
) -> None:
    with pytest.raises(ToolNotGrantable):
        grant_tool(agent_id=agent.pk, granter=mara, ref=ref, tool=name or tool)


def test_a_package_that_is_off_gives_nothing(
    mara: User, ines: User, agent: Agent, version: PackageVersion, tool: str
) -> None:
    grant_tool(agent_id=agent.pk, granter=mara, ref=version.ref, tool=tool)
    disable_package(package_id=version.package_id, actor=ines)
    assert held(agent) == []
    assert [grant.usable for grant in grants_of(agent)] == [False]
    with pytest.raises(PackageNotInUse):
        grant_tool(agent_id=make_agent(mara).pk, granter=mara, ref=version.ref, tool=tool)
    enable_package(package_id=version.package_id, actor=ines)
    assert held(agent) == [version.ref]
    assert [grant.usable for grant in grants_of(agent)] == [True]


def test_a_grant_stays_with_its_version_until_it_is_given_anew(
    mara: User, ines: User, agent: Agent, version: PackageVersion, tool: str
) -> None:
    grant_tool(agent_id=agent.pk, granter=mara, ref=version.ref, tool=tool)
    newer = publish(mara, ines, "1.1.0")
    assert held(agent) == [version.ref]
    with pytest.raises(PackageNotInUse):
        grant_tool(agent_id=make_agent(mara).pk, granter=mara, ref=version.ref, tool=tool)
    grant_tool(agent_id=agent.pk, granter=mara, ref=newer.ref, tool=tool)
    assert held(agent) == [newer.ref]
    assert ToolGrant.objects.count() == 1


def test_what_is_revoked_is_gone_at_once(
    mara: User, agent: Agent, version: PackageVersion, tool: str
) -> None:
    grant_tool(agent_id=agent.pk, granter=mara, ref=version.ref, tool=tool)
    revoke_tool(agent_id=agent.pk, revoker=mara, tool=tool)
    assert held(agent) == []
    with pytest.raises(GrantNotFound):
        revoke_tool(agent_id=agent.pk, revoker=mara, tool=tool)
    assert AuditRow.objects.filter(action="grant.revoked").count() == 1


def test_a_lowered_ceiling_keeps_the_grant_for_later(
    mara: User, agent: Agent, version: PackageVersion, tool: str
) -> None:
    grant_tool(agent_id=agent.pk, granter=mara, ref=version.ref, tool=tool)
    change_agent(agent_id=agent.pk, actor=mara, changes={"ceiling": []})
    assert ToolGrant.objects.count() == 1


def test_holding_is_read_in_one_query(
    mara: User,
    agent: Agent,
    version: PackageVersion,
    tool: str,
    django_assert_num_queries: Any,
) -> None:
    grant_tool(agent_id=agent.pk, granter=mara, ref=version.ref, tool=tool)
    with django_assert_num_queries(1):
        assert [row.version.package.name for row in granted_package_tools(agent.pk)] == ["weather"]
