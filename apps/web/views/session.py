"""How does a member come in and go out?"""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from apps.accounts.forms import CountedSignIn


class SignIn(LoginView):
    """The sign-in page; whoever is signed in goes on to the rooms."""

    template_name = "web/sign_in.html"
    authentication_form = CountedSignIn
    redirect_authenticated_user = True


class SignOut(LogoutView):
    """Ends the session, on a form's request only."""

    http_method_names = ["post", "options"]


def front_door(request: HttpRequest) -> HttpResponseBase:
    """Lead to the rooms."""
    return redirect("rooms")
