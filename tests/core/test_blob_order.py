"""Two that keep the same bytes at once never wait for each other in a circle."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from apps.accounts.models import User
from apps.artifacts.native import NativeFile, hold_files, keep_files
from apps.artifacts.services import Provenance
from apps.core.blobs import put_blob, put_blobs, stored_together
from apps.core.deadlines import Deadline
from apps.core.models import Blob
from apps.domain.hashline import NoGrammar
from apps.rooms.models import Room
from apps.sandbox.contents import take_back
from apps.sandbox.editing import edit_workspace, read_workspace
from apps.sandbox.leases import acquire, release
from apps.sandbox.models import WorkspaceFile
from apps.sandbox.spec import WorkChanges, WorkFile
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room

pytestmark = pytest.mark.django_db(transaction=True)
CLONE = Path(__file__).resolve().parents[2]
BODIES = [f"body {number}".encode() for number in range(12)]


def together(*works: Callable[[], None]) -> list[Exception]:
    """Carry out all of these at once; return what any of them raised."""
    raised: list[Exception] = []
    barrier = threading.Barrier(len(works))

    def carry_out(work: Callable[[], None]) -> None:
        barrier.wait()
        try:
            work()
        except Exception as problem:  # noqa: BLE001 - whatever it is, the test tells it
            raised.append(problem)
        finally:
            connection.close()

    threads = [threading.Thread(target=carry_out, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def kept_by(member: User, bodies: list[bytes]) -> Callable[[], None]:
    """Return what keeps files for people and files of a workspace, as a program's call does."""
    agent = make_agent(member)
    room = make_room(member, agent)
    run = claimed_run(room, agent, member)
    call = crossed(run, "list_available_agents", {}).call
    lease = acquire(owner=member, room_id=room.pk, call_id=None, deadline=Deadline.after(60))
    half = len(bodies) // 2
    files = [
        NativeFile(f"{number}.txt", body, "text/plain") for number, body in enumerate(bodies[:half])
    ]
    changed = tuple(WorkFile(f"{n}.txt", body) for n, body in enumerate(bodies[half:]))

    def keep() -> None:
        with transaction.atomic():
            hold_files(owner=member, room_id=room.pk, names=[file.name for file in files])
            with stored_together([*(f.content for f in files), *(f.content for f in changed)]):
                keep_files(
                    owner=member,
                    room_id=room.pk,
                    files=files,
                    provenance=Provenance(
                        run_id=run.pk, call_id=call.pk, agent_name=agent.name, agent_slug=agent.slug
                    ),
                )
                take_back(lease, WorkChanges(changed=changed), release_after=True)

    return keep


def test_two_members_who_keep_the_same_bytes_at_once_both_keep_them() -> None:
    # What one keeps for people, the other keeps in the workspace.
    one = kept_by(make_member(), BODIES)
    other = kept_by(make_member(), BODIES[::-1])
    assert together(one, other) == []
    assert Blob.objects.filter(pk__in=put_blobs(BODIES).values()).count() == len(BODIES)
    assert WorkspaceFile.objects.count() == len(BODIES)


def test_two_members_whose_patches_write_the_same_texts_elsewhere_both_write_them() -> None:
    def patch(texts: list[str]) -> Callable[[], None]:
        member = make_member()
        room: Room = make_room(member)
        where: Any = {"owner": member, "room_id": room.pk, "deadline": Deadline.after(60)}
        lease = acquire(call_id=None, **where)
        names = [f"{number}.txt" for number in range(len(texts))]
        take_back(lease, WorkChanges(changed=tuple(WorkFile(name, b"old\n") for name in names)))
        release(lease)
        sections = []
        for name, text in zip(names, texts, strict=True):
            with transaction.atomic():
                shown: Any = read_workspace(**where, path=name)
            sections.append(f"[{name}#{shown.tag}]\nPUT 1.=1:\n+{text}")

        def edit() -> None:
            with transaction.atomic():
                edit_workspace(**where, patch="\n".join(sections), grammar=NoGrammar())

        return edit

    texts = [f"text {number}" for number in range(8)]
    assert together(patch(texts), patch(texts[::-1])) == []


def test_bodies_are_stored_together_within_a_transaction_only() -> None:
    with pytest.raises(LookupError), stored_together([b"x"]):
        pass
    with transaction.atomic(), stored_together([b"x"]):
        digest = put_blob(b"x")
    assert bytes(Blob.objects.get(pk=digest).content) == b"x"


def test_no_body_is_stored_alone_in_a_loop() -> None:
    loops = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    found = [
        f"{path.relative_to(CLONE)}:{call.lineno}"
        for path in (CLONE / "apps").rglob("*.py")
        for loop in ast.walk(ast.parse(path.read_text()))
        if isinstance(loop, loops)
        for call in ast.walk(loop)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "put_blob"
    ]
    assert found == []
