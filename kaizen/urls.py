"""Which address leads into which app?"""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("apps.core.urls")),
    path("", include("apps.web.urls")),
    path("api/", include("kaizen.api")),
    path("admin/", admin.site.urls),
]
handler400 = "apps.core.views.bad_request"
handler404 = "apps.core.views.not_found"
handler500 = "apps.core.views.server_error"
