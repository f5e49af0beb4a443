"""How is an artifact written in pieces? Begun, appended to, and finished or discarded, as one.

A draft is its owner's alone: nobody in the room sees anything of it before it is finished. Each
step names the exact cursor that it goes on from: how many pieces there are and what they are
called together. The same step again gives the same answer; any other is refused. One run holds a
draft, under its fence; once that run is over, a later one of the same owner may go on with it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.artifacts.errors import ArtifactNotFound, BadArtifact, DraftTaken, StaleCursor
from apps.artifacts.models import ArtifactVersion, Draft, DraftPiece
from apps.artifacts.services import (
    MAX_BODY,
    Provenance,
    as_uuid,
    check_body,
    check_kind,
    checked_title,
    create_artifact,
)
from apps.audit.services import record
from apps.domain.staging import first_digest, next_digest
from apps.runs.claims import RunHold
from apps.runs.models import Run

MAX_PIECE = 20_000
"""Characters (code points) in one piece."""
MAX_OPEN = 5
"""So many drafts may a member have open in one room."""

_STAYS = " What was written of the draft stays."


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: the member, in which room, for which run and under which of its fences."""

    member: User
    room_id: Any
    hold: RunHold

    @property
    def run_id(self) -> uuid.UUID:
        """The run that writes."""
        return self.hold.run_id

    @property
    def fence(self) -> int:
        """The fence under which it does."""
        return self.hold.fence


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a draft stands."""

    draft: Draft
    sequence: int
    digest: str

    @classmethod
    def of(cls, draft: Draft) -> Cursor:
        """Return where a draft stands now."""
        return cls(draft, draft.sequence, draft.digest)


@transaction.atomic
def begin_draft(*, writer: Writer, title: str, kind: str, language: str) -> Cursor:
    """Open the one draft that a run may have; beginning the same again gives the same."""
    title = checked_title(title)
    check_kind(kind, language)
    mine = Draft.objects.open().filter(run_id=writer.run_id).first()
    if mine is not None:
        same = (mine.title, mine.kind, mine.language, mine.sequence) == (title, kind, language, 0)
        if same and mine.owner_id == writer.member.pk:
            return Cursor.of(_held(mine.pk, writer))
        raise DraftTaken(
            f"This turn already writes the draft {mine.pk} ({mine.title})."
            f" Finish or discard it first.{_STAYS}"
        )
    # One row more than the bound would be harmless; nobody waits for a lock over it.
    if Draft.objects.open().filter(owner=writer.member, room=writer.room_id).count() >= MAX_OPEN:
        raise DraftTaken(
            f"There are {MAX_OPEN} unfinished drafts in this room already. Finish or discard one."
        )
    ident = uuid.uuid4()
    draft = Draft.objects.create(
        pk=ident,
        owner=writer.member,
        room_id=writer.room_id,
        title=title,
        kind=kind,
        language=language,
        run_id=writer.run_id,
        fence=writer.fence,
        digest=first_digest(str(ident)),
    )
    record(
        actor=writer.member,
        action="artifact.draft_begun",
        subject=draft,
        detail={"run": str(writer.run_id)},
    )
    return Cursor.of(draft)


@transaction.atomic
def append_draft(*, writer: Writer, draft_id: Any, sequence: int, digest: str, text: str) -> Cursor:
    """Add a piece to exactly what the writer saw; the very same piece again changes nothing."""
    if not 0 < len(text) <= MAX_PIECE:
        raise BadArtifact(f"A piece has 1 to {MAX_PIECE:,} characters.", field="text")
    check_body(text)
    draft = _held(draft_id, writer)
    if sequence < draft.sequence:
        before = draft.pieces.filter(sequence=sequence + 1, prior=digest, text=text).first()
        if before is not None:
            return Cursor(draft, before.sequence, before.digest)
    _check_cursor(draft, sequence, digest)
    if draft.characters + len(text) > MAX_BODY:
        raise BadArtifact(
            f"An artifact has at most {MAX_BODY:,} characters; with this piece it would have"
            f" {draft.characters + len(text):,}.{_STAYS}",
            field="text",
        )
    draft.sequence += 1
    draft.characters += len(text)
    draft.digest = next_digest(digest, text)
    draft.save(update_fields=["sequence", "characters", "digest", "updated_at"])
    DraftPiece.objects.create(
        draft=draft, sequence=draft.sequence, prior=digest, digest=draft.digest, text=text
    )
    return Cursor.of(draft)


@transaction.atomic
def finish_draft(
    *, writer: Writer, draft_id: Any, sequence: int, digest: str, provenance: Provenance
) -> ArtifactVersion:
    """Make the artifact of exactly the pieces that the writer saw; this is when others see it."""
    draft = _held(draft_id, writer, finished=True)
    _check_cursor(draft, sequence, digest)
    if draft.state == Draft.State.FINISHED:
        return ArtifactVersion.objects.select_related("artifact").get(artifact=draft.pk, number=1)
    if not draft.sequence:
        raise BadArtifact("Nothing has been written yet, so there is nothing to finish.")
    return _finish(draft, body=text_of(draft), title=draft.title, provenance=provenance)


@transaction.atomic
def complete_draft(
    *, writer: Writer, draft_id: Any, body: str, title: str | None, provenance: Provenance
) -> ArtifactVersion:
    """Finish a draft with a whole body in the place of its pieces."""
    draft = _held(draft_id, writer)
    return _finish(draft, body=body, title=title or draft.title, provenance=provenance)


@transaction.atomic
def discard_draft(*, writer: Writer, draft_id: Any) -> Draft:
    """End a draft that nobody wants; discarding it again changes nothing."""
    draft = _owned(draft_id, writer)
    if draft.state == Draft.State.DISCARDED:
        return draft
    _take(draft, writer)
    draft.state = Draft.State.DISCARDED
    draft.save(update_fields=["state", "updated_at"])
    draft.pieces.all().delete()
    record(actor=writer.member, action="artifact.draft_discarded", subject=draft)
    return draft


def text_of(draft: Draft) -> str:
    """Return what a draft holds so far."""
    return "".join(draft.pieces.values_list("text", flat=True))


def _finish(draft: Draft, *, body: str, title: str, provenance: Provenance) -> ArtifactVersion:
    draft.state = Draft.State.FINISHED
    draft.save(update_fields=["state", "updated_at"])
    draft.pieces.all().delete()
    return create_artifact(
        owner=draft.owner,
        room_id=draft.room_id,
        title=title,
        kind=draft.kind,
        language=draft.language,
        body=body,
        provenance=provenance,
        artifact_id=draft.pk,
    )


def _owned(draft_id: Any, writer: Writer) -> Draft:
    """Lock a draft of the writer's own member, in the room where the run works."""
    draft: Draft | None = (
        Draft.objects.visible_to(writer.member)
        .select_for_update(no_key=True, of=("self",))
        .select_related("owner")
        .filter(pk=as_uuid(draft_id), room_id=writer.room_id)
        .first()
    )
    if draft is None:
        raise ArtifactNotFound("There is no such draft that you may use in this room.")
    return draft


