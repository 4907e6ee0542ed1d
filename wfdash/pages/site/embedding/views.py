"""Views that need none of wfdash's middleware, so that a project adds none for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any

from django.conf import settings
from django.db.transaction import non_atomic_requests  # noqa: TID251 (for every database)
from django.http import Http404, HttpRequest, HttpResponseBase
from django.urls import URLPattern, URLResolver

from wfdash.pages.site.error_pages import ErrorPages, error_page
from wfdash.pages.site.security_headers import add_headers
from wfdash.pages.site.time_zone import LocalTime

View = Callable[..., Any]
Pattern = URLPattern | URLResolver
ACCOUNTS = frozenset(
    {
        *("sign-in", "sign-in-code", "sign-in-link", "sign-in-passkey", "sign-in-provider", "sign-in-callback"),
        *("account", "second-factor", "person-invite"),
    }
)
"""Pages of wfdash's own accounts: a project that signs people in itself has none of them."""


def independent(patterns: list[Pattern]) -> list[Pattern]:
    """Return these addresses with views that do for themselves what the middleware does in a project of its own."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            independent(pattern.url_patterns)
            continue
        if not iscoroutinefunction(pattern.callback):
            pattern.callback = _complete(pattern.callback, ours=pattern.name in ACCOUNTS)
        # Actions have transactions of their own: under ATOMIC_REQUESTS they would end with the page, and workers wait.
        for name in settings.DATABASES:
            pattern.callback = non_atomic_requests(using=name)(pattern.callback)
    return patterns


def _complete(view: View, *, ours: bool) -> View:
    @wraps(view)
    def serve(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        call = partial(_missing if ours and not settings.WFDASH_SIGN_IN else view, *args, **kwargs)
        # The middleware was here before.
        return call(request) if hasattr(request, "viewer") else _respond(request, call)

    return serve


def _missing(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
    raise Http404


def _respond(request: HttpRequest, call: Callable[[HttpRequest], HttpResponseBase]) -> HttpResponseBase:
    pages = ErrorPages(lambda request: _guarded(pages, request, call))
    # Twice: error pages are shown in the browser's zone, and the session that knows the zone may be what fails.
    return add_headers(_guarded(pages, request, LocalTime(pages)))


def _guarded(
    pages: ErrorPages, request: HttpRequest, call: Callable[[HttpRequest], HttpResponseBase]
) -> HttpResponseBase:
    """Return the response, the page of a known error, or raise an unknown one."""
    try:
        return call(request)
    except Http404:
        return error_page(request, 404)
    except Exception as error:
        found = pages.process_exception(request, error)
        if found is None:
            raise
        return found
