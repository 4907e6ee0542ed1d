"""Authentication of the API: a token, or a signed-in browser's session; and the idempotency key."""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from ninja.security import HttpBearer, django_auth

from checkpoints.models import Token
from wfdash.access.signin import tokens
from wfdash.access.signin.client_address import address_of
from wfdash.access.viewer import Viewer, evaluated
from wfdash.domain.errors import Invalid, NotAllowed

HEADER = "Idempotency-Key"
"""The same command with the same key is done once; with another command it is a conflict (409)."""
LONGEST_KEY = 500
READING = frozenset({"GET", "HEAD", "OPTIONS"})
READS = frozenset({"see", "inspect"})
READ_ONLY = "This token may only read. Use one that may answer, start or operate"


class BearerToken(HttpBearer):
    """``Authorization: Bearer wfd_...``. A request with one is never signed in by its cookies: a bad one is 401."""

    openapi_description = "A token made under Settings, Tokens, or by `wfdash token create`."

    def authenticate(self, request: HttpRequest, token: str) -> Token:
        """Return the token and act as its owner. ``BadToken``, ``TooManyTries``; ``NotAllowed`` if it may only read."""
        found = tokens.use_token(token.strip(), address=address_of(request.META))
        request.user = found.owner
        request.viewer = SimpleLazyObject(lambda: tokens.viewer_of(found))  # type: ignore[attr-defined]
        if request.method not in READING and tokens.scope_of(found).rights <= READS:
            raise NotAllowed(READ_ONLY)
        return found


AUTH = [BearerToken(), django_auth]
"""Tried in this order. Django's check against forged requests (CSRF) belongs to the session alone."""


def viewer_of(request: HttpRequest) -> Viewer:
    """Return the viewer of a request."""
    return evaluated(cast(Viewer, request.viewer))  # type: ignore[attr-defined]


def key_of(request: HttpRequest) -> str | None:
    """Return the idempotency key from the header, None without one. ``Invalid`` if it is too long."""
    key = request.headers.get(HEADER) or None
    if key and len(key) > LONGEST_KEY:
        raise Invalid([{"loc": [HEADER], "msg": f"At most {LONGEST_KEY} characters"}])
    return key
