"""Where do administrators set secrets and connections? Values are written here, and never read."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import display
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from apps.accounts.identity import acting_user
from apps.accounts.permissions import Permission, may
from apps.broker import services
from apps.broker.errors import SecretRefused
from apps.broker.models import Connection, Secret, SecretGrant
from apps.broker.selectors import secrets_with_uses
from apps.core.admin import BoundedPaginator, ago


class _Value(forms.CharField):
    """A value that goes in and is never shown again; it is taken as it was typed."""

    widget = UnfoldAdminPasswordWidget

    def __init__(self, label: str) -> None:
        super().__init__(
            label=label,
            strip=False,
            required=False,
            widget=UnfoldAdminPasswordWidget(
                attrs={"autocomplete": "new-password"}, render_value=False
            ),
            help_text="Never shown again. Leave it empty to keep what is there.",
        )


class _ValueForm(forms.ModelForm):
    """A form with a value that only goes in."""

    def clean_value(self) -> str:
        """Refuse a value that no request can carry, and demand one at the beginning."""
        value = str(self.cleaned_data["value"])
        if not value and self.instance._state.adding:
            raise forms.ValidationError("It needs a value.")
        try:
            return services.check_value(value) if value else ""
        except SecretRefused as refusal:
            raise forms.ValidationError(refusal.message) from None


class SecretForm(_ValueForm):
    """A secret's name, what it is for, and its value."""

    value = _Value("Value")

    class Meta:
        model = Secret
        fields = ("name", "note")


class ConnectionForm(_ValueForm):
    """An account at another system, and the token that acts for it."""

    value = _Value("Access token")
    covers = forms.CharField(
        label="Permissions",
        required=False,
        widget=UnfoldAdminTextInputWidget(),
        help_text="What the account lets us do, separated by blanks: mail.read mail.send",
    )

    class Meta:
        model = Connection
        fields = ("app", "owner", "expires_at")

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.fields["covers"].initial = " ".join(self.instance.permissions)


class _Guarded(ModelAdmin):
    """Pages for whoever holds one permission; everything that changes goes through a service."""

    actions = None
    paginator = BoundedPaginator
    show_full_result_count = False
    permission: Permission

    def _held(self, request: HttpRequest) -> bool:
        return may(acting_user(request), self.permission)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let those add who hold the permission."""
        return self._held(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let those change who hold the permission."""
        return self._held(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let those remove who hold the permission."""
        return self._held(request)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> None:
        """Keep no second trail beside the audit's."""

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> None:
        """Keep no second trail beside the audit's."""

    def log_deletions(self, request: HttpRequest, queryset: Any) -> None:
        """Keep no second trail beside the audit's."""


@admin.register(Secret)
class SecretAdmin(_Guarded):
    """Secrets: who set them and when, and which packages use them. Never what they are."""

    permission = Permission.SECRET_MANAGE
    form = SecretForm
    list_display = ("name", "note", "used_by", "set_by", "changed")
    search_fields = ("name", "note")
    search_help_text = "Name or note"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List secrets with their uses."""
        return secrets_with_uses()

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Keep the name of a secret that is there, and show who set it and what uses it."""
        return () if obj is None else ("name", "used_by", "set_by", "set_at")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Show the value's field last."""
        about = () if obj is None else ("used_by", "set_by", "set_at")
        return ("name", "note", *about, "value")

    @display(description="Used by")
    def used_by(self, row: Secret) -> str:
        """Name the packages that may use it."""
        return ", ".join(sorted({one.package.name for one in row.grants.all()})) or "no package"

    @display(description="Set")
    def changed(self, row: Secret) -> str:
        """Say when it got its value."""
        return ago(row.set_at)

    def save_model(self, request: HttpRequest, obj: Secret, form: Any, change: bool) -> None:
        """Set the value, or only the note where none was given."""
        actor, value = acting_user(request), form.cleaned_data["value"]
        if not value:
            services.describe_secret(actor=actor, name=obj.name, note=obj.note)
            return
        saved = services.set_secret(actor=actor, name=obj.name, value=value, note=obj.note)
        obj.pk, obj._state.adding = saved.pk, False

    def delete_model(self, request: HttpRequest, obj: Secret) -> None:
        """Remove it with its grants."""
        services.remove_secret(actor=acting_user(request), name=obj.name)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Say what goes along: the grants, which nothing protects."""
        names = [str(one) for one in objs]
        grants = [str(grant) for one in objs for grant in one.grants.all()]
        return names + grants, {"secret": len(names), "grant": len(grants)}, set(), []


class SecretGrantForm(forms.ModelForm):
    """Which package means which secret by which name."""

    class Meta:
        model = SecretGrant
        fields = ("package", "need", "secret")


@admin.register(SecretGrant)
class SecretGrantAdmin(_Guarded):
    """What packages mean by the names in their declarations."""

    permission = Permission.SECRET_MANAGE
    form = SecretGrantForm
    list_display = ("package", "need", "secret", "granted_by", "created_at")
    list_select_related = ("package", "secret", "granted_by")
    # Found as one types, for there may be very many of both.
    autocomplete_fields = ("package", "secret")
    list_filter = (("package", AutocompleteSelectFilter),)
    list_filter_submit = True
    search_fields = ("package__name", "need", "secret__name")
    search_help_text = "Package, name or secret"

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let nobody change a grant: another meaning is another grant."""
        return False

    def save_model(self, request: HttpRequest, obj: SecretGrant, form: Any, change: bool) -> None:
        """Grant it."""
        saved = services.grant_secret(
            actor=acting_user(request), package=obj.package, need=obj.need, secret=obj.secret
        )
        obj.pk, obj._state.adding = saved.pk, False

    def delete_model(self, request: HttpRequest, obj: SecretGrant) -> None:
        """Take it back."""
        services.revoke_secret(actor=acting_user(request), grant=obj)


@admin.register(Connection)
class ConnectionAdmin(_Guarded):
    """Accounts at other systems: whose, what for, until when. Never their tokens."""

    permission = Permission.CONNECTION_MANAGE
    form = ConnectionForm
    list_display = ("app", "whose", "covers", "expires_at", "set_by", "changed")
    list_select_related = ("owner", "set_by")
    list_filter = ("app",)
    search_fields = ("app", "owner__username")
    search_help_text = "App or username"
    autocomplete_fields = ("owner",)
    fields = ("app", "owner", "covers", "expires_at", "value")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Keep whose account it is, and where."""
        return () if obj is None else ("app", "owner")

    @display(description="Whose")
    def whose(self, row: Connection) -> str:
        """Name whose account it is."""
        return str(row.owner.name) if row.owner else "the company"

    @display(description="Permissions")
    def covers(self, row: Connection) -> str:
        """List what the account lets us do."""
        return ", ".join(row.permissions) or "none"

    @display(description="Set")
    def changed(self, row: Connection) -> str:
        """Say when it got its token."""
        return ago(row.set_at)

    def save_model(self, request: HttpRequest, obj: Connection, form: Any, change: bool) -> None:
        """Set the connection; a token that was not given again stays."""
        value = form.cleaned_data["value"]
        if not value:
            messages.info(request, "The token stays as it was.")
        saved = services.set_connection(
            actor=acting_user(request),
            app=obj.app,
            owner=obj.owner,
            token=value or None,
            permissions=form.cleaned_data["covers"].split(),
            expires_at=obj.expires_at,
        )
        obj.pk, obj._state.adding = saved.pk, False

    def delete_model(self, request: HttpRequest, obj: Connection) -> None:
        """Remove it."""
        services.remove_connection(actor=acting_user(request), connection=obj)
