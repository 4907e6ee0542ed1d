"""Finds runs among a million: along the most selective index, and never further than a limit.

Every index that a condition offers is asked how many runs it leads to, up to a limit; the one with the fewest is
scanned in order, and all other conditions are checked for each run. What no index can narrow is found by scanning
the runs themselves; after ``MAX_SCANNED_RUNS`` of them the scan stops and says how far it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import reduce
from operator import and_
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Func, Model, OuterRef, Q, QuerySet
from django.db.models.lookups import GreaterThanOrEqual, In, LessThan
from django.db.models.sql.compiler import SQLCompiler

from checkpoints.database.alias import connection
from checkpoints.database.compiled import Literally
from checkpoints.limits import findable
from checkpoints.models import Run, RunFact
from checkpoints.records import frozen
from wfdash.queries.search import Compiled, RowExists

# What a search for runs is made of: conditions, and the indexes that lead to the runs they hold for.

MOST_VALUES = 10
"""Values that begin alike and are looked for one by one."""
LAST_CHARACTER = 0x10FFFF


@frozen
class Root:
    """Where a walk begins: at runs, or at facts of runs. ``run`` stands before a run's columns."""

    model: type[Model]
    run: str
    id: str


RUNS = Root(model=Run, run="", id="id")
FACTS = Root(model=RunFact, run="run__", id="run_id")
ToFilter = Callable[[Root], Q]


@frozen
class Order:
    """An order of runs: by a time, later ones first or last. Runs that do not have the time are not in it."""

    column: str = "created"
    latest_first: bool = True

    def column_of(self, root: Root) -> str:
        """Return the column at a root: facts have the time at which their run began themselves."""
        return self.column if self.column == "created" else f"{root.run}{self.column}"


BEGUN = frozenset({"created"})
ENDED_TOO = frozenset({"created", "finished"})


@frozen
class IndexScan:
    """Rows that an index leads to. ``orders``: the times by which they come in order, so that one may stop anywhere."""

    root: Root
    where: Q
    orders: frozenset[str] = BEGUN


@frozen
class AccessPath:
    """Ways that lead together to every run for which a condition holds: to none if there is no way.

    ``exact``: who comes by one of them need not be asked again.
    """

    ways: tuple[IndexScan, ...]
    exact: bool = True


@frozen
class Condition:
    """A condition, and the routes by which indexes lead to what it holds for; none if they do not."""

    holds: ToFilter
    routes: tuple[AccessPath, ...] = ()


