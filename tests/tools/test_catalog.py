"""A catalog holds what an agent holds, and one broken tool takes no other with it."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.domain.manifests import parse_manifest
from apps.domain.tooling import Capability
from apps.grants.policy import deployment_policy
from apps.grants.services import grant_tool
from apps.packages.models import PackageVersion
from apps.packages.services import publish_package
from apps.runs.models import Run
from apps.tools.catalog import known_tool, offered_tools, resolve_tool
from tests.factories import packages as made
from tests.factories.rooms import make_agent, make_member, make_room


@pytest.fixture
def mara(db: None) -> User:
    return make_member()


@pytest.fixture
def agent(mara: User) -> Agent:
    return make_agent(mara)


@pytest.fixture
def run(mara: User, agent: Agent) -> Run:
    """A run that nobody started."""
    return Run(room=make_room(mara, agent), agent=agent, member=mara)


def publish(author: User, name: str) -> PackageVersion:
    return publish_package(
        manifest=parse_manifest(made.manifest(name, "1.0.0", made.definition(f"{name}.convert"))),
        files=made.tree(name),
        author=author,
        admitted_by=author,
    )


def names(run: Run) -> list[str]:
    return sorted(tool.spec.name for tool in offered_tools(run))


def test_a_catalog_holds_own_tools_under_the_ceiling_and_granted_package_tools(
    run: Run, agent: Agent, mara: User
) -> None:
    own = names(run)
    version = publish(mara, "weather")
    assert names(run) == own
    grant_tool(agent_id=agent.pk, granter=mara, ref=version.ref, tool="pkg_weather_convert")
    assert names(run) == sorted([*own, "pkg_weather_convert"])
    agent.ceiling = [Capability.DOCS_READ.value]
    assert names(run) == ["search_about"]
    run.ceiling = [Capability.ARTIFACTS_READ.value]
    assert names(run) == []


def test_what_no_longer_holds_is_left_out_and_nothing_else_is(
    run: Run, agent: Agent, mara: User
) -> None:
    for name in ("weather", "tides"):
        version = publish(mara, name)
        grant_tool(agent_id=agent.pk, granter=mara, ref=version.ref, tool=f"pkg_{name}_convert")
    broken = PackageVersion.objects.get(package__name="weather")
    PackageVersion.objects.filter(pk=broken.pk).update(manifest={"name": "weather"})
    offered = names(run)
    assert "pkg_weather_convert" not in offered
    assert "pkg_tides_convert" in offered
    assert "search_about" in offered
    policy = deployment_policy()
    assert resolve_tool("pkg_weather_convert", agent, policy) is None
    assert known_tool("pkg_weather_convert", agent, policy) is None


def test_a_catalog_costs_the_same_for_many_grants_as_for_one(
    run: Run, agent: Agent, mara: User, django_assert_num_queries: Any
) -> None:
    first = publish(mara, "first")
    grant_tool(agent_id=agent.pk, granter=mara, ref=first.ref, tool="pkg_first_convert")
    # The policy's mark, grants, choice, roster.
    offered_tools(run)
    with django_assert_num_queries(4):
        offered_tools(run)
    for number in range(12):
        version = publish(mara, f"more{number}")
        grant_tool(
            agent_id=agent.pk, granter=mara, ref=version.ref, tool=f"pkg_more{number}_convert"
        )
    with django_assert_num_queries(4):
        assert len(offered_tools(run)) >= 13
