"""Where do administrators bound what is used, and see how far it is used up?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.decorators import display

from apps.accounts.identity import acting_user
from apps.core.admin import ReadOnlyAdmin
from apps.domain.quotas import Unit, amount
from apps.quotas.errors import NotALimit
from apps.quotas.models import Meter, Price, Quota, Reservation
from apps.quotas.services import check_quota, note_price, note_quota


class QuotaForm(forms.ModelForm):
    """A limit, refused where it could never apply."""

    class Meta:
        model = Quota
        fields = ("subject", "member", "agent", "unit", "period", "most")

    def clean(self) -> dict[str, Any]:
        """Say which word does not fit the others."""
        fields: dict[str, Any] = super().clean() or {}
        if not self.errors:
            try:
                check_quota(Quota(**fields))
            except NotALimit as refusal:
                raise forms.ValidationError({refusal.field or "most": str(refusal)}) from None
        return fields


@admin.register(Quota)
class QuotaAdmin(ModelAdmin):
    """Limits of members and agents. What was reserved before a change stays reserved."""

    form = QuotaForm
    actions = None
    list_display = ("subject", "whose", "unit", "period", "limit", "updated_at")
    list_filter = ("subject", "unit", "period")
    search_fields = ("member__username", "agent__slug")
    search_help_text = "Username or agent"
    autocomplete_fields = ("member", "agent")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List limits with whom they name."""
        return Quota.objects.select_related("member", "agent")

    @display(description="Whose")
    def whose(self, row: Quota) -> str:
        """Name whom the limit is for."""
        one = row.member or row.agent
        return "everybody without one of their own" if one is None else str(one.name)

    @display(description="At most")
    def limit(self, row: Quota) -> str:
        """Write the limit as people read it."""
        return amount(Unit(row.unit), row.most)

    def save_model(self, request: HttpRequest, obj: Quota, form: Any, change: bool) -> None:
        """Save, and write down what was set."""
        super().save_model(request, obj, form, change)
        note_quota(actor=acting_user(request), quota=obj, word="set")

    def delete_model(self, request: HttpRequest, obj: Quota) -> None:
        """Remove, and write that down."""
        note_quota(actor=acting_user(request), quota=obj, word="removed")
        super().delete_model(request, obj)


@admin.register(Price)
class PriceAdmin(ModelAdmin):
    """What the tokens of models cost; spending is counted only where there is a price."""

    actions = None
    list_display = ("__str__", "input_price", "output_price")

    def save_model(self, request: HttpRequest, obj: Price, form: Any, change: bool) -> None:
        """Save, and write down what was set."""
        super().save_model(request, obj, form, change)
        note_price(actor=acting_user(request), price=obj, word="set")

    def delete_model(self, request: HttpRequest, obj: Price) -> None:
        """Remove, and write that down."""
        note_price(actor=acting_user(request), price=obj, word="removed")
        super().delete_model(request, obj)


@admin.register(Meter)
class MeterAdmin(ReadOnlyAdmin):
    """What has been used, by whom and when."""

    list_display = ("subject", "subject_id", "unit", "span", "used_amount", "held_amount")
    list_filter = ("subject", "unit", "span")
    search_fields = ("subject_id",)
    search_help_text = "Id of a member or agent"
    ordering = ("-updated_at",)

    @display(description="Used")
    def used_amount(self, row: Meter) -> str:
        """Write what was used as people read it."""
        return amount(Unit(row.unit), row.used)

    @display(description="Held")
    def held_amount(self, row: Meter) -> str:
        """Write what is held as people read it."""
        return amount(Unit(row.unit), row.held)


@admin.register(Reservation)
class ReservationAdmin(ReadOnlyAdmin):
    """What is held and what it came to."""

    list_display = ("kind", "state", "member", "agent", "reserved", "used", "created_at")
    list_filter = ("kind", "state")
    search_fields = ("correlation_id", "member__username", "agent__slug")
    search_help_text = "Reference, username or agent"
    list_select_related = ("member", "agent")
    ordering = ("-created_at",)
