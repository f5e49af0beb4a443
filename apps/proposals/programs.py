"""Which programs would a package start, and on what? Told to whoever decides on it."""

from __future__ import annotations

from collections.abc import Iterator

from apps.domain.entries import CommandEntry, Entry, Program
from apps.domain.manifests import Manifest


def entry_words(entry: Entry) -> str:
    """Return where a tool enters, with all that its program is given."""
    if not isinstance(entry, CommandEntry):
        return entry.label
    words = [f"{entry.protocol.value}: {_words(entry.program)}", f"{entry.timeout_ms:,} ms"]
    if entry.session:
        words.append(f"in the session {entry.session}")
    return "; ".join(words)


def beside_words(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield a name and a sentence for each program that stands beside the tools."""
    for session in manifest.sessions:
        yield (
            f"Session {session.name}.",
            f"Keeps “{_words(session.start)}” running through a run once a tool needs it, and ends"
            f" it with “{_words(session.stop)}”.",
        )
    for human in manifest.human_tools:
        yield (
            f"For people: {human.name}.",
            f"A reviewer may run “{_words(human.program)}”; no agent is offered it.",
        )
    for artifact in manifest.scope.walk():
        if artifact is not manifest.scope:
            yield (f"Artifact {artifact.id}.", f"The {artifact.kind.value} {artifact.path}.")


def _words(program: Program) -> str:
    pinned = ", ".join(program.execution_paths)
    return f"{program.words} (pinned: {pinned})" if pinned else program.words
