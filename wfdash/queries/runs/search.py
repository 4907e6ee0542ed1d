"""Finds runs among a million: along the most selective index, and never further than a limit.

Every index that a condition offers is asked how many runs it leads to, up to a limit; the one with the fewest is
scanned, newest first, and all other conditions are checked for each run. What no index can narrow is found by scanning
the runs themselves; after ``REACH`` of them the scan stops and says how far it came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import and_
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Q, QuerySet

from checkpoints.limits import findable
from wfdash.queries.runs.expressions import RUNS, AccessPath, Condition, IndexScan, Search

MIN_SHARE = 100
"""Rows for each path, where several share the limit."""
REACH = 5_000
"""Runs scanned for one page."""
FAR_REACH = 200_000
"""Runs scanned when a person asks to look further."""
MAX_SORTED = 4_000
"""Rows of an index in another order than newest first are sorted if there are at most so many."""

Cursor = tuple[datetime, str]
"""A run's ``created`` and id. Lists are newest first, so the next rows are smaller."""
ALL_RUNS = Condition(holds=lambda root: Q(), routes=(AccessPath(ways=(IndexScan(root=RUNS, where=Q()),)),))


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """Ids, newest first. ``reached``: the time up to which runs were scanned, if not all were."""

    ids: tuple[str, ...]
    reached: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class MeasuredPath:
    """A condition with a measured path: how many rows, and from what time on they are complete."""

    part: Condition
    route: AccessPath
    count: int
    since: datetime | None = None

    @property
    def rank(self) -> tuple[bool, float]:
        """Return the rank: complete paths first, those with fewest rows; then those that reach back furthest."""
        return self.since is not None, self.since.timestamp() if self.since else self.count


ALL_RUNS_PATH = MeasuredPath(part=ALL_RUNS, route=ALL_RUNS.routes[0], count=0)


def find(search: Search, after: Cursor | None, limit: int, *, reach: int = REACH) -> SearchResult:
    """Return at most ``limit`` runs after a cursor (at most two queries, whatever the search)."""
    if not search.parts:
        return SearchResult(ids=_ids(search, ALL_RUNS_PATH, after, limit))
    if any(route.ways == () for part in search.parts for route in part.routes):
        return SearchResult(ids=())
    lead = _best(search, after, reach)
    ids = _ids(search, lead, after, limit) if lead.count else ()
    return SearchResult(ids=ids, reached=lead.since if len(ids) < limit else None)


def _best(search: Search, after: Cursor | None, reach: int) -> MeasuredPath:
    routes = [(part, route) for part in (ALL_RUNS, *search.parts) for route in part.routes]
    measured = _measure([route for _, route in routes], search, after, reach)
    leads = []
    for part, route in routes:
        found = [measured.pop(0) for _ in route.ways]
        gathered = [count for (count, _), way in zip(found, route.ways, strict=True) if not way.ordered]
        if sum(gathered) <= MAX_SORTED:
            edges = [since for _, since in found if since is not None]
            count = sum(count for count, _ in found)
            leads.append(MeasuredPath(part=part, route=route, count=count, since=max(edges, default=None)))
    return min(leads, key=lambda lead: lead.rank)


def _measure(
    routes: list[AccessPath], search: Search, after: Cursor | None, reach: int
) -> list[tuple[int, datetime | None]]:
    """Return the number of rows of each path, and the time of the last one if there are more (one query)."""
    parts: list[str] = []
    params: list[Any] = []
    # Paths that belong together share the limit.
    shares = [(way, max(MIN_SHARE, reach // len(route.ways))) for route in routes for way in route.ways]
    for number, (way, share) in enumerate(shares):
        most = share if way.ordered else MAX_SORTED + 1
        sql, given = _compiled(_path_rows(way, search, after, None, Q(), most))
        if sql:
            parts.append(f"SELECT {number} AS way, COUNT(*) AS n, MIN(w.created) AS since FROM ({sql}) AS w")  # noqa: S608
            params += given
    counted = {way: (count, since) for way, count, since in _fetch(" UNION ALL ".join(parts), params)}
    found = [counted.get(number, (0, None)) for number in range(len(shares))]
    return [
        (count, _parse_time(since) if way.ordered and count >= share else None)
        for (way, share), (count, since) in zip(shares, found, strict=True)
    ]


def _ids(search: Search, lead: MeasuredPath, after: Cursor | None, limit: int) -> tuple[str, ...]:
    """Return ids along one path, all other conditions checked for each (one query)."""
    parts: list[str] = []
    params: list[Any] = []
    asked = [part for part in search.parts if not (part is lead.part and lead.route.exact)]
    for number, way in enumerate(lead.route.ways):
        holds = reduce(and_, (part.holds(way.root) for part in asked), Q())
        most = limit if way.ordered else MAX_SORTED + 1
        sql, given = _compiled(_path_rows(way, search, after, lead.since, holds, most))
        name = f"w{number}"
        if sql:
            parts.append(f"SELECT {name}.created AS created, {name}.{way.root.id} AS id FROM ({sql}) AS {name}")  # noqa: S608
            params += given
    if not parts:
        return ()
    together = " UNION ALL ".join(parts)
    sql = f"SELECT DISTINCT u.created, u.id FROM ({together}) AS u ORDER BY u.created DESC, u.id DESC LIMIT {limit}"  # noqa: S608
    return tuple(row[1] for row in _fetch(sql, params))


def _path_rows(
    way: IndexScan, search: Search, after: Cursor | None, since: datetime | None, holds: Q, most: int
) -> QuerySet[Any, dict[str, Any]]:
    """Return the rows of a path, in its order if it has one."""
    rows: QuerySet[Any] = way.root.model._default_manager.filter(
        way.where, _time_filter(way, search, after, since), holds
    )
    rows = rows.order_by("-created", f"-{way.root.id}") if way.ordered else rows.order_by()
    return rows.values("created", way.root.id)[:most]


def _time_filter(way: IndexScan, search: Search, after: Cursor | None, since: datetime | None) -> Q:
    """Return the condition on the time: only what follows the cursor, and is not older than what was measured."""
    found = Q()
    for least in (search.since, since):
        found &= Q(created__gte=least) if least is not None else Q()
    if search.until is not None:
        found &= Q(created__lt=search.until)
    if after is not None:
        # Twice, because only the first form uses an index.
        found &= Q(created__lte=after[0]) & (Q(created__lt=after[0]) | Q(**{f"{way.root.id}__lt": after[1]}))
    return found


def _compiled(rows: QuerySet[Any, dict[str, Any]]) -> tuple[str, Iterable[Any]]:
    """Return a query's statement, empty for one that can have no rows."""
    try:
        return rows.query.sql_with_params()
    except EmptyResultSet:
        return "", ()


def _fetch(sql: str, params: Iterable[Any]) -> list[tuple[Any, ...]]:
    if not sql:
        return []
    with connection.cursor() as cursor:
        cursor.execute(sql, [findable(one) if isinstance(one, str) else one for one in params])
        return list(cursor.fetchall())


def _parse_time(value: Any) -> datetime:
    """Return a time from a column's value: text on SQLite."""
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    return found if found.tzinfo else found.replace(tzinfo=UTC)
