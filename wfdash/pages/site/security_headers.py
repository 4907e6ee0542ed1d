"""The headers of every response: nothing inline, nothing from elsewhere, no framing."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

from wfdash.errors import REFUSALS
from wfdash.pages.site.error_pages import refusal_page
from wfdash.problems import is_for_programs, problem_response

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
    if is_for_programs(request):
        return problem_response(None, REFUSALS[400], words)
    return refusal_page(REFUSALS[400], words, request.headers.get("accept", ""), foreign=True)
