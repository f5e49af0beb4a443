"""What does an examination of a draft consist of, by the format of its package?

A package's own tests come first, on a tree of their own. A Pi package is then loaded by Pi's own
loader from another tree, and what it registers is compared with the reviewed manifest. All of it
shares one deadline, and nothing takes the place of a step that could not be done.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from apps.domain.commandio.pins import CannotPin
from apps.domain.commandio.preparation import pins_of_package, refusal_of
from apps.domain.lockfiles import dependencies_of
from apps.domain.manifests import Manifest, reviewed_tools
from apps.domain.pipackages import Found, declared_resources, differences
from apps.domain.problems import MAX_PROBLEMS, Problem
from apps.proposals.models import PINS, ProposalTest
from apps.proposals.pulse import Pulse
from apps.proposals.verdicts import Verdict, judge
from apps.sandbox.dependencies import install
from apps.sandbox.errors import JobRefused, SandboxUnavailable
from apps.sandbox.node import run_node_tests
from apps.sandbox.pi import Declared, NoObservation, PiLoader, Registered
from apps.sandbox.runner import run_unittests

State = ProposalTest.State

TEST_SECONDS: Final = 60
"""How long an examination may take; fetching dependencies or loading with Pi takes longer."""
LONGER_SECONDS: Final = 180


@dataclass(frozen=True, slots=True)
class Draft:
    """What is examined: the checked manifest, its tree, and the test that asks."""

    manifest: Manifest
    tree: Mapping[str, bytes]
    correlation: str


def examine(draft: Draft, pulse: Pulse) -> Verdict:
    """Examine a draft, as far as it goes; every ending is a verdict.

    What its programs stand on is pinned first, and stays with the receipt.
    """
    try:
        pins = pins_of_package(draft.manifest, draft.tree)
    except CannotPin as problem:
        return Verdict(State.FAILED, refusal_of(problem))
    verdict = _examined(draft, pulse)
    return replace(verdict, surface={**verdict.surface, PINS: pins}) if pins else verdict


def _examined(draft: Draft, pulse: Pulse) -> Verdict:
    try:
        return _Examination(draft, pulse).run()
    except SandboxUnavailable as away:
        # Nothing was run, and nothing is ever run without a sandbox instead.
        return Verdict(State.ERROR, away.sentence)
    except JobRefused as refused:
        return Verdict(State.ERROR, f"The sandbox does not take these files: {refused}")


class _Examination:
    def __init__(self, draft: Draft, pulse: Pulse) -> None:
        self._draft = draft
        self._pulse = pulse
        self._needed = dependencies_of(draft.tree)
        longer = self._needed.packages or draft.manifest.format == "pi"
        self._until = time.monotonic() + (LONGER_SECONDS if longer else TEST_SECONDS)

    @property
    def _left(self) -> float:
        return max(0.001, self._until - time.monotonic())

    def run(self) -> Verdict:
        """Take the steps that the package's format asks for."""
        match self._draft.manifest.format:
            case "node":
                return self._node_tests(self._installed())
            case "pi":
                return self._pi()
            case _:
                return judge(
                    run_unittests(
                        tree=tuple(sorted(self._draft.tree.items())),
                        deadline_s=self._left,
                        correlation=self._draft.correlation,
                        on_output=self._pulse.feed,
                        cancelled=self._pulse.lost.is_set,
                    )
                )

    def _installed(self) -> str:
        return install(
            self._needed,
            deadline_s=self._left,
            correlation=self._draft.correlation,
            cancelled=self._pulse.lost.is_set,
        )

    def _node_tests(self, dependencies: str, *, pi: bool = False) -> Verdict:
        return judge(
            run_node_tests(
                tree=tuple(sorted(self._draft.tree.items())),
                pi=pi,
                dependencies=dependencies,
                deadline_s=self._left,
                correlation=self._draft.correlation,
                on_output=self._pulse.feed,
                cancelled=self._pulse.lost.is_set,
            )
        )

    def _pi(self) -> Verdict:
        resources = declared_resources(self._draft.tree)
        tested: Verdict | None = None
        dependencies = ""
        if "extensions" in resources:
            dependencies = self._installed()
            tested = self._node_tests(dependencies, pi=True)
            if tested.state != State.PASSED:
                return replace(tested, surface=_surface(tests_ran=tested.ran > 0))
        loader = PiLoader(
            tree=tuple(sorted(self._draft.tree.items())),
            until=self._until,
            dependencies=dependencies,
            correlation=self._draft.correlation,
            cancelled=self._pulse.lost.is_set,
        )
        try:
            declared = loader.resolve(resources)
            registered = loader.load(declared.extensions) if declared.extensions else None
        except NoObservation as nothing:
            state = State.ERROR if nothing.ours else State.FAILED
            return _with(tested, state, str(nothing), _surface(tests_ran=tested is not None))
        return self._judged(tested, declared, registered)

    def _judged(
        self, tested: Verdict | None, declared: Declared, registered: Registered | None
    ) -> Verdict:
        manifest = self._draft.manifest
        found = Found(registered.tools if registered else (), declared.skills)
        problems = [*declared.diagnostics, *(registered.errors if registered else ())]
        unsupported = registered.unsupported if registered else ()
        problems += [
            Problem(one.path, "unsupported", f"It registers {_kind(one.kind)} {one.name}".strip())
            for one in unsupported
        ]
        problems += differences(reviewed_tools(manifest.tools), manifest.skills, found)
        surface = _surface(
            tests_ran=tested is not None,
            runtime_version=registered.runtime if registered else declared.runtime,
            tools=[tool.name for tool in found.tools],
            skills=[{"name": skill.name, "path": skill.path} for skill in found.skills],
            prompts=[one.name for one in declared.others if one.kind == "prompt"],
            themes=[one.name for one in declared.others if one.kind == "theme"],
            unsupported=[
                {"kind": one.kind, "name": one.name, "path": one.path} for one in unsupported
            ],
            diagnostics=[problem.as_dict() for problem in problems[:MAX_PROBLEMS]],
        )
        runtime = f"Pi {surface['runtime_version']} on Node {declared.node}, confined"
        if problems:
            sentence = f"Pi's loader found {len(problems)} things: {problems[0]}"
            return _with(tested, State.FAILED, sentence, surface, runtime)
        return _with(tested, State.PASSED, _said(tested, found), surface, runtime)


def _said(tested: Verdict | None, found: Found) -> str:
    held = (
        f"Pi's loader found {len(found.tools)} tools and {len(found.skills)} skills, as reviewed."
    )
    return f"{tested.explanation} {held}" if tested else held


def _kind(word: str) -> str:
    named = word.replace("_", " ")
    return f"an {named}" if named[:1] in "aeiou" else f"a {named}"


def _with(
    tested: Verdict | None,
    state: State,
    explanation: str,
    surface: dict[str, Any],
    runtime: str = "Pi, confined",
) -> Verdict:
    """Return the verdict of a Pi package, which stands on that of its tests where it has any."""
    base = tested or Verdict(state, explanation)
    return replace(base, state=state, explanation=explanation, runtime=runtime, surface=surface)


def _surface(**found: Any) -> dict[str, Any]:
    return {
        "runtime_version": "", "tests_ran": False, "tools": [], "skills": [], "prompts": [],
        "themes": [], "unsupported": [], "diagnostics": [],
        **found,
    }  # fmt: skip
