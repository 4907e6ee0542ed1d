"""Owns what people see when something cannot be done: one page per kind, the same facts as JSON under /api/."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.utils.functional import SimpleLazyObject

from wfdash.access import viewer_for
from wfdash.errors import status_for

log = logging.getLogger(__name__)

TITLES = {
    400: "That request could not be read",
    403: "You may not do that",
    404: "There is nothing here",
    409: "Somebody or something was first",
    422: "Something does not fit",
    429: "Too many tries",
    500: "Something went wrong on our side",
    501: "This storage cannot do that",
    503: "The database does not serve us now",
}

WORDS = {
    400: "Go back, reload the page and try again.",
    403: "Your role does not include this. An operator or an admin of the workflow can help.",
    404: "The address is wrong, the thing was removed, or it is not yours to see.",
    500: "It was written to the log. Nothing you entered was half-saved: every change is one transaction.",
    503: "Nothing you entered was half-saved: every change is one transaction. Try again in a moment.",
}


class ErrorPages:
    """Middleware: attaches ``request.viewer`` (read when first used) and turns known errors into pages."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request.viewer = SimpleLazyObject(lambda: viewer_for(request.user))  # type: ignore[attr-defined]
        if "\0" in request.path_info:
            return error_page(request, 404)  # PostgreSQL raises for such text, no id or name has it
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer errors of the table; leave every other to Django's own handling."""
        status = status_for(error)
        if status == 503:
            log.error("The database does not serve %s: %s", request.path, error)
            return broken_page(request, 503)
        return None if status == 500 else error_page(request, status, str(error), _facts(error))


def _facts(error: Exception) -> dict[str, Any]:
    facts: dict[str, Any] = getattr(error, "facts", {})
    return facts


def error_page(
    request: HttpRequest, status: int, message: str = "", facts: dict[str, Any] | None = None
) -> HttpResponse:
    """Return the page for this status; JSON ``{"error", "status", "facts"}`` under /api/."""
    title = TITLES.get(status, TITLES[500])
    message = message or WORDS.get(status, "")
    if request.path.startswith("/api/"):
        return JsonResponse({"error": message or title, "status": status, "facts": facts or {}}, status=status)
    context = {"status": status, "heading": title, "message": message, "facts": facts or {}}
    return render(request, "errors/error.html", context, status=status)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Django's handler for 400."""
    return error_page(request, 400)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Django's handler for 403."""
    return error_page(request, 403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Django's handler for 404."""
    return error_page(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler for 500."""
    return broken_page(request, 500)


def broken_page(request: HttpRequest, status: int) -> HttpResponse:
    """Return a page without any lookup, so that it cannot fail in turn; JSON under /api/."""
    if request.path.startswith("/api/"):
        return JsonResponse({"error": WORDS[status], "status": status, "facts": {}}, status=status)
    context = {"heading": TITLES[status], "message": WORDS[status]}
    return render(request, "errors/broken.html", context, status=status)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's view for a form without a valid token; nothing was changed."""
    return error_page(request, 403, "This page was open for too long, or came from elsewhere: reload it and try again.")
