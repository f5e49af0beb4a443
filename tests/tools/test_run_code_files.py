"""The files of a program: announced, checked, kept once, and never what they are not."""

from __future__ import annotations

import re
import threading
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from apps.accounts.models import User
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.artifacts.native import NativeFile, keep_files
from apps.artifacts.services import Provenance
from apps.audit.models import AuditRow
from apps.boundary.pipeline import execute_waiting
from apps.rooms.models import Room, RoomEvent
from apps.runs.models import Run
from apps.sandbox.models import WorkspaceFile
from apps.web.snapshot import durable_part
from tests.factories.programs import Ran, proposed_program
from tests.factories.rooms import crossed, make_member

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("supervised"),
]

ROWS = "open('rows.csv', 'w').write('a,b\\n1,2\\n')"


def events(room: Room, kind: str) -> list[dict[str, Any]]:
    rows = RoomEvent.objects.filter(room=room, kind=kind).order_by("position")
    return list(rows.values_list("data", flat=True))


def test_a_declared_file_becomes_a_native_artifact(run: Run, room: Room) -> None:
    ran = Ran(run, ROWS, "rows.csv")
    version = ArtifactVersion.objects.get()
    assert ran.told["artifacts"] == [f"{version.artifact_id}:1"]
    assert (version.artifact.kind, version.artifact.title) == ("file", "rows.csv")
    assert (version.media_type, bytes(version.blob.content)) == ("text/csv", b"a,b\n1,2\n")
    [saved] = events(room, "artifact.saved")
    assert (saved["call"], saved["target"]) == (str(ran.call.pk), "rows.csv")


def test_what_is_to_come_is_announced_with_the_call_and_is_no_artifact_yet(
    run: Run, room: Room
) -> None:
    ran = Ran(run, "raise SystemExit(3)", "report.docx", "out/rows.csv")
    [announced] = events(room, "call.dispatched")
    assert announced == {
        "call": str(ran.call.pk),
        "run": str(run.pk),
        "targets": ["report.docx", "out/rows.csv"],
    }
    # Nothing can be downloaded, because there is nothing: a placeholder is the call itself.
    assert not Artifact.objects.exists()
    [settled] = events(room, "call.settled")
    assert (settled["call"], settled["artifact"]) == (str(ran.call.pk), None)


def test_whoever_joins_meanwhile_sees_what_is_to_come_and_nobody_does_afterwards(
    run: Run, room: Room
) -> None:
    waiting = proposed_program(run, ROWS, "rows.csv")

    def seen() -> list[list[str]]:
        room.refresh_from_db()
        return [call["targets"] for call in durable_part(room)["calls"]]

    assert seen() == [[]]
    type(waiting).objects.filter(pk=waiting.pk).update(state="dispatched")
    assert seen() == [["rows.csv"]]
    type(waiting).objects.filter(pk=waiting.pk).update(state="waiting")
    execute_waiting(call_id=waiting.pk, executor="test")
    assert seen() == [[]]


def test_the_same_file_again_is_the_version_that_is_there(run: Run) -> None:
    first = Ran(run, ROWS, "rows.csv")
    again = Ran(run, f"{ROWS} # once more", "rows.csv")
    assert first.value["files"][0]["unchanged"] is False
    assert again.value["files"] == [{**first.value["files"][0], "unchanged": True}]
    assert again.told["artifacts"] == first.told["artifacts"]
    assert ArtifactVersion.objects.count() == 1
    assert AuditRow.objects.filter(action="artifact.reused").count() == 1


def test_another_content_under_the_same_name_is_the_next_version(run: Run) -> None:
    Ran(run, ROWS, "rows.csv")
    later = Ran(run, "open('rows.csv', 'w').write('a,b\\n3,4\\n')", "rows.csv")
    assert later.value["files"][0]["version"] == 2
    assert Artifact.objects.get().head == 2


def test_the_same_file_of_another_member_is_another_artifact(
    room: Room, member: User, run: Run
) -> None:
    for owner in (member, make_member()):
        keep_files(
            owner=owner,
            room_id=room.pk,
            files=[NativeFile("a.csv", b"a\n", "text/csv")],
            provenance=Provenance(run.pk, uuid.uuid4(), "Scribe", "scribe"),
        )
    assert Artifact.objects.count() == 2


