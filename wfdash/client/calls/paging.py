"""Lists that come page by page. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wfdash.client.script import Emit, Script
from wfdash.client.sending import get

PAGE = 100


def pages(
    path: str,
    read: Callable[[Any], Any],
    query: Mapping[str, Any],
    *,
    most: int | None = None,
    limit: int | None = PAGE,
) -> Script[None]:
    """Emit the items of a list, at most ``most``, reading the next page when it is needed.

    ``limit``: items of a page; None for a list that knows no such parameter.
    """
    left, query = most, dict(query)
    while left is None or left > 0:
        size = limit if left is None or limit is None else min(limit, left)
        page = yield from get(path, **query, limit=size)
        items = page["items"][:left]
        for item in items:
            yield Emit(read(item))
        left = None if left is None else left - len(items)
        if not page["next"] or not _has_more(page):
            return
        query["after"] = page["next"]


def _has_more(page: Mapping[str, Any]) -> bool:
    """Return whether to read the next page, also where this one is empty and says that there is more."""
    return (
        bool(page["more"]) if "more" in page else bool(page["items"] or page.get("reached")) and not page.get("ended")
    )
