"""A program finds the files that its turn was given, exactly these, and no argument adds one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts.models import Artifact
from apps.audit.models import AuditRow
from apps.core.models import Blob
from apps.rooms.models import Room
from apps.runs.models import Run
from apps.runs.services import add_seat
from apps.sandbox.coding.sharing import BadSeal, Entry, opened, seal, variables
from tests.factories.programs import Ran
from tests.factories.rooms import claimed_run, crossed, make_agent, make_room

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("supervised"),
]

LOOK = """
import hashlib, json, os
entries = json.loads(os.environ.get("KAIZEN_SHARED_RESOURCES_MANIFEST", "null"))
for one in entries or []:
    one["content"] = open(one["path"]).read()
print(json.dumps([os.environ.get("KAIZEN_SHARED_RESOURCES_DIR"), entries]))
"""
NOTE = {"title": "Notes of May", "kind": "markdown", "body": "# May\n"}


def given_note(room: Room, member: User, **changed: Any) -> Artifact:
    """An artifact of the room that another agent's turn has made and ended with."""
    writer = make_agent(member)
    add_seat(room_id=room.pk, member=member, agent_slug=writer.slug)
    crossed(claimed_run(room, writer, member), "create_artifact", {**NOTE, **changed})
    artifact: Artifact = Artifact.objects.latest("created_at")
    return artifact


@pytest.fixture
def note(room: Room, member: User) -> Artifact:
    return given_note(room, member)


@pytest.fixture
def later(note: Artifact, room: Room, agent: Agent, member: User) -> Run:
    """A run that begins once the note is there."""
    return claimed_run(room, agent, member)


def test_without_files_there_are_no_variables(run: Run) -> None:
    assert json.loads(Ran(run, LOOK).value["stdout"]) == [None, None]


def test_what_was_there_when_the_turn_began_lies_read_only_beside_the_program(
    later: Run, note: Artifact
) -> None:
    folder, [entry] = json.loads(Ran(later, LOOK).value["stdout"])
    version = note.versions.get()
    assert folder == "/shared"
    assert entry == {
        "path": "/shared/Notes-of-May.md",
        "id": str(note.pk),
        "kind": "markdown",
        "version": 1,
        "digest": version.blob_id,
        "filename": "Notes-of-May.md",
        "media_type": "text/markdown",
        "size": 6,
        "content": "# May\n",
    }
    spoiled = Ran(later, "open('/shared/Notes-of-May.md', 'w')")
    assert "Read-only file system" in spoiled.value["stderr"]


def test_bash_and_node_find_them_the_same_way(later: Run) -> None:
    said = Ran(later, 'cat "$KAIZEN_SHARED_RESOURCES_DIR"/*', language="bash")
    assert said.value["stdout"] == "# May\n"
    code = "console.log(JSON.parse(process.env.KAIZEN_SHARED_RESOURCES_MANIFEST)[0].filename)"
    assert Ran(later, code, language="node").value["stdout"] == "Notes-of-May.md\n"


def changed_by_another(note: Artifact, room: Room, member: User, version: int = 1) -> None:
    other = make_agent(member)
    add_seat(room_id=room.pk, member=member, agent_slug=other.slug)
    change = {"artifact_id": str(note.pk), "expected_version": version, "body": "# June\n"}
    assert crossed(claimed_run(room, other, member), "update_artifact", change).call.outcome == "ok"


def test_a_changed_version_of_an_admitted_file_is_refused_and_no_other_file_with_it(
    note: Artifact, room: Room, agent: Agent, member: User
) -> None:
    given_note(room, member, title="Figures")
    later = claimed_run(room, agent, member)
    changed_by_another(note, room, member)
    changed_by_another(note, room, member, version=2)
    ran = Ran(later, LOOK)
    assert ran.call.outcome == "ok"
    # Neither what is out of date is there, nor what was never admitted.
    _, entries = json.loads(ran.value["stdout"])
    assert [one["filename"] for one in entries] == ["Figures.md"]
    told = ran.value["shared_files_changed"]
    name = "Notes-of-May.md"
    assert told["files"] == [{"name": name, "artifact_id": str(note.pk), "admitted": 1, "now": 3}]
    assert "did not find them" in told["note"]
    detail = AuditRow.objects.get(action="code.files_shared").detail
    assert detail["changed"] == [[str(note.pk), 3]]


def test_a_program_that_fails_is_told_which_file_has_changed(
    later: Run, note: Artifact, room: Room, member: User
) -> None:
    changed_by_another(note, room, member)
    ran = Ran(later, "open('/shared/Notes-of-May.md')")
    assert (ran.call.outcome, ran.call.reason) == ("error", "command_failed")
    assert [one["name"] for one in ran.value["shared_files_changed"]["files"]] == [
        "Notes-of-May.md"
    ]


