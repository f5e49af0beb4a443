"""What may this member do? The only door to object permissions.

An object permission is a row that names member, permission and object; nobody, administrators
included, holds one without its row. Duties of administrators are model permissions instead.
Both are read from the database at every question, so a withdrawal holds at once.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Any, TypeVar

from django.db.models import Exists, Model, OuterRef, QuerySet
from guardian.shortcuts import assign_perm, remove_perm
from guardian.utils import get_user_obj_perms_model

from apps.accounts.models import User
from apps.core.errors import Forbidden

M = TypeVar("M", bound=Model)


class Permission(StrEnum):
    """Everything that can be held, as `app.codename`."""

    ROOM_TAKE_PART = "rooms.take_part"
    ROOM_MANAGE = "rooms.manage_room"
    AGENT_USE = "agents.use_agent"
    AGENT_MANAGE = "agents.manage_agent"
    PROPOSAL_REVIEW = "proposals.review_packageproposal"
    PROPOSAL_WORK = "proposals.work_on_packageproposal"
    ARTIFACT_READ = "artifacts.read_artifact"
    ARTIFACT_EDIT = "artifacts.edit_artifact"
    PACKAGE_MANAGE = "packages.manage_package"
    POLICY_MANAGE = "grants.manage_policy"
    AUTOMATION_REVOKE = "automations.revoke_automation"
    APPROVAL_SECOND = "approvals.second_approval"
    SECRET_MANAGE = "broker.manage_secret"  # noqa: S105 - a permission
    CONNECTION_MANAGE = "broker.manage_connection"
    AUDIT_READ = "audit.view_auditrow"

    @property
    def codename(self) -> str:
        """The part that Django stores."""
        return self.value.split(".", 1)[1]


def may(user: User, permission: Permission, obj: Model | None = None) -> bool:
    """Say whether this member holds the permission, on this object where one is named."""
    if not user.is_active:
        return False
    if obj is None:
        return user.has_perm(permission.value)
    return (
        get_user_obj_perms_model(obj)
        ._default_manager.filter(
            user_id=user.pk, content_object_id=obj.pk, permission__codename=permission.codename
        )
        .exists()
    )


def held_by(permission: Permission, model: type[Model], *, user: str, obj: str) -> Exists:
    """Ask the same within a larger query, whose columns `user` and `obj` name both by their ids.

    That the account is active is for that query to ask as well.
    """
    table: Any = get_user_obj_perms_model(model())
    return Exists(
        table._default_manager.filter(
            user_id=OuterRef(user),
            content_object_id=OuterRef(obj),
            permission__codename=permission.codename,
        )
    )


def require(user: User, permission: Permission, obj: Model | None = None) -> None:
    """Refuse unless the member holds the permission."""
    if not may(user, permission, obj):
        raise Forbidden("You may not do this here.")


def give(user: User, permission: Permission, obj: Model) -> None:
    """Let this member do one thing with one object."""
    assign_perm(permission.value, user, obj)


def take(user: User, permission: Permission, obj: Model) -> None:
    """Withdraw what `give` gave."""
    remove_perm(permission.value, user, obj)


def holders(permission: Permission, obj: Model, among: Collection[int]) -> set[int]:
    """Keep those of these active members who hold the permission on this object, in one query."""
    rows = get_user_obj_perms_model(obj)._default_manager.filter(
        user_id__in=among,
        user__is_active=True,
        content_object_id=obj.pk,
        permission__codename=permission.codename,
    )
    return set(rows.values_list("user_id", flat=True))


def members_with(obj: Model, permission: Permission, more: Permission) -> QuerySet[User]:
    """Return the members who hold a permission on this object, each with whether `more` is held.

    Those whose accounts are switched off are among them: what they hold can be withdrawn as well.
    """
    rows: QuerySet[Any] = get_user_obj_perms_model(obj)._default_manager.filter(
        content_object_id=obj.pk
    )
    those = rows.filter(permission__codename=permission.codename)
    further = rows.filter(permission__codename=more.codename, user_id=OuterRef("pk"))
    return User.objects.filter(pk__in=those.values("user_id")).annotate(more=Exists(further))


def held_ids(model: type[Model], user: User, *permissions: Permission) -> QuerySet[Any]:
    """Return the ids of the objects on which this member holds any, to look them up in a query."""
    table: Any = get_user_obj_perms_model(model())
    rows: QuerySet[Any] = table._default_manager.filter(
        user_id=user.pk, permission__codename__in=[p.codename for p in permissions]
    )
    return rows.values("content_object_id")


def held(queryset: QuerySet[M], user: User, *permissions: Permission) -> QuerySet[M]:
    """Keep the rows on which this member holds any of the permissions, in the same query."""
    return held_under(queryset, user.pk, *permissions) if user.is_active else queryset.none()


def held_under(queryset: QuerySet[M], user_id: Any, *permissions: Permission) -> QuerySet[M]:
    """Keep the same rows for a member whose account is known to be active, named by id."""
    table: Any = get_user_obj_perms_model(queryset.model())
    rows: QuerySet[Any] = table._default_manager.filter(
        user_id=user_id, permission__codename__in=[p.codename for p in permissions]
    )
    return queryset.filter(pk__in=rows.values("content_object_id"))
