"""Errors as responses of the API: RFC 9457, ``application/problem+json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import NoReverseMatch, reverse

from wfdash.domain.errors import ProblemKind
from wfdash.records.base import MEDIA_TYPE, Problem

BLANK = "about:blank"
RETRY_AFTER = 5
"""Seconds after which a client may try again what the server or its database could not do."""


def is_api(path: str) -> bool:
    """Return whether this path is for programs: the API's, or an incoming webhook's."""
    try:
        root = reverse("wfdash:inbox")
    except NoReverseMatch:  # under other addresses: a test's, or a project's that only imports wfdash
        root = "/"
    return path.startswith((f"{root}api/", f"{root}hooks/"))


def problem_response(
    request: HttpRequest | None, kind: ProblemKind, detail: str = "", facts: Mapping[str, Any] | None = None
) -> JsonResponse:
    """Return an error for a program. ``facts`` become fields of it; ``retry_after`` a header, too."""
    facts = facts or {}
    problem = Problem(
        **{name: value for name, value in facts.items() if name not in STANDARD},
        type=type_of(request, kind),
        title=kind.title,
        status=kind.status,
        detail=detail or kind.words or kind.title,
        code=kind.code,
    )
    headers = {"WWW-Authenticate": "Bearer"} if kind.status == 401 else {}
    content = problem.model_dump(mode="json")
    return with_retry(JsonResponse(content, status=kind.status, headers=headers, content_type=MEDIA_TYPE), facts)


R = TypeVar("R", bound=HttpResponse)


def with_retry(response: R, facts: Mapping[str, Any] | None = None) -> R:
    """Return the response, which says when to try again: what the error's facts say, else soon after any 503."""
    seconds = (facts or {}).get("retry_after", RETRY_AFTER if response.status_code == 503 else None)
    if seconds is not None:
        response.headers["Retry-After"] = str(seconds)
    return response


STANDARD = Problem.model_fields.keys() - {"errors"}
"""The fields that no fact may replace."""


def type_of(request: HttpRequest | None, kind: ProblemKind) -> str:
    """Return the address that explains this kind of error, ``about:blank`` where the request names no host."""
    if request is None:
        return BLANK
    try:
        return request.build_absolute_uri(f"{reverse('wfdash:api:api-root')}docs/#problem-{kind.code}")
    except (DisallowedHost, NoReverseMatch):
        return BLANK
