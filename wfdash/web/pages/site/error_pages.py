"""Error pages: one page per kind of error; programs get the same facts as ``application/problem+json``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from checkpoints.errors import Unreadable
from wfdash.access.signin.sessions import rights_read_with
from wfdash.access.viewer import Viewer, evaluated, viewer_for
from wfdash.actions.audit import asked_by
from wfdash.contract import InvalidInput
from wfdash.domain.errors import NOT_FOUND, REFUSALS, UNAVAILABLE, ProblemKind, kind_of
from wfdash.installation.keep_rules import keep_rules
from wfdash.notifications.rendering import render, render_to_string
from wfdash.queries.unreadable import why
from wfdash.web.pages.site.decorators import Middleware
from wfdash.web.problems import is_api, problem_response, with_retry

# The headers of every response: nothing inline, nothing from elsewhere, no framing.

log = logging.getLogger(__name__)

POLICY: dict[str, str] = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "font-src": "'self'",
    "manifest-src": "'self'",
    "worker-src": "'self'",
    "connect-src": "'self'",
    "frame-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}

ADMIN_POLICY = POLICY | {"style-src": "'self' 'unsafe-inline'"}
"""Django's admin sets styles from its widgets; scripts are as strict as everywhere."""

PERMISSIONS = ", ".join(f"{name}=()" for name in ("camera", "microphone", "geolocation", "payment", "usb"))


def policy_text(policy: dict[str, str]) -> str:
    """Return a policy as the header's value."""
    return "; ".join(f"{name} {value}" for name, value in policy.items())


