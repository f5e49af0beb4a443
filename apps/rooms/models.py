"""Where do people and agents meet? Rooms, their roster and their durable events."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from apps.accounts.models import ObjectPermission
from apps.core.models import Stamped
from apps.rooms.querysets import RoomQuerySet


class Room(Stamped):
    """A conversation with one or more participants."""

    name = models.CharField(max_length=120)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    position = models.PositiveBigIntegerField(default=0)
    roster_revision = models.PositiveIntegerField(default=0)
    closed_at = models.DateTimeField(null=True, blank=True)

    objects = RoomQuerySet.as_manager()

    class Meta:
        ordering = ["-updated_at"]
        default_permissions = ("view",)
        permissions = [
            ("take_part", "Take part in the room"),
            ("manage_room", "Manage the room"),
        ]

    def __str__(self) -> str:
        return self.name


class RoomPermission(ObjectPermission):
    """What a member holds on a room."""

    content_object = models.ForeignKey(Room, on_delete=models.CASCADE)


class Participant(models.Model):
    """A member's place in a room, kept after they leave."""

    class Role(models.TextChoices):
        OWNER = "owner", "Owner"
        MEMBER = "member", "Member"

    room = models.ForeignKey(Room, on_delete=models.CASCADE, related_name="participants")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)
    joined_at = models.DateTimeField(db_default=Now())
    left_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["room", "user"],
                condition=models.Q(left_at=None),
                name="participants_one_place",
            )
        ]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.room_id}"


class RoomEvent(models.Model):
    """A durable fact in a room, with its position."""

    room = models.ForeignKey(Room, on_delete=models.CASCADE, related_name="events")
    position = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=40)
    actor = models.CharField(max_length=120)
    data = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["room", "position"], name="room_events_one_place")
        ]

    def __str__(self) -> str:
        return f"{self.position} {self.kind}"
