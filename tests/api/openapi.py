"""The OpenAPI document, drawn up once per process: it takes a third of a second, and nine tests begin with it."""

from __future__ import annotations

from functools import cache
from typing import Any

from wfdash.web.api.router import api


@cache
def document() -> dict[str, Any]:
    """Return the document that the server hands out; no one changes it."""
    return dict(api.get_openapi_schema())


def operations() -> dict[str, dict[str, Any]]:
    """Return what each address takes, by path and then by method."""
    paths: dict[str, dict[str, Any]] = document()["paths"]
    return paths