def add_headers(response: HttpResponseBase, *, policy: str = "") -> HttpResponseBase:
    """Return a response with the headers it does not set itself, also one made outside of Django's middleware.

    Nothing is cached by browsers or proxies unless the response says so.
    """
    headers = {
        "Content-Security-Policy": policy or policy_text(POLICY),
        "Permissions-Policy": PERMISSIONS,
        "Cross-Origin-Opener-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    return response


class SecurityHeaders:
    """Middleware, the outermost: refuses foreign hosts, and adds the headers to every response that has none yet."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self.admin = reverse("admin:index")
        self.texts = {True: policy_text(ADMIN_POLICY), False: policy_text(POLICY)}

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        try:
            request.get_host()
        except DisallowedHost:
            # Here, because with DEBUG Django would answer with a page that shows settings and code.
            log.warning(
                "Refused a request for %.200r: WFDASH_HOSTS lists the hosts there are", request.headers.get("host")
            )
            return add_headers(_no_such_host(request))
        return add_headers(self.get_response(request), policy=self.texts[request.path.startswith(self.admin)])


def _no_such_host(request: HttpRequest) -> HttpResponseBase:
    words = "Unknown host"
    if is_api(request.path):
        return problem_response(None, REFUSALS[400], words)
    return refusal_page(REFUSALS[400], words, request.headers.get("accept", ""), foreign=True)


TITLES = {
    400: "Bad request",
    403: "Not allowed",
    404: "Page not found",
    405: "Method not allowed",
    408: "Request timed out",
    409: "Conflict",
    413: "Too large",
    422: "Invalid input",
    429: "Too many requests",
    500: "Server error",
    501: "Not supported by this storage",
    503: "Database unavailable",
}

WORDS = {
    400: "Go back, reload the page and try again.",
    403: "Your role does not allow this. Ask an operator or admin of the workflow.",
    404: "The address is wrong, the item was removed, or you do not have access.",
    405: "This address only accepts form submissions. Go back or open the inbox.",
    500: "The error was logged. No partial changes were saved.",
    503: "No partial changes were saved. Try again in a moment.",
}
KEPT = "Go back in your browser: most of what you typed is still there. Then choose a smaller file or shorten the text."


TIMED_UUID = 7
"""The version of UUIDs that begin with the time they were made at, as ids do."""


def _viewer_of(request: HttpRequest) -> Viewer:
    user = evaluated(request.user)
    return viewer_for(user, rights_read_with(request, user))


class ErrorPages(Middleware):
    """Middleware: attaches ``request.viewer`` (read when first used) and turns known errors into pages.

    Changes of accounts during a request are audited as actions of its user.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request.viewer = SimpleLazyObject(lambda: _viewer_of(request))  # type: ignore[attr-defined]
        if "\0" in request.path_info:
            return error_page(request, 404)  # PostgreSQL raises for such text, no id or name has it
        with asked_by(request):
            response = self.get_response(request)
        return wrong_method(request, response) if response.status_code == 405 else response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return the page of a known error; None for others, which Django handles."""
        kind = kind_of(error)
        if kind is UNAVAILABLE:
            return unavailable(request, error)
        if kind.status == 500:
            return None
        message = with_removal(str(error), request.path) if kind is NOT_FOUND else str(error)
        if is_api(request.path):
            return problem_response(request, kind, message, _facts(error))
        title = why(error) if isinstance(error, Unreadable) else ""  # empty: its status names it
        return error_page(request, kind.status, message, _facts(error), title)


def with_removal(message: str, path: str) -> str:
    """Return why nothing was found, with what retention may have to do with it where the id in the path is old enough.

    It depends on the id alone: who may not see a run reads the same as if it had never existed.
    """
    days, made = keep_rules(settings.WFDASH_KEEP_RUNS).shortest, next(filter(None, map(made_at, path.split("/"))), None)
    if days is None or made is None or made > timezone.now() - timedelta(days=days):
        return message
    kept = f"{days:g} day{'' if days == 1 else 's'}"
    return (
        f"{message.rstrip('.')}. This address is from {made:%d %B %Y}, and runs may be removed {kept} after their end"
    )


def made_at(part: str) -> datetime | None:
    """Return when the id of a run or request was made, which it says (UUIDv7); None for any other text."""
    try:
        known = UUID(part)
        return datetime.fromtimestamp((known.int >> 80) / 1000, UTC) if known.version == TIMED_UUID else None
    except (ValueError, OverflowError, OSError):
        return None


def _facts(error: Exception) -> dict[str, Any]:
    facts: dict[str, Any] = getattr(error, "facts", {})
    return {"errors": error.errors, **facts} if isinstance(error, InvalidInput) else facts


def error_page(
    request: HttpRequest, status: int, message: str = "", facts: dict[str, Any] | None = None, title: str = ""
) -> HttpResponse:
    """Return the page for this status, for programs a problem. ``title``: an own one."""
    if is_api(request.path):
        return problem_response(request, REFUSALS.get(status, REFUSALS[400]), message, facts)
    context = {
        "status": status,
        "heading": title or TITLES.get(status, TITLES[500]),
        "message": message or WORDS.get(status, ""),
        "facts": facts,
    }
    return with_retry(render(request, "errors/error.html", context, status=status), facts)


def wrong_method(request: HttpRequest, refused: HttpResponseBase) -> HttpResponseBase:
    """Return a page, or the API's error, for a method that an address does not accept."""
    if not isinstance(refused, HttpResponse) or (refused.content and not is_api(request.path)):
        return refused
    response = error_page(request, 405)
    response.headers["Allow"] = refused.headers.get("Allow", "")
    return response


def bad_request(request: HttpRequest, exception: object = None) -> HttpResponse:
    """Return the page for 400 (Django's handler), that of 413 for a form with too much text."""
    if isinstance(exception, RequestDataTooBig):
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 1_000_000
        return error_page(request, 413, f"The form has more than {most} MB of text. {KEPT}")
    return error_page(request, 400)


def forbidden(request: HttpRequest, exception: object = None) -> HttpResponse:
    """Return the page for 403 (Django's handler)."""
    return error_page(request, 403)


def not_found(request: HttpRequest, exception: object = None) -> HttpResponse:
    """Return the page for 404 (Django's handler)."""
    return error_page(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Return the page for an error that nothing else has handled (Django's handler).

    Errors of middleware come here, not to ``ErrorPages``: a database that is unavailable is often met first by the
    session, which is read before any view.
    """
    error = sys.exc_info()[1]
    if isinstance(error, Exception) and kind_of(error) is UNAVAILABLE:
        return unavailable(request, error)
    return broken_page(request, 500)


def unavailable(request: HttpRequest, error: Exception) -> HttpResponse:
    """Log that the database is unavailable, full or read-only, and return the page that says so."""
    log.error("Database unavailable for %s: %s", request.path, error)
    return broken_page(request, 503)


def broken_page(request: HttpRequest, status: int) -> HttpResponse:
    """Return a page without any query, so that it cannot fail in turn; for programs a problem."""
    if is_api(request.path):
        return problem_response(request, REFUSALS[status])
    return with_retry(
        render(request, "errors/broken.html", {"heading": TITLES[status], "message": WORDS[status]}, status=status)
    )


def refusal_page(kind: ProblemKind, words: str, accept: str, *, foreign: bool = False) -> HttpResponse:
    """Return what is refused before there is a request: a page where the ``Accept`` header wants one, else a line.

    ``foreign``: under a host that is not served, so the page has neither style nor links.
    """
    if "text/html" not in accept:
        return HttpResponse(words, status=kind.status, content_type="text/plain")
    if kind.status == 413:
        words += f". {KEPT[:-1]}"
    context = {"heading": kind.title, "message": f"{words}.", "foreign": foreign}
    return HttpResponse(render_to_string("errors/broken.html", context), status=kind.status)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Return the page for a form without a valid token (Django's view); nothing was changed."""
    return error_page(request, 403, WORDS[400], None, "Page expired")
