"""Who is there? Members and administrators, and what they hold on single objects."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models
from guardian.models.models import UserObjectPermissionBase


class User(AbstractUser):
    """A person who signs in. Staff are administrators, everyone else is a member."""

    display_name = models.CharField(max_length=80, blank=True)

    @property
    def key(self) -> str:
        """Name this person in audit rows and events."""
        return f"user:{self.pk}"

    @property
    def name(self) -> str:
        """The name that others see."""
        return self.display_name or self.get_full_name() or self.username

    @property
    def initials(self) -> str:
        """One or two letters for the round picture."""
        parts = self.name.split()
        return "".join(part[0] for part in (*parts[:1], *parts[1:][-1:])).upper()


class ObjectPermission(UserObjectPermissionBase):
    """What one member holds on one object: subclassed by each app with a `content_object` key."""

    class Meta(UserObjectPermissionBase.Meta):
        abstract = True
