"""What does a member fill in?"""

from __future__ import annotations

from typing import Any

from django import forms

from apps.approvals.models import ModeChoice


class NewRoom(forms.Form):
    """The name of a room to be."""

    name = forms.CharField(
        max_length=120, strip=True, error_messages={"required": "A room needs a name."}
    )


class ChosenMode(forms.Form):
    """How a member wants to be asked, in general or by one agent in one room; empty forgets it."""

    mode = forms.ChoiceField(choices=[("", ""), *ModeChoice.Mode.choices], required=False)
    room = forms.UUIDField(required=False)
    agent = forms.SlugField(max_length=40, required=False)

    def clean(self) -> dict[str, Any]:
        """Refuse half a place."""
        fields = super().clean() or {}
        if bool(fields.get("room")) != bool(fields.get("agent")):
            raise forms.ValidationError("Name a room and an agent, or neither.")
        return fields


class Forgotten(forms.Form):
    """An exact call that asks again."""

    remembered = forms.UUIDField()
