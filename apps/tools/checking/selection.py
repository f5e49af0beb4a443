"""What was asked for on the command line, and is it one coherent request?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from apps.domain.canonical import BadJson, strict_loads
from apps.domain.tooling import MAX_ARGUMENT_CAP

SOCKET_NAME: Final = "sandboxd.sock"


class BadInvocation(ValueError):
    """A request that names too little, too much, or two things that do not go together."""


class Audience(StrEnum):
    """For whom an artifact's tools are declared."""

    AGENT = "agent"
    HUMAN = "human"


@dataclass(frozen=True, slots=True)
class Selection:
    """A coherent request: what to check, and what to execute, if anything."""

    # A selector, the name of an artifact, or nothing, which means all there is.
    selector: str = ""
    artifact: str = ""
    audience: Audience | None = None
    repo: Path | None = None
    state_dir: Path | None = None
    tool: str = ""
    arguments: Any = None

    @property
    def executes(self) -> bool:
        """Whether one tool is to be run."""
        return bool(self.tool)

    @property
    def socket(self) -> Path | None:
        """Where the sandbox supervisor of the named state listens; None for this deployment's."""
        place = None if self.state_dir is None else self.state_dir / SOCKET_NAME
        return place if place is not None and place.exists() else None


def read_selection(options: dict[str, Any]) -> Selection:
    """Return the request that options make, or raise `BadInvocation`."""
    selector = _one_selector(options)
    artifact, audience = options["artifact"] or "", options["audience"]
    if selector and (artifact or audience):
        raise BadInvocation("A selector does not go together with --artifact and --audience.")
    if bool(artifact) != bool(audience):
        raise BadInvocation("--artifact and --audience go together.")
    tool, arguments = _execution(options, scoped=bool(selector or artifact))
    return Selection(
        selector=selector,
        artifact=artifact,
        audience=Audience(audience) if audience else None,
        repo=_folder(options["repo"], "--repo"),
        state_dir=_folder(options["state_dir"], "--state-dir"),
        tool=tool,
        arguments=arguments,
    )


def _one_selector(options: dict[str, Any]) -> str:
    given = [one for one in (options["selector"], options["eval"]) if one is not None]
    if len(given) > 1:
        raise BadInvocation("A selector is given once: by its place or with --eval.")
    if given and not given[0].strip():
        raise BadInvocation("The selector is empty.")
    return given[0] if given else ""


def _execution(options: dict[str, Any], *, scoped: bool) -> tuple[str, Any]:
    tool, text = options["tool"], options["arguments"]
    if not options["execute"]:
        if tool is not None or text is not None:
            raise BadInvocation("--tool and --args go together with --execute.")
        return "", None
    if not tool:
        raise BadInvocation("--execute needs --tool.")
    if not scoped:
        raise BadInvocation("--execute needs a selector, or --artifact and --audience.")
    if options["audience"] == Audience.HUMAN:
        if text is not None:
            raise BadInvocation("--args belongs to tools of agents; tools of people take none.")
        return tool, {}
    if text is None:
        raise BadInvocation("--execute needs --args.")
    try:
        arguments = strict_loads(text, max_bytes=MAX_ARGUMENT_CAP, nul=False)
    except BadJson as refusal:
        raise BadInvocation(f"--args is not JSON: {refusal}") from None
    if not isinstance(arguments, dict):
        raise BadInvocation("--args is one JSON object.")
    return tool, arguments


def _folder(given: str | None, option: str) -> Path | None:
    if given is None:
        return None
    path = Path(given)
    if not path.is_dir():
        raise BadInvocation(f"{option} names no directory.")
    return path.resolve()
