"""The URLs that Django answers. `/healthz` and `/readyz` are answered earlier, by a middleware (see
`governance.project.http.health` for why), and `/static/` earlier still, in `governance.project.asgi`."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("api/", include("governance.api.urls")),
]
