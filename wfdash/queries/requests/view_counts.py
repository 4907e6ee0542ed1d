"""How many requests saved views hold: counted up to a limit, all in one query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection

from checkpoints.models import HumanRequest
from wfdash.access.viewer import Viewer
from wfdash.errors import Invalid
from wfdash.queries.requests.qualifiers import filter_requests
from wfdash.queries.requests.tabs import tab_filter


def count_in_views(viewer: Viewer, wanted: Sequence[tuple[str, str]], most: int) -> list[int | None]:
    """Return how many requests each tab has under a filter (one query), at most ``most``; None for an invalid filter.

    Of each no more rows are read than that, so that a view of ten thousand costs what one of a hundred does.
    """
    parts = [_limited(viewer, tab, text, most) for tab, text in wanted]
    asked = [part for part in parts if part and part[0]]
    if not asked:
        return [None if part is None else 0 for part in parts]
    columns = ", ".join(f"(SELECT COUNT(*) FROM ({sql}) AS counted)" for sql, _ in asked)  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns}", [value for _, params in asked for value in params])
        numbers = iter(cursor.fetchall()[0])
    return [None if part is None else int(next(numbers)) if part[0] else 0 for part in parts]


def _limited(viewer: Viewer, tab: str, text: str, most: int) -> tuple[str, tuple[Any, ...]] | None:
    """Return a statement for the first rows of a view, empty for one that can have none; None for an invalid filter."""
    try:
        rows = HumanRequest.objects.filter(tab_filter(viewer, tab), filter_requests(viewer, text))
    except Invalid:
        return None
    try:
        sql, params = rows.order_by().values("pk")[:most].query.sql_with_params()
    except EmptyResultSet:
        return "", ()
    return sql, tuple(params)
