"""Browsers in which a person has signed in before, recognised by a signed cookie that contains no name."""

from __future__ import annotations

import secrets

from django.conf import settings
from django.core import signing
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.crypto import salted_hmac

SALT = "wfdash.signin.known"
DAYS = 90


def known_browser(request: HttpRequest | None, name: str) -> str:
    """Return the browser's id if the person of this name has signed in there before; empty if not."""
    if request is None:
        return ""
    try:
        cookie = signing.loads(request.COOKIES.get(settings.WFDASH_KNOWN_COOKIE, ""), salt=SALT, max_age=DAYS * 86400)
        return str(cookie["browser"]) if cookie["person"] == _person(name) else ""
    except (signing.BadSignature, KeyError, TypeError):
        return ""


def remember_browser(response: HttpResponseBase, name: str) -> None:
    """Set the cookie that says that this person signed in there."""
    cookie = {"person": _person(name), "browser": secrets.token_urlsafe(12)}
    response.set_cookie(
        settings.WFDASH_KNOWN_COOKIE,
        signing.dumps(cookie, salt=SALT),
        max_age=DAYS * 86400,
        httponly=True,
        secure=settings.SESSION_COOKIE_SECURE,
        samesite="Lax",
    )


def _person(name: str) -> str:
    return salted_hmac(SALT, name.casefold(), algorithm="sha256").hexdigest()[:24]