def test_what_the_run_wrote_on_top_of_a_change_is_its_own(
    later: Run, note: Artifact, room: Room, member: User
) -> None:
    changed_by_another(note, room, member)
    change = {"artifact_id": str(note.pk), "expected_version": 2, "body": "# July\n"}
    assert crossed(later, "update_artifact", change, step=900).call.outcome == "ok"
    ran = Ran(later, LOOK)
    _, entries = json.loads(ran.value["stdout"])
    assert [(one["version"], one["content"]) for one in entries] == [(3, "# July\n")]
    assert "shared_files_changed" not in ran.value


def test_what_the_run_itself_made_is_no_change_and_lies_there_the_next_time(later: Run) -> None:
    Ran(later, "open('mine.txt', 'w').write('mine')", "mine.txt")
    change = {"artifact_id": _note_id(), "expected_version": 1, "body": "# May, corrected\n"}
    assert crossed(later, "update_artifact", change, step=900).call.outcome == "ok"
    _, entries = json.loads(Ran(later, LOOK).value["stdout"])
    found = {one["filename"]: (one["version"], one["content"]) for one in entries}
    assert found == {"mine.txt": (1, "mine"), "Notes-of-May.md": (2, "# May, corrected\n")}


def test_what_others_made_after_the_turn_began_is_not_admitted_to_it(
    later: Run, room: Room, member: User
) -> None:
    given_note(room, member, title="Afterwards")
    _, entries = json.loads(Ran(later, LOOK).value["stdout"])
    assert [one["filename"] for one in entries] == ["Notes-of-May.md"]


def test_a_file_of_another_room_is_not_there_whatever_the_arguments_say(
    later: Run, member: User
) -> None:
    elsewhere = given_note(make_room(member), member, title="Elsewhere")
    code = f"# {elsewhere.pk} /shared/Elsewhere.md\n{LOOK}"
    _, entries = json.loads(Ran(later, code).value["stdout"])
    assert [one["filename"] for one in entries] == ["Notes-of-May.md"]
    extra = {
        "language": "python", "code": LOOK, "artifact_targets": [], "files": [str(elsewhere.pk)],
    }  # fmt: skip
    refused = crossed(later, "run_code", extra, step=901).call
    assert (refused.outcome, refused.reason) == ("refused", "invalid_arguments")


def test_bytes_that_are_not_the_admitted_ones_are_never_handed_out(
    later: Run, note: Artifact
) -> None:
    Blob.objects.filter(pk=note.versions.get().blob_id).update(content=b"# Mai\n")
    ran = Ran(later, LOOK)
    assert (ran.call.outcome, ran.call.domain) == ("error", "dependency")
    assert "not the ones that were admitted" in ran.told["message"]


def test_the_audit_lists_the_files_and_never_their_bytes(later: Run, note: Artifact) -> None:
    ran = Ran(later, LOOK)
    row = AuditRow.objects.get(action="code.files_shared")
    assert row.subject == f"call:{ran.call.pk}"
    assert row.detail == {"files": [[str(note.pk), 1, note.versions.get().blob_id]]}
    assert "May" not in json.dumps(row.detail)


def _note_id() -> str:
    return str(Artifact.objects.get(title=NOTE["title"]).pk)


# --- the seal


def entry(content: bytes = b"x") -> Entry:
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    return Entry("/shared/a.txt", "id", "text", 1, digest, "a.txt", "text/plain", len(content))


def test_a_seal_holds_for_its_list_and_its_call_alone() -> None:
    sealed = seal("call", [entry()])
    contents = {entry().digest: b"x"}
    assert opened(sealed, contents) == (("a.txt", b"x"),)
    other = seal("call", [entry(b"y")])
    for forged in (
        replace(sealed, manifest=other.manifest),
        replace(sealed, call_id="another"),
        replace(sealed, seal="0" * 64),
    ):
        with pytest.raises(BadSeal, match="not the one that was sealed"):
            opened(forged, contents | {entry(b"y").digest: b"y"})


def test_a_file_with_other_bytes_breaks_the_seal() -> None:
    sealed = seal("call", [entry()])
    for wrong in ({}, {entry().digest: b"y"}, {entry().digest: b"xx"}):
        with pytest.raises(BadSeal, match=r"a\.txt"):
            opened(sealed, wrong)


def test_there_are_variables_only_where_there_are_files() -> None:
    assert variables(None) == ()
    assert [name for name, _ in variables(seal("call", [entry()]))] == [
        "KAIZEN_SHARED_RESOURCES_DIR",
        "KAIZEN_SHARED_RESOURCES_MANIFEST",
    ]
