"""The door of every page: who is asking, and which methods are answered. Rules live in desk and queries."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from wfdash.access import Viewer

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def viewer_of(request: HttpRequest) -> Viewer:
    """Return the person who asks; read once per request, by ``ErrorPages``."""
    return cast(Viewer, cast(Any, request).viewer)


def key_of(request: HttpRequest) -> str | None:
    """Return the key under which a form is sent (``{% once_key %}``), None if it has none."""
    return request.POST.get("_key") or None


def page(*methods: str) -> Callable[[View[P]], View[P]]:
    """Make a view of signed-in people that answers these methods; others are sent to sign in first."""

    def wrap(view: View[P]) -> View[P]:
        allowed = require_http_methods(["HEAD", *methods] if "GET" in methods else list(methods))

        @wraps(view)
        def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return redirect_to_login(request.get_full_path() if request.method == "GET" else "/")
            return view(request, *args, **kwargs)

        return cast(View[P], never_cache(allowed(guarded)))

    return wrap
