"""Every address of wfdash as a project of its own: the dashboard at the root, and what else a site has."""

from __future__ import annotations

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.utils.module_loading import import_string
from django.views.generic import RedirectView

from wfdash.web.pages.site import files

# The admin has no sign-in of its own: there is one sign-in page with one limit and one second factor.
admin.site.login = import_string("wfdash.web.pages.account.signin.admin_sign_in")  # type: ignore[method-assign]

urlpatterns = [
    path("", include("wfdash.urls")),
    path("static/<slug:version>/<path:name>", files.static_file),
    path("favicon.ico", RedirectView.as_view(url=static("img/favicon.svg"))),
    # One page changes one's password: there the password so far cannot be guessed at.
    path("admin/password_change/", RedirectView.as_view(pattern_name="wfdash:account")),
    path("admin/", admin.site.urls),
]

handler400 = "wfdash.web.pages.site.error_pages.bad_request"
handler403 = "wfdash.web.pages.site.error_pages.forbidden"
handler404 = "wfdash.web.pages.site.error_pages.not_found"
handler500 = "wfdash.web.pages.site.error_pages.server_error"
