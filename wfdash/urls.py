"""Every address of the dashboard, in one list."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from wfdash.pages import health

urlpatterns = [
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("admin/", admin.site.urls),
]

handler400 = "wfdash.pages.errors.bad_request"
handler403 = "wfdash.pages.errors.forbidden"
handler404 = "wfdash.pages.errors.not_found"
handler500 = "wfdash.pages.errors.server_error"
