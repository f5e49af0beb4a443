"""Do the administrators' pages show what happened, and keep what was said to those in the room?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission as PermissionRow
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest, Receipt
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.core.admin import ago, span
from apps.core.blobs import put_blob
from apps.domain.manifests import parse_manifest
from apps.grants.models import ToolGrant
from apps.packages.services import publish_package
from apps.rooms.services import create_room, publish_event
from apps.runs.models import Call, JournalEntry, Run
from tests.factories import packages as made

pytestmark = pytest.mark.django_db
SECRET = "the words that only the room may read"


@pytest.fixture
def world(db: None) -> dict[str, Any]:
    """A room in which an agent did something for a member."""
    mara = User.objects.create_user("mara", display_name="Mara Lindqvist")
    room = create_room(creator=mara, name="Incident 4127")
    publish_event(room_id=room.pk, kind="message.posted", actor=mara, data={"text": SECRET})
    agent = Agent.objects.create(slug="scribe", name="Scribe", owner=mara)
    run = Run.objects.create(
        room=room,
        agent=agent,
        member=mara,
        state=Run.State.FINISHED,
        outcome=Run.Outcome.COMPLETED,
        deadline_at=timezone.now(),
        finished_at=timezone.now() + timedelta(seconds=3),
        correlation_id="c1",
    )
    JournalEntry.objects.create(run=run, sequence=1, kind="input", body={"text": SECRET})
    call = Call.objects.create(
        run=run,
        step=1,
        place=1,
        proposal_id="p1",
        tool="create_artifact",
        title="Write it down",
        effect="write",
        arguments={"body": SECRET},
        arguments_digest="sha256:" + "ab" * 32,
        projection={"said": SECRET},
        state="settled",
        outcome="ok",
        dispatched_at=timezone.now(),
        settled_at=timezone.now(),
    )
    approval = ApprovalRequest.objects.create(
        call=call,
        decider=mara,
        tool=call.tool,
        arguments_digest=call.arguments_digest,
        descriptor_digest="",
        expires_at=timezone.now() + timedelta(hours=3),
    )
    Receipt.objects.create(
        request=approval,
        call=call,
        run=run,
        actor=mara,
        tool=call.tool,
        arguments_digest=call.arguments_digest,
        descriptor_digest="",
        expires_at=timezone.now(),
    )
    artifact = Artifact.objects.create(owner=mara, room=room, title="Post-mortem", head=1)
    ArtifactVersion.objects.create(
        artifact=artifact,
        number=1,
        title="Post-mortem",
        blob_id=put_blob(SECRET.encode()),
        size=len(SECRET),
        characters=len(SECRET),
        author=mara,
    )
    version = publish_package(
        manifest=parse_manifest(made.manifest()), files=made.tree(), author=mara, admitted_by=mara
    )
    grant = ToolGrant.objects.create(
        agent=agent, version=version, tool_name="pkg_weather_convert", granted_by=mara
    )
    return {
        "rooms_room": (room, "Mara Lindqvist"),
        "runs_run": (run, "create_artifact"),
        "runs_call": (call, "shown to people of the room, not here"),
        "approvals_approvalrequest": (approval, "Write it down"),
        "artifacts_artifact": (artifact, "Incident 4127"),
        "grants_toolgrant": (grant, "weather@1.0.0"),
    }


PAGES = (
    "rooms_room",
    "runs_run",
    "runs_call",
    "approvals_approvalrequest",
    "artifacts_artifact",
    "grants_toolgrant",
)


@pytest.mark.parametrize("page", PAGES)
def test_pages_show_facts_and_keep_what_was_said(
    client: Client, world: dict[str, Any], page: str, django_assert_max_num_queries: Any
) -> None:
    keeper = User.objects.create_user("ines", is_staff=True, is_superuser=True)
    client.force_login(keeper)
    obj, words = world[page]
    with django_assert_max_num_queries(12):
        listed = client.get(reverse(f"admin:{page}_changelist"))
    assert listed.status_code == 200
    with django_assert_max_num_queries(14):
        shown = client.get(reverse(f"admin:{page}_change", args=[obj.pk]))
    assert shown.status_code == 200
    assert words in shown.content.decode()
    for answer in (listed, shown):
        assert SECRET not in answer.content.decode()


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_for_those_with_the_duty_and_change_nothing(
    client: Client, world: dict[str, Any], page: str
) -> None:
    staff = User.objects.create_user("staff", is_staff=True)
    obj, _ = world[page]
    address = reverse(f"admin:{page}_change", args=[obj.pk])
    client.force_login(staff)
    assert client.get(reverse(f"admin:{page}_changelist")).status_code == 403
    assert client.get(address).status_code == 403
    app, _, model = page.partition("_")
    staff.user_permissions.add(
        PermissionRow.objects.get(content_type__app_label=app, codename=f"view_{model}")
    )
    assert client.get(address).status_code == 200
    assert client.get(reverse(f"admin:{page}_add")).status_code == 403
    assert client.post(reverse(f"admin:{page}_delete", args=[obj.pk])).status_code == 403
    assert client.get(reverse(f"admin:{page}_change", args=["nothing"])).status_code == 404


@pytest.mark.parametrize(
    ("page", "question"),
    [
        ("runs_call", "arguments__body__startswith=the"),
        ("runs_call", "projection__said__contains=words"),
        ("runs_call", "run__journal__body__text__contains=words"),
        ("runs_run", "member__password__startswith=m"),
        ("runs_run", "catalog__isnull=1"),
        ("rooms_room", "created_by_id=1"),
    ],
)
def test_what_no_page_shows_cannot_be_guessed_by_filtering(
    client: Client, world: dict[str, Any], page: str, question: str
) -> None:
    client.force_login(User.objects.create_user("ines", is_staff=True, is_superuser=True))
    assert client.get(f"{reverse(f'admin:{page}_changelist')}?{question}").status_code == 400


@pytest.mark.parametrize("page", [*PAGES, "audit_auditrow", "knox_authtoken"])
def test_what_the_database_refuses_to_look_for_is_found_nowhere(
    client: Client, world: dict[str, Any], page: str
) -> None:
    client.force_login(User.objects.create_user("ines", is_staff=True, is_superuser=True))
    address = reverse(f"admin:{page}_changelist")
    for name in ("state__exact", "kind__exact", "subject", "actor", "correlation_id", "q"):
        answer = client.get(f"{address}?{name}=%00")
        assert answer.status_code in (200, 302, 400), name
    for name in ("created_at", "updated_at", "at"):
        answer = client.get(f"{address}?{name}_from=9999-12-31&{name}_to=9999-12-31")
        assert answer.status_code in (200, 302), name
    assert client.get(f"{address}%00/change/").status_code in (302, 404)


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (0.0421, "42 ms"),
        (3.25, "3.2 s"),
        (42, "42 s"),
        (125, "2 min"),
        (7300, "2 h"),
        (90_000, "1 day"),
        (200_000, "2 days"),
    ],
)
def test_lengths_are_said_in_their_largest_unit(length: float, words: str) -> None:
    assert span(timedelta(seconds=length)) == words


def test_times_are_relative_up_to_a_day() -> None:
    now = timezone.now()
    assert ago(now) == "just now"
    assert ago(now - timedelta(minutes=5)) == "5 min ago"
    assert ago(now + timedelta(hours=2, minutes=1)) == "in 2 h"
    assert "ago" not in ago(now - timedelta(days=3))
