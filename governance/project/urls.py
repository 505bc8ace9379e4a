"""The URLs that Django answers. `/healthz` and `/readyz` are answered earlier, by a middleware (see
`governance.project.http.health` for why), and `/static/` earlier still, in `governance.project.asgi`."""

from django.contrib import admin
from django.urls import path

urlpatterns = [
    path("admin/", admin.site.urls),
]