def _held(draft_id: Any, writer: Writer, *, finished: bool = False) -> Draft:
    """Lock a draft for its writer, who takes it over where the run that held it is over."""
    draft = _owned(draft_id, writer)
    if draft.state == Draft.State.FINISHED and not finished:
        raise DraftTaken("That draft is finished: it is an artifact now.")
    if draft.state == Draft.State.DISCARDED:
        raise DraftTaken("That draft was discarded.")
    if draft.state == Draft.State.OPEN:
        _take(draft, writer)
    return draft


def _take(draft: Draft, writer: Writer) -> None:
    """Hold a locked draft for this run and this fence, or refuse."""
    if (draft.run_id, draft.fence) == (writer.run_id, writer.fence):
        return
    if draft.run_id == writer.run_id:
        if writer.fence < draft.fence:
            raise DraftTaken(f"Another worker has taken this turn over.{_STAYS}")
    elif Run.objects.filter(pk=draft.run_id).exclude(state=Run.State.FINISHED).exists():
        raise DraftTaken(f"Another turn is writing this draft.{_STAYS}")
    elif Draft.objects.open().filter(run_id=writer.run_id).exists():
        raise DraftTaken(f"This turn already writes another draft; end that one first.{_STAYS}")
    draft.run_id, draft.fence = writer.run_id, writer.fence
    draft.save(update_fields=["run_id", "fence", "updated_at"])


def _check_cursor(draft: Draft, sequence: int, digest: str) -> None:
    if (draft.sequence, draft.digest) != (sequence, digest):
        raise StaleCursor(
            f"The draft has {draft.sequence} pieces and the digest {draft.digest}, which is not"
            f" what you gave. Go on from there, or read it first.{_STAYS}",
            field="sequence" if draft.sequence != sequence else "digest",
        )
