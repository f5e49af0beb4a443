"""What does a member fill in?"""

from __future__ import annotations

from django import forms


class NewRoom(forms.Form):
    """The name of a room to be."""

    name = forms.CharField(
        max_length=120, strip=True, error_messages={"required": "A room needs a name."}
    )