@frozen
class Search:
    """All that must hold, and the time in which the runs began: from ``since`` until before ``until``."""

    parts: tuple[Condition, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


class StartsWith(Literally):
    """True when a text begins so, letter by letter, by an index where there is one."""

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Compiled:
        """Return the condition. SQLite compares bytes, PostgreSQL by operators that do, whatever the language."""
        least, below = (">=", "<") if connection.vendor == "sqlite" else ("~>=~", "~<~")
        column, params = compiler.compile(self.lhs)
        end = prefix_end(self.rhs)
        if end is None:
            return f"({column} {least} %s)", (*params, self.rhs)
        return f"({column} {least} %s AND {column} {below} %s)", (*params, self.rhs, *params, end)


class NoIndex(Func):
    """A column that is compared row by row: an index for it would be read from end to end, once for every row."""

    template = "%(expressions)s"
    arity = 1

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the column with the sign that keeps indexes out."""
        sql, params = compiler.compile(self.source_expressions[0])
        return f"+{sql}", tuple(params)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the column with nothing added to it, which no index knows."""
        sql, params = compiler.compile(self.source_expressions[0])
        kind = self.output_field.get_internal_type()
        kinds = {"CharField": "{} || ''", "DateTimeField": "{} + interval '0'", "BooleanField": "COALESCE({}, false)"}
        return f"({kinds.get(kind, '{} + 0').format(sql)})", tuple(params)


def prefix_end(prefix: str) -> str | None:
    """Return the first text after all that begin so; None if there is none, because the prefix is empty."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at])
        if code < LAST_CHARACTER:
            return prefix[:at] + chr(0xE000 if code == 0xD7FF else code + 1)
    return None


def has(root: Root, facts: Q, *, equal: bool = False) -> Q:
    """Return the condition that a run has such a fact. ``equal``: one with this text, or number, or one of a few."""
    rows = RunFact.objects.filter(facts, run_id=OuterRef(root.id))
    # A fact is as old as its run: with that the index by text leads to the very row.
    return Q(RowExists(rows.filter(created=OuterRef("created")) if equal else rows))


def on_run(root: Root, column: str, compare: Any, value: Any) -> Q:
    """Return a condition on a run's column that is asked row by row, whatever index there is for it."""
    return Q(compare(NoIndex(f"{root.run}{column}"), value))


def in_values(root: Root, column: str, values: Iterable[Any]) -> Q:
    """Return the condition that a run's column has one of these values."""
    return on_run(root, column, In, list(values))


def within(column: Any, span: tuple[datetime | None, datetime | None]) -> Q:
    """Return the condition that a moment lies in a span: from its start until before its end."""
    since, until = span
    least = Q(GreaterThanOrEqual(column, since)) if since else Q()
    return least & (Q(LessThan(column, until)) if until else Q())


def texts_beginning(name: str, prefix: str, most: int = MOST_VALUES) -> tuple[str, ...] | None:
    """Return the texts of facts of that name that begin so (one query), None if they are more than ``most``."""
    end, postgres = prefix_end(prefix), connection().vendor == "postgresql"
    least, beyond, below = ("~>=~", "~>~", "~<~") if postgres else (">=", ">", "<")
    order = f"text USING {below}" if postgres else "text"
    until, last = (f" AND text {below} %s", (end,)) if end is not None else ("", ())
    found = f"WHERE name = %s AND text {least} %s{until} ORDER BY {order} LIMIT 1"
    first = f"SELECT text FROM checkpoints_runfact {found}"  # noqa: S608
    after = first.replace(f"text {least} %s", f"text {beyond} found.text")
    return _skip(first, (name, prefix, *last), after, (name, *last), most)


def values_of(column: str, most: int) -> tuple[str, ...] | None:
    """Return what occurs in an indexed column of runs (one query), None if that is more than ``most``."""
    first = f"SELECT {column} FROM checkpoints_run ORDER BY {column} LIMIT 1"  # noqa: S608
    after = f"SELECT {column} FROM checkpoints_run WHERE {column} > found.text ORDER BY {column} LIMIT 1"  # noqa: S608
    return _skip(first, (), after, (), most)


def _skip(first: str, given: tuple[Any, ...], after: str, then: tuple[Any, ...], most: int) -> tuple[str, ...] | None:
    """Go through an index from value to value, however many rows each has."""
    sql = f"""
        WITH RECURSIVE found(text) AS (
            SELECT ({first}) UNION ALL SELECT ({after}) FROM found WHERE found.text IS NOT NULL
        ) SELECT text FROM found WHERE text IS NOT NULL LIMIT {int(most) + 1}"""  # noqa: S608
    with connection().cursor() as cursor:
        cursor.execute(sql, (*given, *then))
        texts = tuple(row[0] for row in cursor.fetchall())
    return texts if len(texts) <= most else None


MIN_SHARE = 100
"""Rows for each path, where several share the limit."""
MAX_SCANNED_RUNS = 5_000
"""Runs scanned for one page."""
FAR_REACH = 200_000
"""Runs scanned when a person asks to look further."""
MAX_SORTED = 4_000
"""Rows of an index in another order than newest first are sorted if there are at most so many."""

Cursor = tuple[datetime, str]
"""The time by which runs are ordered, and the id, of the last one shown."""
NEWEST = Order()
ALL_RUNS = Condition(
    holds=lambda root: Q(), routes=(AccessPath(ways=(IndexScan(root=RUNS, where=Q(), orders=ENDED_TOO),)),)
)
BEGUN_THEN = Condition(
    holds=lambda root: Q(), routes=(AccessPath(ways=(IndexScan(root=RUNS, where=Q(), orders=frozenset()),)),)
)
"""What began in the time that a search is about, for orders by another time."""


@frozen
class SearchResult:
    """Ids, in order. ``reached``: the time up to which runs were scanned, if not all were."""

    ids: tuple[str, ...]
    reached: datetime | None = None


@frozen
class MeasuredPath:
    """A condition with a measured path: how many rows, and up to what time they are complete."""

    part: Condition
    route: AccessPath
    count: int
    since: datetime | None = None

    def rank(self, order: Order) -> tuple[bool, float]:
        """Return the rank: complete paths first, those with fewest rows; then those that reach furthest."""
        if self.since is None:
            return False, self.count
        return True, self.since.timestamp() * (1 if order.latest_first else -1)


ALL_RUNS_PATH = MeasuredPath(part=ALL_RUNS, route=ALL_RUNS.routes[0], count=0)


def find(
    search: Search, after: Cursor | None, limit: int, *, reach: int = MAX_SCANNED_RUNS, order: Order = NEWEST
) -> SearchResult:
    """Return at most ``limit`` runs after a cursor (at most two queries, whatever the search)."""
    if not search.parts and order.column == "created":
        return SearchResult(ids=_ids(search, ALL_RUNS_PATH, after, limit, order))
    if any(route.ways == () for part in search.parts for route in part.routes):
        return SearchResult(ids=())
    lead = _best(search, after, reach, order)
    ids = _ids(search, lead, after, limit, order) if lead.count else ()
    return SearchResult(ids=ids, reached=lead.since if len(ids) < limit else None)


def _best(search: Search, after: Cursor | None, reach: int, order: Order) -> MeasuredPath:
    begun = [BEGUN_THEN] if order.column != "created" and (search.since or search.until) else []
    routes = [(part, route) for part in (ALL_RUNS, *begun, *search.parts) for route in part.routes]
    measured = _measure([route for _, route in routes], search, after, reach, order)
    leads = []
    for part, route in routes:
        found = [measured.pop(0) for _ in route.ways]
        gathered = [count for (count, _), way in zip(found, route.ways, strict=True) if order.column not in way.orders]
        if sum(gathered) <= MAX_SORTED:
            edges = [since for _, since in found if since is not None]
            count, furthest = sum(count for count, _ in found), max if order.latest_first else min
            leads.append(MeasuredPath(part=part, route=route, count=count, since=furthest(edges, default=None)))
    return min(leads, key=lambda lead: lead.rank(order))


def _measure(
    routes: list[AccessPath], search: Search, after: Cursor | None, reach: int, order: Order
) -> list[tuple[int, datetime | None]]:
    """Return the number of rows of each path, and the time of the last one if there are more (one query)."""
    parts: list[str] = []
    params: list[Any] = []
    # Paths that belong together share the limit.
    shares = [(way, max(MIN_SHARE, reach // len(route.ways))) for route in routes for way in route.ways]
    edge = f"{'MIN' if order.latest_first else 'MAX'}(w.place)"
    for number, (way, share) in enumerate(shares):
        most = share if order.column in way.orders else MAX_SORTED + 1
        sql, given = _compiled(_path_rows(way, search, after, None, Q(), most, order))
        if sql:
            parts.append(f"SELECT {number} AS way, COUNT(*) AS n, {edge} AS since FROM ({sql}) AS w")  # noqa: S608
            params += given
    counted = {way: (count, since) for way, count, since in _fetch(" UNION ALL ".join(parts), params)}
    found = [counted.get(number, (0, None)) for number in range(len(shares))]
    return [
        (count, _parse_time(since) if order.column in way.orders and count >= share else None)
        for (way, share), (count, since) in zip(shares, found, strict=True)
    ]


def _ids(search: Search, lead: MeasuredPath, after: Cursor | None, limit: int, order: Order) -> tuple[str, ...]:
    """Return ids along one path, all other conditions checked for each (one query)."""
    parts: list[str] = []
    params: list[Any] = []
    asked = [part for part in search.parts if not (part is lead.part and lead.route.exact)]
    for number, way in enumerate(lead.route.ways):
        holds = reduce(and_, (part.holds(way.root) for part in asked), Q())
        most = limit if order.column in way.orders else MAX_SORTED + 1
        sql, given = _compiled(_path_rows(way, search, after, lead.since, holds, most, order))
        name = f"w{number}"
        if sql:
            parts.append(f"SELECT {name}.place, {name}.{way.root.id} AS id FROM ({sql}) AS {name}")  # noqa: S608
            params += given
    if not parts:
        return ()
    together, sign = " UNION ALL ".join(parts), "DESC" if order.latest_first else "ASC"
    sql = f"SELECT DISTINCT u.place, u.id FROM ({together}) AS u ORDER BY u.place {sign}, u.id {sign} LIMIT {limit}"  # noqa: S608
    return tuple(row[1] for row in _fetch(sql, params))


def _path_rows(
    way: IndexScan,
    search: Search,
    after: Cursor | None,
    edge: datetime | None,
    holds: Q,
    most: int,
    order: Order,
) -> QuerySet[Any, dict[str, Any]]:
    """Return the rows of a path, in the order if it has it."""
    column, sign = order.column_of(way.root), "-" if order.latest_first else ""
    rows: QuerySet[Any] = way.root.model._default_manager.filter(
        way.where, _begun_filter(way, search, order), _place_filter(way, after, edge, order), holds
    )
    rows = rows.order_by(f"{sign}{column}", f"{sign}{way.root.id}") if order.column in way.orders else rows.order_by()
    found: QuerySet[Any, dict[str, Any]] = rows.annotate(place=F(column)).values("place", way.root.id)[:most]
    return found


def _begun_filter(way: IndexScan, search: Search, order: Order) -> Q:
    """Return the condition on when a run began; along another time it is asked of each run on the way."""
    if order.column == "created" or order.column not in way.orders:
        return within(F("created"), (search.since, search.until))
    return within(NoIndex("created"), (search.since, search.until))


def _place_filter(way: IndexScan, after: Cursor | None, edge: datetime | None, order: Order) -> Q:
    """Return the condition of the place: only what follows the cursor, and is not beyond what was measured."""
    column, beyond = order.column_of(way.root), "lt" if order.latest_first else "gt"
    found = Q() if order.column == "created" else Q(**{f"{column}__isnull": False})
    if edge is not None:
        found &= Q(**{f"{column}__{'gte' if order.latest_first else 'lte'}": edge})
    if after is not None:
        # Twice, because only the first form uses an index.
        later = Q(**{f"{column}__{beyond}": after[0]}) | Q(**{f"{way.root.id}__{beyond}": after[1]})
        found &= Q(**{f"{column}__{beyond}e": after[0]}) & later
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
    with connection().cursor() as cursor:
        cursor.execute(sql, [findable(one) if isinstance(one, str) else one for one in params])
        return list(cursor.fetchall())


def _parse_time(value: Any) -> datetime:
    """Return a time from a column's value: text on SQLite."""
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    return found if found.tzinfo else found.replace(tzinfo=UTC)
