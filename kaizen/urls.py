"""Which address leads into which app?"""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from apps.accounts.password_page import own_password
from apps.core.health_page import health

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("apps.core.urls")),
    path("", include("apps.web.urls")),
    path("api/", include("kaizen.api")),
    path("admin/health/", admin.site.admin_view(health), name="admin_health"),
    path("admin/password_change/", admin.site.admin_view(own_password, cacheable=True)),
    path("admin/", admin.site.urls),
]
handler400 = "apps.core.views.bad_request"
handler404 = "apps.core.views.not_found"
handler500 = "apps.core.views.server_error"
