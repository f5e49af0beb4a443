"""What does a member fill in?"""

from __future__ import annotations

from typing import Any

from django import forms

from apps.approvals.models import ModeChoice
from apps.automations.models import Automation
from apps.automations.services import MAX_DAYS, MAX_NAME, MAX_WORDS


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


class NewAutomation(forms.Form):
    """What is to start by itself: where, by what, with which words, and until when."""

    use_required_attribute = False

    name = forms.CharField(max_length=MAX_NAME)
    place = forms.ChoiceField(label="Agent and room")
    trigger = forms.ChoiceField(label="Started by", choices=Automation.Trigger.choices)
    schedule = forms.CharField(
        max_length=120,
        required=False,
        help_text=(
            "For a schedule, as cron writes it: minute, hour, day of the month, month, day of the"
            " week. 0 6 * * mon-fri is six o'clock on working days; at most every 5 minutes."
        ),
    )
    time_zone = forms.CharField(
        max_length=64, initial="UTC", help_text="Such as Europe/Zurich, or UTC."
    )
    words = forms.CharField(
        label="What the agent is asked",
        max_length=MAX_WORDS,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 4}),
    )
    days = forms.IntegerField(
        label="Ends after days",
        min_value=1,
        max_value=MAX_DAYS,
        initial=30,
        help_text=f"At most {MAX_DAYS}. Afterwards nothing of it starts or goes on.",
    )

    def __init__(self, places: list[tuple[str, str]], data: Any = None) -> None:
        super().__init__(data)
        place: Any = self.fields["place"]
        place.choices = places
        for field in self.fields.values():
            field.widget.attrs["class"] = "input"

    def clean_place(self) -> tuple[str, str]:
        """Return room and agent of the chosen place."""
        room, _, agent = str(self.cleaned_data["place"]).partition(" ")
        return room, agent

    def clean(self) -> dict[str, Any]:
        """Leave out a schedule that is not asked for."""
        fields = super().clean() or {}
        if fields.get("trigger") == Automation.Trigger.WEBHOOK:
            fields["schedule"] = ""
        return fields


class ChangedAutomation(forms.Form):
    """An automation, and what to do with it."""

    automation = forms.UUIDField()
    do = forms.ChoiceField(
        choices=[(word, word) for word in ("pause", "resume", "token", "revoke", "delete")]
    )
