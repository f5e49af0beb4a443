"""Can a package's programs be prepared at all, and on which bytes would they stand?

Asked before a package is admitted, before a tool of it is offered, and before one of its programs
is started: what cannot be pinned is never run.
"""

from collections.abc import Iterator, Mapping

from apps.domain.commandio.pins import CannotPin, Tree, pin_paths
from apps.domain.entries import CommandEntry, Program
from apps.domain.manifests import Manifest
from apps.domain.scoping import Artifact, ArtifactKind
from apps.domain.sessions import SessionDeclaration

PREPARATION_FAILED = "PREPARATION_FAILED"


def refusal_of(problem: CannotPin) -> str:
    """Return the one sentence with which a failed preparation is told everywhere."""
    return f"{PREPARATION_FAILED}: {problem}"


def check_targets(scope: Artifact, tree: Mapping[str, object]) -> None:
    """Refuse a scope that has a file which is not there."""
    for artifact in scope.walk():
        if artifact.kind is ArtifactKind.FILE and artifact.path not in tree:
            raise CannotPin(f"The file of the artifact {artifact.id} is not there.")


def session_programs(session: SessionDeclaration) -> dict[str, Program]:
    """Return the two programs of a session by the names under which they are recorded."""
    name = f"{session.name}_{session.artifact}"
    return {f"{name}.start": session.start, f"{name}.stop": session.stop}


def pins_of_package(manifest: Manifest, tree: Tree) -> dict[str, dict[str, str]]:
    """Pin what every program of a package stands on, by recorded name, or raise `CannotPin`.

    Programs for people are held to the same, and stand under no name that agents' calls have.
    """
    check_targets(manifest.scope, tree)
    pins = {name: pin_paths(tree, program.execution_paths) for name, program in _programs(manifest)}
    for human in manifest.human_tools:
        pin_paths(tree, human.program.execution_paths)
    return {name: found for name, found in pins.items() if found}


def _programs(manifest: Manifest) -> Iterator[tuple[str, Program]]:
    for tool in manifest.tools:
        if isinstance(tool.entry, CommandEntry):
            yield tool.published, tool.entry.program
    for session in manifest.sessions:
        yield from session_programs(session).items()
