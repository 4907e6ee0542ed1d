"""Owns the headers that every response carries: nothing inline, nothing from elsewhere, no framing."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

POLICY: dict[str, str] = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "font-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}

ADMIN_POLICY = POLICY | {"style-src": "'self' 'unsafe-inline'"}
"""Django's admin sets styles from its widgets; scripts stay as strict as everywhere."""

PERMISSIONS = ", ".join(f"{name}=()" for name in ("camera", "microphone", "geolocation", "payment", "usb"))


def policy_text(policy: dict[str, str]) -> str:
    """Return a policy as the header's value."""
    return "; ".join(f"{name} {value}" for name, value in policy.items())


class SecurityHeaders:
    """Middleware: adds the policy headers to every response that has none yet."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self.admin = reverse("admin:index")
        self.texts = {True: policy_text(ADMIN_POLICY), False: policy_text(POLICY)}

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        headers = {
            "Content-Security-Policy": self.texts[request.path.startswith(self.admin)],
            "Permissions-Policy": PERMISSIONS,
            "Cross-Origin-Opener-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
        }
        for name, value in headers.items():
            response.headers.setdefault(name, value)
        return response
