"""Who may come into a member's page, and how does a refusal look there?"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.cache import never_cache

from apps.accounts.models import User
from apps.core.errors import Forbidden, NotFound

P = ParamSpec("P")


def member_page(
    view: Callable[Concatenate[HttpRequest, User, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Let a signed-in member in, as the view's second argument; send others to sign in.

    What a member may not see answers like what does not exist.
    """

    @wraps(view)
    @never_cache
    def page(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        member: Any = request.user
        if not isinstance(member, User) or not member.is_active:
            if request.headers.get("HX-Request"):
                # A piece of a page cannot show a sign-in form; the page stays as it is.
                return HttpResponse(status=401)
            return redirect_to_login(request.get_full_path())
        try:
            return view(request, member, *args, **kwargs)
        except NotFound as refusal:
            raise Http404(refusal.message) from refusal
        except Forbidden as refusal:
            raise PermissionDenied(refusal.message) from refusal

    return page
