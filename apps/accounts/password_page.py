"""How do administrators set their own password? Like any password that is set: it ends the old."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.views import PasswordChangeView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from unfold.forms import AdminOwnPasswordChangeForm

from apps.accounts.identity import acting_user
from apps.accounts.services import note_password_set


class OwnPasswordView(PasswordChangeView):
    """The admin's own page, with what the service does besides."""

    @transaction.atomic
    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        """Set the password, write that down, and end what the old one had opened."""
        response = super().form_valid(form)
        actor = acting_user(self.request)
        note_password_set(actor=actor, user=actor)
        return response


def own_password(request: HttpRequest) -> HttpResponseBase:
    """Show the page inside the admin; it stands in the place of the library's."""
    return OwnPasswordView.as_view(
        form_class=AdminOwnPasswordChangeForm,
        success_url=reverse("admin:password_change_done"),
        extra_context=admin.site.each_context(request),
    )(request)