def test_two_calls_that_make_the_same_file_at_once_make_one_version(
    room: Room, member: User, run: Run
) -> None:
    ready = threading.Barrier(4)
    kept: list[Any] = []

    def keep() -> None:
        ready.wait()
        try:
            kept.append(
                keep_files(
                    owner=member,
                    room_id=room.pk,
                    files=[
                        NativeFile("b.csv", b"b\n", "text/csv"),
                        NativeFile("a.csv", b"a\n", "text/csv"),
                    ],
                    provenance=Provenance(run.pk, uuid.uuid4(), "Scribe", "scribe"),
                )
            )
        finally:
            connection.close()

    threads = [threading.Thread(target=keep) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 4
    assert sorted(one["a.csv"].reused for one in kept) == [False, True, True, True]
    assert ArtifactVersion.objects.count() == 2


# --- what is not kept


@pytest.mark.parametrize(
    ("code", "name", "why"),
    [
        ("pass", "a.csv", "did not write it"),
        ("import os; os.symlink('/etc/passwd', 'a.txt')", "a.txt", "link"),
        ("import os; os.symlink('/etc', 'etc')", "etc/passwd.txt", "not write it|link"),
        ("import os; open('b', 'w').write('x'); os.link('b', 'a.txt')", "a.txt", "second name"),
        ("import os; os.mkfifo('a.txt')", "a.txt", "no regular file|cannot be read"),
        ("import os; os.mkdir('a.txt')", "a.txt", "no regular file"),
        ("open('a.pdf', 'w').write('MZ')", "a.pdf", "does not begin as a PDF"),
        ("open('a.xlsx', 'wb').write(b'PK')", "a.xlsx", "does not begin as an archive"),
        ("open('a.exe', 'w').write('MZ')", "a.exe", "none can be checked"),
    ],
)
def test_what_is_not_the_file_that_was_declared_is_not_kept_and_said(
    run: Run, code: str, name: str, why: str
) -> None:
    ran = Ran(run, code, name)
    assert (ran.call.outcome, ran.call.reason, ran.call.domain) == (
        "error", "command_failed", "caller",
    )  # fmt: skip
    assert re.search(why, ran.value["not_kept"][0]["why"])
    assert name in ran.value["repair_instruction"]
    assert not Artifact.objects.exists()


def test_a_failed_program_names_what_it_saved_all_the_same(run: Run) -> None:
    ran = Ran(run, f"{ROWS}\nraise ValueError('after the file')", "rows.csv", "never.csv")
    version = ArtifactVersion.objects.get()
    assert ran.call.outcome == "error"
    assert ran.told["saved"] == [f"{version.artifact_id}:1", "workspace:rows.csv"]
    assert "may be incomplete" in ran.told["notice"]
    assert ran.value["not_kept"] == [{"name": "never.csv", "why": "The program did not write it."}]
    assert WorkspaceFile.objects.filter(path="rows.csv").exists()


# --- how it is looked at and handed out


def test_a_file_is_handed_out_as_it_is_within_the_same_scope(
    run: Run, member: User, client: Client
) -> None:
    Ran(run, ROWS, "rows.csv")
    artifact = Artifact.objects.get()
    address = f"/artifacts/{artifact.pk}/versions/1/download"
    client.force_login(make_member("stranger"))
    assert client.get(address).status_code == 404
    client.force_login(member)
    answer = client.get(address)
    assert answer.getvalue() == b"a,b\n1,2\n"
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == 'attachment; filename="rows.csv"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"].startswith("sandbox")


def test_a_file_is_looked_at_by_what_was_derived_when_it_was_saved(
    run: Run, member: User, client: Client
) -> None:
    code = "open('rows.csv', 'w').write('<script>alert(1)</script>,b\\n1,2\\n')"
    Ran(run, code, "rows.csv")
    client.force_login(member)
    answer = client.get(f"/artifacts/{Artifact.objects.get().pk}/versions/1/preview")
    assert answer["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    page = answer.content.decode()
    assert "A table of 2 rows." in page
    assert "<td>&lt;script&gt;" in page
    assert "<script" not in page


def test_a_file_is_not_read_or_written_as_text(run: Run) -> None:
    Ran(run, ROWS, "rows.csv")
    artifact = str(Artifact.objects.get().pk)
    read = crossed(run, "read_artifact", {"artifact_id": artifact}, step=900).call
    assert (read.outcome, read.reason) == ("error", "invalid_arguments")
    written = {"artifact_id": artifact, "expected_version": 1, "body": "x"}
    wrote = crossed(run, "update_artifact", written, step=901).call
    assert (wrote.outcome, wrote.reason) == ("error", "invalid_arguments")


def test_native_titles_are_redirected_to_run_code(run: Run) -> None:
    for number, title in enumerate(("Report.docx", "Deck.pptx", "Sheet.XLSX")):
        asked = {"title": title, "kind": "text", "body": "x"}
        call = crossed(run, "create_artifact", asked, step=910 + number).call
        assert (call.outcome, call.reason) == ("error", "invalid_arguments")
        assert "run_code" in str(call.projection)
