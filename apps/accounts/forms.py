"""How does a form sign somebody in without giving endless tries?"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from unfold.forms import AuthenticationForm as AdminForm

from apps.accounts.errors import SignInRefused
from apps.accounts.services import verify_sign_in
from apps.audit.refusals import record_throttled
from apps.core.errors import Refusal
from apps.core.throttles import Throttled


class CountedSignIn(AuthenticationForm):
    """A sign-in form whose attempts are counted, like those of the API."""

    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": "This username and this password do not belong together."
        " Capital letters matter in both.",
    }

    def clean(self) -> dict[str, Any]:
        """Check name and password once, through the door that counts."""
        username = self.cleaned_data.get("username")
        password = self.cleaned_data.get("password")
        if username and password and self.request is not None:
            try:
                user = verify_sign_in(request=self.request, username=username, password=password)
            except SignInRefused:
                raise self.get_invalid_login_error() from None
            except Refusal as refusal:
                if isinstance(refusal, Throttled) and refusal.first:
                    record_throttled(
                        actor="user:unknown",
                        subject=f"route:POST {self.request.path}"[:160],
                        refusal=refusal,
                    )
                raise ValidationError(refusal.message, code=refusal.code) from refusal
            self.user_cache = user
            self.confirm_login_allowed(user)
        return self.cleaned_data


class AdminSignIn(CountedSignIn, AdminForm):
    """The same for the administration, which asks for an administrator besides."""

    error_messages = {
        **CountedSignIn.error_messages,
        "invalid_login": "No administrator has this username and this password."
        " Capital letters matter in both.",
    }
