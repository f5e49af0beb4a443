"""Tell pages and checks whether code can run confined, and why not."""

from __future__ import annotations

from dataclasses import dataclass

from apps.sandbox.client import available
from apps.sandbox.leases import this_node
from apps.sandbox.syntax.ask import confined_grammar


@dataclass(frozen=True, slots=True)
class SandboxState:
    """What an operator wants to know about the sandbox, in sentences."""

    ready: bool
    status: str
    sentence: str
    in_force: tuple[str, ...]
    missing: tuple[str, ...]
    python: str
    runtimes: dict[str, str]
    node: str

    @property
    def story(self) -> str:
        """Return everything in one text, for a page that has room for one."""
        told = [f"In force: {line}." for line in self.in_force]
        told += [f"Missing: {line}" for line in self.missing]
        return " ".join([self.sentence, *told])


def sandbox_state(
    *, fresh: bool = False, patience: float | None = None, with_syntax: bool = False
) -> SandboxState:
    """Return whether sandboxes work now, what is in force, and what is missing.

    `with_syntax` also starts the confined process that parses for this one, and asks it.
    """
    report = (
        available(fresh=fresh) if patience is None else available(fresh=fresh, patience=patience)
    )
    in_force, missing = list(report.in_force), list(report.missing)
    if with_syntax:
        problem = confined_grammar().examine()
        if problem:
            missing.append(f"No confined parser, so edits are not checked for syntax: {problem}")
        else:
            in_force.append(
                "syntax: a confined process of its own parses what members edit; it can open no "
                "file, make no socket and start nothing"
            )
    return SandboxState(
        ready=report.ok,
        status=report.status.value,
        sentence=report.sentence,
        in_force=tuple(in_force),
        missing=tuple(missing),
        python=report.python,
        runtimes=dict(report.runtimes),
        node=this_node(),
    )
