"""What do readers ask of approvals?"""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.accounts.models import User
from apps.accounts.permissions import Permission, held, may
from apps.approvals.errors import RequestNotFound
from apps.approvals.models import Answer, ApprovalRequest
from apps.domain.policy.modes import Second
from apps.rooms.models import Room


def requests_for(person: User) -> QuerySet[ApprovalRequest]:
    """Every request that this person decides or decided, newest first.

    Those of the runs that work for them, and those that need a second yes which they may give.
    """
    if not person.is_active:
        return ApprovalRequest.objects.none()
    return ApprovalRequest.objects.filter(Q(decider=person) | _seconded_by(person)).select_related(
        "call", "call__run", "call__run__agent", "call__run__room", "call__run__member",
        "decided_by", "decider", "replaces", "replaced_by",
    )  # fmt: skip


def pending_approvals_for(person: User) -> QuerySet[ApprovalRequest]:
    """The requests that wait for this person's own answer."""
    return open_requests_for(person).filter(~Exists(_answers_of(person)))


def requests_waiting_for_others(person: User) -> QuerySet[ApprovalRequest]:
    """The requests that this person has answered and that another person has not."""
    return open_requests_for(person).filter(Exists(_answers_of(person)))


def open_requests_for(person: User) -> QuerySet[ApprovalRequest]:
    """The requests that this person decides and that are still open."""
    return requests_for(person).filter(state=ApprovalRequest.State.PENDING)


def request_for(*, approval_id: Any, decider: User) -> ApprovalRequest:
    """Return one request that this person decides, or refuse as if it did not exist."""
    request = requests_for(decider).filter(pk=approval_id).first()
    if request is None:
        raise RequestNotFound("There is no such approval that you decide.")
    return request


def may_second(person: User, request: ApprovalRequest) -> bool:
    """Tell whether this person may give a request's second yes: never the one who decides it."""
    if request.second == Second.NOBODY or person.pk == request.decider_id:
        return False
    if may(person, Permission.APPROVAL_SECOND):
        return True
    room = request.call.run.room
    return request.second == Second.ROOM_OWNER and may(person, Permission.ROOM_MANAGE, room)


def _seconded_by(person: User) -> Q:
    asked = ~Q(second=Second.NOBODY.value)
    if may(person, Permission.APPROVAL_SECOND):
        return asked
    managed = held(Room.objects.all(), person, Permission.ROOM_MANAGE)
    return Q(second=Second.ROOM_OWNER.value, call__run__room__in=managed.values("pk"))


def _answers_of(person: User) -> QuerySet[Answer]:
    return Answer.objects.filter(request=OuterRef("pk"), by=person)
