"""The decorator of every page: sign-in required, allowed methods. Rules live in actions and queries."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from wfdash.access.viewer import Viewer, evaluated

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def viewer_of(request: HttpRequest) -> Viewer:
    """Return the viewer of a request; read once per request, by ``ErrorPages``."""
    return evaluated(cast(Viewer, cast(Any, request).viewer))


def key_of(request: HttpRequest) -> str | None:
    """Return a form's idempotency key (``{% once_key %}``), None if it has none."""
    return request.POST.get("_key") or None


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
            return view(request, *args, **kwargs)

        return cast(View[P], never_cache(allowed(guarded)))

    return wrap
