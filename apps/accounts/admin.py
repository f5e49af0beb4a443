"""How do administrators look after members?"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from knox.models import AuthToken
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from apps.accounts.identity import acting_user
from apps.accounts.models import User
from apps.accounts.services import note_group, note_password_set, note_user_saved
from apps.accounts.tokens import revoke_all_tokens, revoke_token
from apps.core.admin import ReadOnlyAdmin

admin.site.unregister(Group)
# The library's own page makes tokens behind the back of the service.
admin.site.unregister(AuthToken)


DUTIES = ("is_staff", "is_superuser", "groups", "user_permissions")


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):
    """Members: made, changed and shut out, never deleted, for their work names them."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "display_name", "is_active", "is_staff", "last_login")
    list_filter = ("is_active", "is_staff")
    search_fields = ("username", "display_name", "email")
    search_help_text = "Username, name or address"
    actions = ("revoke_tokens",)
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("display_name", "first_name", "last_name", "email")}),
        (
            "Duties",
            {"fields": ("is_active", *DUTIES)},
        ),
        ("Times", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody is deleted; taking `active` away shuts a member out at once."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whoever only looks after members leaves administrators alone: else a new password for
        one of them would open every duty.
        """
        if isinstance(obj, User) and obj.is_staff and not acting_user(request).is_superuser:
            return False
        return bool(super().has_change_permission(request, obj))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Let only a superuser give duties, or anybody who changes members had all of them."""
        fixed = tuple(super().get_readonly_fields(request, obj))
        return fixed if acting_user(request).is_superuser else (*fixed, *DUTIES)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Save, and write down what changed."""
        super().save_model(request, obj, form, change)
        note_user_saved(
            actor=acting_user(request), user=obj, fields=list(form.changed_data), created=not change
        )

    def user_change_password(
        self, request: HttpRequest, id: str, form_url: str = ""
    ) -> HttpResponse:
        """Set a password, and end what the old one had opened."""
        response: HttpResponse = super().user_change_password(request, id, form_url)
        user = self.get_object(request, id)
        # The page answers with a redirect only after it has set the password.
        if request.method == "POST" and response.status_code == 302 and isinstance(user, User):
            note_password_set(actor=acting_user(request), user=user)
        return response

    @admin.action(description="Revoke all tokens of the selected members", permissions=["change"])
    def revoke_tokens(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Sign the programs of these members out."""
        count = sum(
            revoke_all_tokens(actor=acting_user(request), user=user)
            for user in queryset
            if self.has_change_permission(request, user)
        )
        self.message_user(request, f"{count} tokens were revoked.", messages.SUCCESS)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    """Groups of duties: whoever changes one gives all of them, so only superusers do."""

    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Let superusers add groups."""
        return acting_user(request).is_superuser

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let superusers change groups."""
        return acting_user(request).is_superuser

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let superusers delete groups."""
        return acting_user(request).is_superuser

    def save_model(self, request: HttpRequest, obj: Group, form: Any, change: bool) -> None:
        """Save, and write down what changed."""
        super().save_model(request, obj, form, change)
        word = "changed" if change else "created"
        note_group(actor=acting_user(request), group=obj, word=word, fields=form.changed_data)

    def delete_model(self, request: HttpRequest, obj: Group) -> None:
        """Delete, and write that down."""
        note_group(actor=acting_user(request), group=obj, word="deleted")
        super().delete_model(request, obj)


@admin.register(AuthToken)
class TokenAdmin(ReadOnlyAdmin):
    """Tokens, shown without their secret; they end by the action below, which writes it down."""

    list_display = ("token_key", "user", "created", "expiry")
    search_fields = ("user__username", "token_key")
    list_select_related = ("user",)
    actions = ("revoke",)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Whoever may delete tokens may revoke them."""
        return bool(acting_user(request).has_perm("knox.delete_authtoken"))

    @admin.action(description="Revoke the selected tokens", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[AuthToken]) -> None:
        """Take the selected tokens away."""
        for token in queryset.select_related("user"):
            revoke_token(actor=acting_user(request), user=token.user, token_key=token.token_key)
        self.message_user(request, "The tokens were revoked.", messages.SUCCESS)
