"""How is a saved version looked at and taken away?"""

from __future__ import annotations

import uuid
from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.artifacts.selectors import (
    body_of,
    content_of,
    preview_of,
    stored_file,
    visible_version,
)
from apps.core.api.downloads import OPAQUE, as_download
from apps.web.doors import member_page
from apps.web.rendering import Shown, show, show_file


@require_safe
@xframe_options_sameorigin
@member_page
def preview(
    request: HttpRequest, member: User, artifact_id: uuid.UUID, number: int
) -> HttpResponseBase:
    """Show one version in a page of its own that may run nothing and reach nothing."""
    version = visible_version(artifact_id=artifact_id, number=number, user=member, in_person=True)
    shown = _shown(version)
    if shown.as_it_is is not None:
        response = HttpResponse(shown.as_it_is, content_type="text/html; charset=utf-8")
    else:
        theme = request.GET.get("theme")
        response = render(
            request,
            "web/preview.html",
            {
                "shown": shown,
                "version": version,
                "theme": theme if theme in ("light", "dark") else "",
            },
        )
    return _contained(response, policy=shown.policy)


@require_safe
@member_page
def download(
    request: HttpRequest, member: User, artifact_id: uuid.UUID, number: int
) -> HttpResponseBase:
    """Hand out one version as a file; no browser shows it in place."""
    file = stored_file(artifact_id=artifact_id, number=number, user=member, in_person=True)
    return as_download(request, replace(file, media_type=OPAQUE))


def _shown(version: ArtifactVersion) -> Shown:
    if version.artifact.kind != Artifact.Kind.FILE:
        return show(kind=version.artifact.kind, body=body_of(version))
    return show_file(
        media_type=version.media_type, content=content_of(version), derived=preview_of(version)
    )


def _contained(response: HttpResponse, *, policy: str) -> HttpResponse:
    response.headers["Content-Security-Policy"] = policy
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Content-Type-Options"] = "nosniff"
    # No policy covers this: a name that is looked up in advance would carry out what it spells.
    response.headers["X-DNS-Prefetch-Control"] = "off"
    response.headers["Cache-Control"] = "private, no-store"
    return response
