"""Which files of its room was a turn given, and are they still what they were?

A turn is given what lay finished in its room when it began: each artifact in the version that was
the newest then. One that somebody else has changed since is refused: neither the version that is
out of date is handed out, nor the one that was never admitted. The others are, and it is said which
one is missing. What the turn itself made is no change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Exists, IntegerField, OuterRef, Q, QuerySet, Subquery, UUIDField

from apps.accounts.models import User
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.artifacts.naming import ending_of, type_of_text
from apps.audit.services import record
from apps.core.blobs import get_blobs
from apps.core.prepared import Given, Prepared, both
from apps.runs.models import Run
from apps.sandbox.coding import sharing

MAX_CHANGES: Final = 20
"""So many changed files are named; more than these help nobody."""


@dataclass(frozen=True, slots=True)
class Handed:
    """One file that a turn was given, and the name under which it is handed out."""

    version: ArtifactVersion
    filename: str
    media_type: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A file that a turn was given and that somebody else has changed since."""

    artifact_id: str
    name: str
    admitted: int
    now: int


@dataclass(frozen=True, slots=True)
class Shared:
    """What a program finds beside it, how many files had no room, and which have changed."""

    sealed: sharing.Sealed | None
    files: tuple[tuple[str, bytes], ...] = ()
    left_out: int = 0
    changed: tuple[Changed, ...] = ()


def share_files(*, run_id: Any, call_id: Any, member: User) -> Shared:
    """Seal what a run was given for one of its calls, check every byte, and write it down.

    Raises BadSeal where the stored bytes are not the ones that were admitted.
    """
    given, left_out, changed = files_given(
        run_id=run_id, member=member, max_files=sharing.MAX_FILES, max_bytes=sharing.MAX_BYTES
    )
    if not given:
        return Shared(None, left_out=left_out, changed=changed)
    entries = [_entry(one) for one in given]
    sealed = sharing.seal(call_id, entries)
    files = sharing.opened(sealed, get_blobs(one.version.blob_id for one in given))
    record(
        actor=member,
        action="code.files_shared",
        subject=f"call:{call_id}",
        digest=f"sha256:{sealed.seal}",
        detail={
            "files": [[one.id, one.version, one.digest] for one in entries],
            **({"changed": [[one.artifact_id, one.now] for one in changed]} if changed else {}),
        },
    )
    return Shared(sealed, files, left_out, changed)


def _entry(given: Handed) -> sharing.Entry:
    version = given.version
    return sharing.Entry(
        path=sharing.place_of(given.filename),
        id=str(version.artifact_id),
        kind=str(version.artifact.kind),
        version=version.number,
        digest=version.blob_id,
        filename=given.filename,
        media_type=given.media_type,
        size=version.size,
    )


def files_given(
    *, run_id: Any, member: User, max_files: int, max_bytes: int
) -> tuple[tuple[Handed, ...], int, tuple[Changed, ...]]:
    """Return what a run was given of its room, the latest first; how many had no room; changes."""
    if not member.is_active:
        return (), 0, ()
    kept: list[ArtifactVersion] = []
    size, left_out = 0, 0
    whose = {"run": run_id, "member": member.pk}
    given, changes = both(_GIVEN.asked(**whose), _CHANGED.asked(**whose))
    for row in given:
        if len(kept) < max_files and size + row.size <= max_bytes:
            kept.append(row)
            size += row.size
        else:
            left_out += 1
    return _named(kept), left_out, tuple(_changed(one) for one in changes)


def _changed(version: Any) -> Changed:
    name, _ = _file_of(version)
    return Changed(str(version.artifact_id), name, version.admitted, version.number)


def _of_run(field: str) -> Subquery:
    return Subquery(Run.objects.order_by().filter(pk=_RUN).values(field)[:1])


def _ours() -> Q:
    children = Run.objects.order_by().filter(parent=_RUN).values("pk")
    return Q(run_id=_RUN) | Q(run_id__in=children)


def _readable() -> QuerySet[Artifact]:
    rows: QuerySet[Artifact] = Artifact.objects.visible_under(_MEMBER).order_by()
    return rows.filter(room_id=_of_run("room_id"))


def _given() -> QuerySet[ArtifactVersion]:
    """Return the version of each artifact that a run was given or made, the latest first."""
    newest = ArtifactVersion.objects.filter(
        Q(created_at__lte=_of_run("created_at")) | _ours(), artifact=OuterRef("artifact")
    ).order_by("-number")
    return (
        ArtifactVersion.objects.filter(artifact__in=_readable())
        .exclude(artifact__in=_changes().values("artifact"))
        .filter(number=Subquery(newest.values("number")[:1]))
        .select_related("artifact")
        .defer("artifact__updated_at")
        .order_by("-created_at", "pk")
    )


def _changes() -> QuerySet[ArtifactVersion]:
    """Return the newest version of each file that somebody else has changed since the run began.

    Where the run itself has written a later one, it knew what it wrote on: that is no change.
    """
    began = _of_run("created_at")
    of_it = ArtifactVersion.objects.filter(artifact=OuterRef("artifact"))
    before = of_it.filter(number__lt=OuterRef("number"), created_at__lte=began)
    return (
        ArtifactVersion.objects.filter(artifact__in=_readable(), created_at__gt=began)
        .exclude(_ours() & Q(run_id__isnull=False))
        .exclude(Exists(of_it.filter(_ours(), number__gt=OuterRef("number"))))
        .annotate(admitted=Subquery(before.order_by("-number").values("number")[:1]))
        .filter(admitted__isnull=False)
        .order_by("artifact_id", "-number")
        .distinct("artifact_id")
    )


_RUN = Given("run", UUIDField())
_MEMBER = Given("member", IntegerField())
_GIVEN = Prepared(_given)
_CHANGED = Prepared(lambda: _changes().select_related("artifact")[:MAX_CHANGES])


def _named(versions: Sequence[ArtifactVersion]) -> tuple[Handed, ...]:
    """Give each version a file name of its own; the oldest keeps the plain one."""
    taken: set[str] = set()
    named: dict[Any, Handed] = {}
    for version in sorted(versions, key=lambda one: (one.artifact.created_at, str(one.pk))):
        name, media = _file_of(version)
        if name.casefold() in taken:
            name = f"{str(version.artifact_id)[:8]}-{name}"
        taken.add(name.casefold())
        named[version.pk] = Handed(version, name, media)
    return tuple(named[version.pk] for version in versions)


def _file_of(version: ArtifactVersion) -> tuple[str, str]:
    artifact = version.artifact
    if artifact.kind == Artifact.Kind.FILE:
        return _safe(artifact.file_name.rpartition("/")[2]), version.media_type
    ending, stem = ending_of(artifact), _safe(version.title)
    name = stem if stem.lower().endswith(f".{ending}") else f"{stem}.{ending}"
    return name, type_of_text(artifact)


def _safe(name: str) -> str:
    """Return a name that any shell and any system takes."""
    kept = "".join(one if one.isalnum() or one in "-_." else "-" for one in name)
    return kept.strip(".-")[-80:] or "file"
