"""How many requests saved views hold: counted up to a limit, all in one query."""

from __future__ import annotations

from collections.abc import Sequence

from checkpoints.database.compiled import Statement, statement_of
from checkpoints.models import HumanRequest
from wfdash.access.viewer import Viewer
from wfdash.errors import Invalid
from wfdash.queries.requests.qualifiers import filter_requests
from wfdash.queries.requests.tabs import in_tab


def count_in_views(viewer: Viewer, wanted: Sequence[tuple[str, str]], most: int) -> list[int | None]:
    """Return how many requests each tab has under a filter (one query), at most ``most``; None for an invalid filter.

    Of each no more rows are read than that, so that a view of ten thousand costs what one of a hundred does.
    """
    parts = [_limited(viewer, tab, text, most) for tab, text in wanted]
    asked = [part for part in parts if part and part.sql]
    columns = ", ".join(f"(SELECT COUNT(*) FROM ({part.sql}) AS counted)" for part in asked)  # noqa: S608
    params = tuple(value for part in asked for value in part.params)
    rows = Statement(sql=f"SELECT {columns}" if asked else "", params=params).rows()
    numbers = iter(rows[0] if rows else ())
    return [None if part is None else int(next(numbers)) if part.sql else 0 for part in parts]


def _limited(viewer: Viewer, tab: str, text: str, most: int) -> Statement | None:
    """Return a statement for the first rows of a view; None for an invalid filter."""
    try:
        rows = HumanRequest.objects.filter(in_tab(viewer, tab), filter_requests(viewer, text))
    except Invalid:
        return None
    return statement_of(rows.order_by().values("pk")[:most])
