"""Writing in pieces: one cursor, one holder, and nothing for others before it is finished."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, transaction

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts import drafts
from apps.artifacts.drafts import MAX_OPEN, MAX_PIECE, Cursor, Writer
from apps.artifacts.errors import ArtifactNotFound, BadArtifact, DraftTaken, StaleCursor
from apps.artifacts.models import Artifact, ArtifactVersion, Draft, DraftPiece
from apps.artifacts.selectors import artifacts_for, interrupted_drafts
from apps.artifacts.services import MAX_BODY, Provenance
from apps.domain.staging import STAGED_WRITING
from apps.rooms.models import Room, RoomEvent
from apps.rooms.services import invite
from apps.runs.bodies import projection_of
from apps.runs.claims import RunHold, claim_run
from apps.runs.models import Run
from apps.runs.services import add_seat
from apps.tools import catalog
from apps.tools.catalog import offered_tools
from apps.tools.registry import BUILTIN_TOOLS
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room

HEAD = {"title": "The game", "kind": "html"}


@pytest.fixture
def member(db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def agent(member: User) -> Agent:
    return make_agent(member, slug="scribe")


@pytest.fixture
def room(member: User, agent: Agent) -> Room:
    return make_room(member, agent)


@pytest.fixture
def run(room: Room, agent: Agent, member: User) -> Run:
    return claimed_run(room, agent, member)


def writer(run: Run, *, fence: int | None = None) -> Writer:
    return Writer(run.member, run.room_id, RunHold(run.pk, fence or run.fence))


def begin(by: Writer, title: str = "The game") -> Cursor:
    return drafts.begin_draft(writer=by, title=title, kind="html", language="")


def append(by: Writer, at: Cursor, text: str) -> Cursor:
    return drafts.append_draft(
        writer=by, draft_id=at.draft.pk, sequence=at.sequence, digest=at.digest, text=text
    )


def finish(by: Writer, at: Cursor) -> ArtifactVersion:
    return drafts.finish_draft(
        writer=by,
        draft_id=at.draft.pk,
        sequence=at.sequence,
        digest=at.digest,
        provenance=Provenance(by.run_id, uuid.uuid4(), "Scribe", "scribe"),
    )


def over(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)


def later_run(run: Run) -> Run:
    over(run)
    return claimed_run(run.room, run.agent, run.member)


def test_pieces_become_one_artifact_with_the_id_of_the_draft(run: Run) -> None:
    by = writer(run)
    at = append(by, append(by, begin(by), "<p>one"), " two</p>")
    version = finish(by, at)
    assert version.artifact_id == at.draft.pk
    assert (version.number, bytes(version.blob.content)) == (1, b"<p>one two</p>")
    assert not DraftPiece.objects.exists()


def test_nobody_sees_anything_of_a_draft_before_it_is_finished(run: Run, room: Room) -> None:
    guest = make_member("tomas")
    by = writer(run)
    before = RoomEvent.objects.count()
    at = append(by, begin(by), "secret")
    assert not artifacts_for(run.member).exists()
    assert not Draft.objects.visible_to(guest).exists()
    assert RoomEvent.objects.count() == before
    finish(by, at)
    assert RoomEvent.objects.filter(kind="artifact.saved").count() == 1


def test_the_same_piece_again_converges_and_a_different_one_is_refused(run: Run) -> None:
    by = writer(run)
    start = begin(by)
    first = append(by, start, "one")
    assert append(by, start, "one") == first
    with pytest.raises(StaleCursor, match="1 pieces"):
        append(by, start, "another")
    second = append(by, first, "two")
    assert append(by, start, "one") == first
    assert drafts.text_of(second.draft) == "onetwo"


@pytest.mark.parametrize(("sequence", "digest"), [(2, None), (0, None), (1, "0" * 64)])
def test_a_stale_sequence_or_a_foreign_digest_is_refused_and_changes_nothing(
    run: Run, sequence: int, digest: str | None
) -> None:
    by = writer(run)
    at = append(by, begin(by), "one")
    wrong = Cursor(at.draft, sequence, digest or at.digest)
    with pytest.raises(StaleCursor):
        append(by, wrong, "two")
    with pytest.raises(StaleCursor):
        finish(by, wrong)
    draft = Draft.objects.get()
    assert (draft.sequence, draft.digest, draft.state) == (1, at.digest, "open")
    assert not Artifact.objects.exists()


def test_another_member_and_another_room_find_no_draft(run: Run, agent: Agent) -> None:
    at = begin(writer(run))
    stranger = Writer(make_member("tomas"), run.room_id, RunHold(run.pk, run.fence))
    elsewhere = Writer(run.member, make_room(run.member).pk, RunHold(run.pk, run.fence))
    said = set()
    for by in (stranger, elsewhere):
        for ident in (at.draft.pk, uuid.uuid4(), "no id"):
            with pytest.raises(ArtifactNotFound) as refused:
                append(by, Cursor(Draft(pk=ident), 0, at.digest), "x")
            said.add(str(refused.value) if ident != "no id" else "")
    assert len(said - {""}) == 1
    assert Draft.objects.get().sequence == 0


def test_a_worker_that_was_overtaken_writes_nothing_more(run: Run) -> None:
    by = writer(run)
    at = append(by, begin(by), "one")
    after = writer(run, fence=run.fence + 1)
    at = append(after, at, "two")
    with pytest.raises(DraftTaken, match=r"taken this turn over.*stays"):
        append(by, at, "three")
    with pytest.raises(DraftTaken):
        finish(by, at)
    assert finish(after, at).characters == 6


def test_a_draft_whose_turn_is_over_is_resumed_by_a_later_turn_of_its_owner(run: Run) -> None:
    at = append(writer(run), begin(writer(run)), "one")
    assert not interrupted_drafts(user=run.member, room_id=run.room_id).exists()
    later = later_run(run)
    assert interrupted_drafts(user=run.member, room_id=run.room_id).get() == at.draft
    at = append(writer(later), at, "two")
    # The turn that began it has lost it, even if it comes back.
    with pytest.raises(DraftTaken, match="Another turn"):
        append(writer(run), at, "three")
    assert finish(writer(later), at).characters == 6


def test_a_draft_of_a_turn_that_still_goes_on_is_not_taken_from_it(run: Run, member: User) -> None:
    at = begin(writer(run))
    other = make_agent(member, slug="helper")
    room = run.room
    add_seat(room_id=room.pk, member=member, agent_slug=other.slug)
    beside = claimed_run(room, other, member)
    for attempt in (
        lambda: append(writer(beside), at, "x"),
        lambda: drafts.discard_draft(writer=writer(beside), draft_id=at.draft.pk),
    ):
        with pytest.raises(DraftTaken, match="Another turn"):
            attempt()
    assert Draft.objects.get().run_id == run.pk


def test_a_turn_has_one_draft_and_beginning_the_same_again_gives_it(run: Run) -> None:
    by = writer(run)
    at = begin(by)
    assert begin(by) == at
    with pytest.raises(DraftTaken, match=str(at.draft.pk)):
        begin(by, "Another")
    append(by, at, "one")
    with pytest.raises(DraftTaken):
        begin(by)
    assert Draft.objects.count() == 1


def test_only_so_many_drafts_stay_unfinished_in_a_room(run: Run) -> None:
    for _ in range(MAX_OPEN):
        begin(writer(run))
        run = later_run(run)
    with pytest.raises(DraftTaken, match="unfinished drafts"):
        begin(writer(run))
    gone = Draft.objects.first()
    assert gone is not None
    drafts.discard_draft(writer=writer(run), draft_id=gone.pk)
    assert begin(writer(run)).sequence == 0


def test_a_discarded_draft_is_over_and_discarding_it_again_changes_nothing(run: Run) -> None:
    by = writer(run)
    at = append(by, begin(by), "one")
    drafts.discard_draft(writer=by, draft_id=at.draft.pk)
    drafts.discard_draft(writer=by, draft_id=at.draft.pk)
    for attempt in (lambda: append(by, at, "two"), lambda: finish(by, at)):
        with pytest.raises(DraftTaken, match="discarded"):
            attempt()
    assert not DraftPiece.objects.exists()
    assert begin(by).draft.pk != at.draft.pk


def test_finishing_again_with_the_same_cursor_gives_the_same_version(run: Run) -> None:
    by = writer(run)
    at = append(by, begin(by), "one")
    version = finish(by, at)
    assert finish(by, at) == version
    assert ArtifactVersion.objects.count() == 1
    with pytest.raises(DraftTaken, match="finished"):
        append(by, at, "two")


def test_an_empty_draft_cannot_be_finished_and_no_piece_is_too_long(run: Run) -> None:
    by = writer(run)
    at = begin(by)
    with pytest.raises(BadArtifact, match="Nothing has been written"):
        finish(by, at)
    for text in ("", "x" * (MAX_PIECE + 1), "a\x00b"):
        with pytest.raises(BadArtifact):
            append(by, at, text)
    for _ in range(MAX_BODY // MAX_PIECE):
        at = append(by, at, "x" * MAX_PIECE)
    with pytest.raises(BadArtifact, match="100,000"):
        append(by, at, "x")
    assert finish(by, at).characters == MAX_BODY


def test_update_artifact_completes_an_unfinished_draft_with_a_whole_body(run: Run) -> None:
    at = append(writer(run), begin(writer(run)), "half")
    later = later_run(run)
    told = seen(
        later,
        "update_artifact",
        {"artifact_id": str(at.draft.pk), "expected_version": 0, "body": "whole"},
    )
    assert told["value"]["version"] == 1
    assert told["value"]["artifact_id"] == str(at.draft.pk)
    assert Draft.objects.get().state == "finished"
    again = {"artifact_id": str(at.draft.pk), "expected_version": 0, "body": "other"}
    assert seen(later, "update_artifact", again, step=2)["reason"] == "conflict"


def seen(run: Run, tool: str, arguments: dict[str, Any], step: int = 1) -> dict[str, Any]:
    projection = projection_of(crossed(run, tool, arguments, step=step).call)
    assert projection is not None
    return projection


def test_the_tools_carry_the_cursor_from_one_call_to_the_next(run: Run) -> None:
    at = seen(run, "begin_artifact", HEAD)["value"]
    cursor = {key: at[key] for key in ("draft_id", "sequence", "digest")}
    at = seen(run, "append_artifact", {**cursor, "text": "<p>"}, step=2)["value"]
    assert (at["sequence"], at["characters"]) == (1, 3)
    stale = seen(run, "append_artifact", {**cursor, "text": "<b>"}, step=3)
    assert stale["reason"] == "stale_version"
    assert at["digest"] in stale["message"]
    read = seen(run, "read_artifact", {"artifact_id": at["draft_id"]}, step=4)["value"]
    assert (read["unfinished"], read["lines"]) == (True, ["1: <p>"])
    cursor = {key: at[key] for key in ("draft_id", "sequence", "digest")}
    done = seen(run, "finalize_artifact", cursor, step=5)
    assert done["artifacts"] == [f"{at['draft_id']}:1"]


def test_a_draft_cannot_be_read_by_another_member_of_the_room(run: Run, agent: Agent) -> None:
    at = begin(writer(run))
    guest = make_member("tomas")
    invite(room_id=run.room_id, inviter=run.member, username=guest.username)
    over(run)
    Agent.objects.filter(pk=agent.pk).update(owner=guest)
    theirs = claimed_run(run.room, Agent.objects.get(pk=agent.pk), guest)
    told = seen(theirs, "read_artifact", {"artifact_id": str(at.draft.pk)})
    assert told["reason"] == "not_found"


def test_a_run_that_lacks_one_part_of_the_protocol_is_offered_none_of_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(STAGED_WRITING) <= {tool.spec.name for tool in offered_tools(run)}
    known = {name: tool for name, tool in BUILTIN_TOOLS.items() if name != "discard_artifact"}
    monkeypatch.setattr(catalog, "BUILTIN_TOOLS", known)
    assert not set(STAGED_WRITING) & {tool.spec.name for tool in offered_tools(run)}


@pytest.mark.django_db(transaction=True)
def test_of_two_writers_at_once_one_appends_and_the_other_sees_that(
    transactional_db: Any,
) -> None:
    member = make_member("mara")
    agent = make_agent(member, slug="scribe")
    run = claimed_run(make_room(member, agent), agent, member)
    by = writer(run)
    at = begin(by)
    together = Barrier(2)

    def write(text: str) -> str:
        together.wait(10)
        try:
            append(by, at, text)
        except StaleCursor:
            return "stale"
        finally:
            connection.close()
        return "written"

    with ThreadPoolExecutor(2) as pool:
        ends = sorted(pool.map(write, ["left", "right"]))
    assert ends == ["stale", "written"]
    assert Draft.objects.get().sequence == 1


def test_the_database_itself_keeps_a_turn_to_one_open_draft(run: Run) -> None:
    begin(writer(run))
    with pytest.raises(Exception, match="artifact_drafts_one_open_of_run"), transaction.atomic():
        Draft.objects.create(
            owner=run.member, room=run.room, title="x", kind="html", run_id=run.pk, fence=1,
            digest="",
        )  # fmt: skip


def test_a_later_claim_of_the_same_run_goes_on_with_its_draft(run: Run) -> None:
    at = seen(run, "begin_artifact", HEAD)["value"]
    Run.objects.filter(pk=run.pk).update(claim_expires_at="2020-01-01T00:00Z")
    assert claim_run(run_id=run.pk, worker="another") == run.fence + 1
    run.refresh_from_db()
    cursor = {key: at[key] for key in ("draft_id", "sequence", "digest")}
    assert seen(run, "append_artifact", {**cursor, "text": "<p>"}, step=2)["outcome"] == "ok"
    assert Draft.objects.get().fence == run.fence
