"""Whom would a change of the tool policy concern? Said and named before anything is saved."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Q

from apps.agents.models import Agent
from apps.boundary.policy_sheet import tree_of
from apps.boundary.policy_words import decided, short_name
from apps.domain.policy import NodeState, Path, PolicyTree, node_words
from apps.domain.tooling import Family
from apps.grants.models import PolicyNode, ToolGrant
from apps.runs.models import Run
from apps.tools.endpoints import Endpoint, all_endpoints
from apps.tools.registry import BUILTIN_TOOLS

MOST_NAMED = 200


@dataclass(frozen=True, slots=True)
class NodeChange:
    """What one node said, and would say."""

    path: Path
    words: str
    before: NodeState
    after: NodeState

    @property
    def field(self) -> str:
        """The name of its switch in the form."""
        return f"node:{'/'.join(self.path)}"


@dataclass(frozen=True, slots=True)
class Touched:
    """One tool that could be called and no longer would be, or the other way round."""

    name: str
    surface: str
    title: str
    because: str


@dataclass(frozen=True, slots=True)
class PolicyPreview:
    """Everything that a change would do."""

    changes: list[NodeChange]
    lost: list[Touched]
    gained: list[Touched]
    lost_count: int
    gained_count: int
    agents: int
    runs: int

    @property
    def affected(self) -> int:
        """How many tools it concerns."""
        return self.lost_count + self.gained_count


def policy_preview(changes: Mapping[Path, NodeState]) -> PolicyPreview:
    """Compare the policy as it is with what it would be: four queries, however many tools."""
    before = tree_of(PolicyNode.objects.all())
    real = {
        path: state
        for path, state in changes.items()
        if path in before.unreadable or before.state(path) is not state
    }
    after = before.changed(real)
    turned = [
        endpoint
        for endpoint in all_endpoints()
        if before.standing(endpoint.path).allowed != after.standing(endpoint.path).allowed
    ]
    lost = [one for one in turned if not after.standing(one.path).allowed]
    gained = [one for one in turned if after.standing(one.path).allowed]
    return PolicyPreview(
        changes=[
            NodeChange(path, node_words(path), before.state(path), state)
            for path, state in sorted(real.items())
        ],
        lost=[_touched(one, after) for one in lost[:MOST_NAMED]],
        gained=[_touched(one, after) for one in gained[:MOST_NAMED]],
        lost_count=len(lost),
        gained_count=len(gained),
        agents=_agents_that_may_use(turned),
        runs=_runs_that_were_offered(turned),
    )


def _touched(endpoint: Endpoint, after: PolicyTree) -> Touched:
    return Touched(
        name=endpoint.name,
        surface=f"{short_name(endpoint.path[:1])} › {endpoint.path[1]}",
        title=endpoint.title,
        because=decided(after.standing(endpoint.path)),
    )


def _agents_that_may_use(endpoints: list[Endpoint]) -> int:
    """Count the agents under whose ceiling or among whose grants one of the tools is."""
    own = {
        BUILTIN_TOOLS[one.name].spec.capability.value
        for one in endpoints
        if one.path[0] == Family.KAIZEN.value
    }
    packaged = [one.name for one in endpoints if one.path[0] == Family.PACKAGES.value]
    granted = Q(pk__in=ToolGrant.objects.filter(tool_name__in=packaged).values("agent_id"))
    reach = [Q(ceiling__contains=[capability]) for capability in sorted(own)]
    concerned = functools.reduce(operator.or_, reach, granted)
    return Agent.objects.filter(concerned, enabled=True).count()


def _runs_that_were_offered(endpoints: list[Endpoint]) -> int:
    """Count the runs that go on and have one of the tools in their catalog."""
    names = [endpoint.name for endpoint in endpoints]
    return (
        Run.objects.exclude(state=Run.State.FINISHED)
        .filter(catalog__tools__has_any_keys=names)
        .count()
        if names
        else 0
    )
