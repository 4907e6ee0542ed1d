"""The decorator of every page: sign-in required, allowed methods; and secrets that the next page shows, only once.

Rules live in actions and queries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from wfdash.access.viewer import Viewer, evaluated

P = ParamSpec("P")
ONCE = "wfdash_once"
ONCE_SECONDS = 120
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def viewer_of(request: HttpRequest) -> Viewer:
    """Return the viewer of a request; read once per request, by ``ErrorPages``."""
    return evaluated(cast(Viewer, cast(Any, request).viewer))


def key_of(request: HttpRequest) -> str | None:
    """Return a form's idempotency key (``{% once_key %}``), None if it has none."""
    return request.POST.get("_key") or None


def show_once(request: HttpRequest, shown: Mapping[str, Any], to: str, *args: str) -> HttpResponse:
    """Redirect to a page that may read ``shown`` by ``shown_once``: a reload shows it no more, and makes nothing twice.

    It travels in a signed cookie of this browser, so that the server stores no secret for it.
    """
    response = redirect(to, *args)
    response.set_signed_cookie(
        ONCE,
        json.dumps(shown),
        salt=_salt(request, response.headers["Location"]),
        max_age=ONCE_SECONDS,
        path=reverse("wfdash:inbox"),
        secure=bool(settings.SESSION_COOKIE_SECURE),
        httponly=True,
        samesite="Lax",
    )
    return response


def shown_once(request: HttpRequest) -> dict[str, Any]:
    """Return what the request before this one left for this page and person, empty without anything."""
    salt = _salt(request, request.get_full_path())
    text = request.get_signed_cookie(ONCE, "", salt=salt, max_age=ONCE_SECONDS) if request.method == "GET" else ""
    if not text:
        return {}
    request.was_shown_once = True  # type: ignore[attr-defined]
    found: dict[str, Any] = json.loads(text)
    return found


def _salt(request: HttpRequest, to: str) -> str:
    return f"{ONCE}:{viewer_of(request).user.pk}:{to}"


def page(*methods: str) -> Callable[[View[P]], View[P]]:
    """Return a decorator for views that require sign-in and answer these methods only."""

    def wrap(view: View[P]) -> View[P]:
        allowed = require_http_methods(["HEAD", *methods] if "GET" in methods else list(methods))

        @wraps(view)
        def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return redirect_to_login(
                    request.get_full_path() if request.method == "GET" else reverse("wfdash:inbox")
                )
            response = view(request, *args, **kwargs)
            if getattr(request, "was_shown_once", False) and isinstance(response, HttpResponse):
                response.delete_cookie(ONCE, path=reverse("wfdash:inbox"), samesite="Lax")
            return response

        return cast(View[P], never_cache(allowed(guarded)))

    return wrap
