"""What was shown and cut outlives whoever showed and cut it: the next call may be anywhere."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from apps.core.deadlines import Deadline
from apps.domain.hashline import NoGrammar
from apps.sandbox.contents import contents, take_back
from apps.sandbox.editing import edit_workspace, read_workspace
from apps.sandbox.leases import acquire, release
from apps.sandbox.spec import WorkChanges, WorkFile
from tests.factories.rooms import make_member, make_room
from tests.sandbox.processes import said_elsewhere

pytestmark = pytest.mark.django_db(transaction=True)


def test_texts_and_registers_survive_release_and_another_process() -> None:
    member = make_member()
    room = make_room(member)
    where: Any = {"owner": member, "room_id": room.pk, "deadline": Deadline.after(120)}
    lease = acquire(call_id=None, **where)
    take_back(lease, WorkChanges(changed=(WorkFile("a.txt", b"one\ntwo\nthree\n"),)))
    release(lease)
    with transaction.atomic():
        shown: Any = read_workspace(**where, path="a.txt")
    # Another process cuts under the tag of that read, and this one pastes what it cut.
    tag = said_elsewhere(f"""
from django.db import transaction
from apps.accounts.models import User
from apps.core.deadlines import Deadline
from apps.domain.hashline import NoGrammar
from apps.sandbox.editing import edit_workspace
with transaction.atomic():
    done = edit_workspace(
        owner=User.objects.get(pk={member.pk!r}), room_id="{room.pk}",
        deadline=Deadline.after(30), patch="[a.txt#{shown.tag}]\\nCUT 2.=2 @kept",
        grammar=NoGrammar(),
    )
print(done.sections[0].tag)
""").strip()
    with transaction.atomic():
        edit_workspace(**where, patch=f"[a.txt#{tag}]\nPUT >$ @kept", grammar=NoGrammar())
    (file,) = contents(lease.workspace)
    assert file.content == b"one\nthree\ntwo\n"


@pytest.mark.django_db
def test_an_edit_that_is_not_committed_is_not_remembered_either() -> None:
    member = make_member()
    room = make_room(member)
    where: Any = {"owner": member, "room_id": room.pk, "deadline": Deadline.after(30)}
    lease = acquire(call_id=None, **where)
    take_back(lease, WorkChanges(changed=(WorkFile("a.txt", b"one\ntwo\n"),)))
    release(lease)
    with transaction.atomic():
        shown: Any = read_workspace(**where, path="a.txt")
    patch = f"[a.txt#{shown.tag}]\nCUT 1.=1 @kept"
    with pytest.raises(RuntimeError), transaction.atomic():
        edit_workspace(**where, patch=patch, grammar=NoGrammar())
        raise RuntimeError("The worker dies before it commits.")
    (file,) = contents(lease.workspace)
    assert file.content == b"one\ntwo\n"
    with transaction.atomic():
        again = edit_workspace(**where, patch=patch, grammar=NoGrammar())
    assert again.memory.registers == {"kept": ("one",)}
