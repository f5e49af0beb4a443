"""Which places may the arguments of a program name? Those of artifacts that its tool may look at.

`{rules}` stands for the place of the artifact `rules`, `{rules}/style.md` for a file below it.
"""

from apps.domain.commandio.templates import BadTemplate, Parts, Slot, fill, parse_template
from apps.domain.scoping import Artifact, ArtifactKind
from apps.domain.words import shown


def check_reference(text: str, scope: Artifact) -> None:
    """Refuse an argument that names what is not in its tool's scope."""
    parts = parse_template(text)
    known = {artifact.id: artifact for artifact in scope.walk()}
    for index, part in enumerate(parts):
        if not isinstance(part, Slot):
            continue
        if part.name not in known:
            raise BadTemplate(f"{shown(part.name)} names no artifact that this tool may look at.")
        _check_rest(known[part.name], parts, index)


def filled_reference(text: str, places: dict[str, str]) -> str:
    """Return an argument with the places of its artifacts in it."""
    return fill(parse_template(text), places)


def _check_rest(artifact: Artifact, parts: Parts, index: int) -> None:
    rest = parts[index + 1] if index + 1 < len(parts) else ""
    if not isinstance(rest, str) or not rest:
        return
    if rest[0] != "/":
        raise BadTemplate(f"After {{{artifact.id}}} stands nothing, or a path that begins with /.")
    if artifact.kind is ArtifactKind.FILE:
        raise BadTemplate(f"{shown(artifact.id)} is a file, which has no path below it.")
    if any(step in ("", ".", "..") for step in rest[1:].split("/")):
        raise BadTemplate("A path below an artifact has no parts that are empty or dots.")
