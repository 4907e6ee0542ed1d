"""Parsed filters as conditions of the ORM: every term and word holds, the values of one term are alternatives."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Func, Q, QuerySet
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

from wfdash.access.viewer import Viewer
from wfdash.queries.search.qualifiers import INEQUALITIES, ListedValues, ListFilter, Qualifier, Term, listed_workflows


@dataclass(frozen=True, kw_only=True)
class FilterContext:
    """Who filters, and when."""

    viewer: Viewer
    now: datetime = field(default_factory=timezone.now)


ToQ = Callable[[FilterContext, Term, str], Q]
"""Returns the condition of one value of a term."""


@dataclass(frozen=True, kw_only=True)
class SplitCondition:
    """The condition of a filter. ``along``: an index has just these rows, in the order of the list; ``rest``: what is
    asked of each of them.
    """

    along: Q
    rest: Q

    @property
    def whole(self) -> Q:
        """The condition of the filter."""
        return self.along & self.rest


def condition_of(known: ListFilter[ToQ, Any], viewer: Viewer, text: str, word: Callable[[str], Q]) -> Q:
    """Return the condition of a filter text; ``Invalid`` names each part that cannot be understood, and its remedy."""
    return split_condition(known, viewer, text, word, frozenset()).whole


def split_condition(
    known: ListFilter[ToQ, Any], viewer: Viewer, text: str, word: Callable[[str], Q], led: frozenset[str]
) -> SplitCondition:
    """Return the condition of a filter text, where an index leads to a value of the keys ``led``. ``Invalid``."""
    wanted, context, along, found = known.parse(text), FilterContext(viewer=viewer), Q(), Q()
    for term in wanted.terms:
        one = reduce(or_, (known[term.key].condition(context, term, value) for value in term.values))
        if term.key in led and not term.negated and len(term.values) == 1 and not term.values[0].endswith("*"):
            along &= one
        else:
            found &= ~one if term.negated else one
    for text_ in wanted.words:
        found &= word(text_)
    for text_ in wanted.unwanted:
        found &= ~word(text_)
    return SplitCondition(along=along, rest=found)


def edge_of(rows: QuerySet[Any, Any], column: str, reach: int) -> Any:
    """Return a column of the row before which ``reach`` rows come; None if there are not so many (one query)."""
    return rows.values_list(column, flat=True)[reach : reach + 1].first()


def equals(column: str) -> ToQ:
    """Return how a column is compared as a whole."""
    return lambda context, term, value: Q(**{column: value})


def equals_or_begins(column: str) -> ToQ:
    """Return how a column is compared: as a whole, or with ``*`` by how it begins."""
    return lambda context, term, value: (
        Q(**{f"{column}__startswith": value[:-1]}) if value.endswith("*") else Q(**{column: value})
    )


def lies_in(column: str) -> ToQ:
    """Return how a past moment is compared: whether it lies in what ``times_of`` reads, its end excluded."""

    def condition(context: FilterContext, term: Term, value: str) -> Q:
        since, until = times_of(value, term.sign, context.now)
        least = Q(**{f"{column}__gte": since}) if since else Q()
        return least & (Q(**{f"{column}__lt": until}) if until else Q())

    return condition


def comes(column: str) -> ToQ:
    """Return how a coming moment is compared: by a bound (``<4h``, ``2030-01-31``), or after it (``>2d``)."""

    def condition(context: FilterContext, term: Term, value: str) -> Q:
        bound = moment_of(value, context.now)
        return Q(**{f"{column}__isnull": False, f"{column}__{'gt' if term.sign == '>' else 'lte'}": bound})

    return condition


# Qualifiers that several lists have alike, each of whose rows names its workflow.

WORKFLOW: Qualifier[ToQ, ListedValues] = Qualifier(
    key="workflow",
    example="workflow:refund",
    meaning="this workflow; ref* for prefix",
    suggest=listed_workflows,
    condition=equals_or_begins("workflow"),
)


# Database expressions over JSON lists of names, on SQLite and PostgreSQL.

PLAIN = re.compile(r"[ !#-\[\]-~]+")
"""Characters that every JSON writer leaves unescaped."""
Params = tuple[Any, ...]
Compiled = tuple[str, Params]


class _Named(Func):
    """A condition on the JSON list in ``column`` and some names."""

    output_field = BooleanField()

    def __init__(self, column: str, names: Iterable[str]) -> None:
        super().__init__(column)
        self.names = sorted(set(names))


class NamesAny(_Named):
    """True when the JSON list in ``column`` holds at least one of ``names``. SQLite and PostgreSQL."""

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the expression."""
        column, params = compiler.compile(self.source_expressions[0])
        marks = ", ".join(["%s"] * len(self.names)) or "NULL"
        exact = f"EXISTS (SELECT 1 FROM json_each({column}) WHERE json_each.value IN ({marks}))"  # noqa: S608
        return self._tested("instr", column, tuple(params), exact, (*params, *self.names))

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the expression; the column is json, the operator jsonb's."""
        column, params = compiler.compile(self.source_expressions[0])
        exact = f"({column})::jsonb ?| %s::text[]"
        return self._tested("strpos", f"({column})::text", tuple(params), exact, (*params, self.names))

    def _tested(self, find: str, text: str, params: Params, exact: str, exact_params: Params) -> Compiled:
        """Search for the names as they stand in the text. Where it has a backslash, quotes may lie: there, be exact."""
        hits = " OR ".join([f"{find}({text}, %s) > 0"] * len(self.names)) or "1 = 0"
        found = tuple(value for name in self.names for value in (*params, json.dumps(name, ensure_ascii=False)))
        plain = f"{find}({text}, %s) = 0"
        if all(PLAIN.fullmatch(name) for name in self.names):
            # These stand there as they are, or not at all: most texts are searched once.
            sql = f"(CASE WHEN NOT ({hits}) THEN false WHEN {plain} THEN true ELSE {exact} END)"
            return sql, (*found, *params, "\\", *exact_params)
        return f"(CASE WHEN {plain} THEN ({hits}) ELSE {exact} END)", (*params, "\\", *found, *exact_params)


class NamesEmpty(Func):
    """True when the JSON list in ``column`` is empty. SQLite and PostgreSQL."""

    output_field = BooleanField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Compare the text."""
        column, params = compiler.compile(self.source_expressions[0])
        return f"({column} = '[]')", tuple(params)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Compare the text."""
        column, params = compiler.compile(self.source_expressions[0])
        return f"(({column})::text = '[]')", tuple(params)


class NamesBeyond(_Named):
    """True when the JSON list in ``column`` holds a name that is none of ``names``. SQLite and PostgreSQL."""

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the expression."""
        column, params = compiler.compile(self.source_expressions[0])
        marks = ", ".join(["%s"] * len(self.names))
        sql = f"EXISTS (SELECT 1 FROM json_each({column}) WHERE json_each.value NOT IN ({marks}))"  # noqa: S608
        return sql, (*params, *self.names)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the expression; the column is json."""
        column, params = compiler.compile(self.source_expressions[0])
        rows = f"json_array_elements_text({column}) AS named(name)"
        return f"EXISTS (SELECT 1 FROM {rows} WHERE name <> ALL(%s::text[]))", (*params, self.names)  # noqa: S608


# Times as people write them in filters: spans such as ``4h``, days, hours, minutes and ranges. Pure.

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])")
MAX_DURATION = timedelta(days=36_500)
DAY = timedelta(days=1)
MOMENT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)(?:T(?P<hour>\d\d)(?::(?P<minute>\d\d))?)?(?P<offset>Z|[+-]\d\d:\d\d)?",
    re.ASCII | re.IGNORECASE,
)
"""A day, an hour or a minute, in UTC or at an offset from it."""
RANGE = ".."
Span = tuple[datetime | None, datetime | None]
"""From when (inclusive) until when (exclusive); None: without an end."""


def duration_of(value: str) -> timedelta | None:
    """Return ``4h`` as a duration of at most a century (s, m, h, d, w; parts add up: ``1d12h``), None if it is none."""
    if not value or SPAN.sub("", value):
        return None
    parts = (timedelta(**{UNITS[unit]: float(number)}) for number, unit in SPAN.findall(value))
    return timedelta(seconds=min(sum(part.total_seconds() for part in parts), MAX_DURATION.total_seconds()))


def moment_of(value: str, now: datetime) -> datetime | None:
    """Return what a bound names: a time from now (``4h``) or a day (``2030-01-31``, its start, UTC)."""
    span = duration_of(value)
    return now + span if span is not None else start_of(value)


def start_of(value: str) -> datetime | None:
    """Return the start of a day (``2030-01-31``, UTC), None for anything else."""
    day = day_of(value)
    return datetime(day.year, day.month, day.day, tzinfo=UTC) if day else None


def day_of(value: str) -> date | None:
    """Return the day a value names, None for anything else."""
    try:
        return date.fromisoformat(value) if len(value) == 10 else None
    except ValueError:
        return None


def is_time(value: str, sign: str) -> bool:
    """Return whether ``times_of`` understands a value: ``today``, a day, hour or minute, a range of those, or a span
    with ``<`` or ``>``.
    """
    if not sign:
        return value.lower() == "today" or _range_of(value) is not None
    return _moment(value) is not None or (sign in INEQUALITIES and duration_of(value) is not None)


def times_of(value: str, sign: str, now: datetime) -> Span:
    """Return the span in which a past time is meant.

    ``<2d`` is within two days, ``>2d`` longer ago; of days (hours, minutes) ``<`` is before it, ``>`` after it, ``<=``
    with it. ``2026-01-31..2026-02-02`` is from the start of the first to the end of the last; either may be left out.
    """
    span = duration_of(value)
    if span is not None:
        since = now - min(span, MAX_DURATION)
        return (since, None) if sign == "<" else (None, since)
    if value.lower() == "today":
        value = f"{now.astimezone(UTC):%Y-%m-%d}"
    if not sign:
        return _range_of(value) or (None, None)
    start, end = _moment(value) or (None, None)
    return {"<": (None, start), "<=": (None, end), ">": (end, None), ">=": (start, None)}[sign]


def range_text(since: datetime, until: datetime) -> str:
    """Return the filter of what happened from one minute until before another, as short as it can be said.

    A whole day is ``2026-11-21``, in the zone of these times ``2026-11-21+01:00``; else both ends are named.
    """
    span = since.astimezone(UTC), until.astimezone(UTC)
    last = (span[1] - timedelta(minutes=1)).astimezone(since.tzinfo)
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H:%M"):
        one, other = (f"{at.strftime(form)}{_offset_of(at)}" for at in (since, last))
        for text in (one, f"{one}{RANGE}{other}"):
            if _range_of(text) == span:
                return text
    raise ValueError(f"{since} to {until} are not whole minutes")


def _offset_of(at: datetime) -> str:
    offset = f"{at:%z}"
    return "" if offset in {"+0000", ""} else f"{offset[:3]}:{offset[3:5]}"


def _range_of(value: str) -> Span | None:
    """Return a day, hour, minute, or range of them as a span; None if it is none, or ends before it begins."""
    first, dots, last = value.partition(RANGE)
    if not dots:
        return _moment(value)
    start, end = _moment(first), _moment(last)
    if (first and start is None) or (last and end is None) or not (start or end):
        return None
    since, until = start[0] if start else None, end[1] if end else None
    return None if since and until and since >= until else (since, until)


def _moment(value: str) -> Span | None:
    """Return a day, hour or minute as a span, None if it is none."""
    found = MOMENT.fullmatch(value)
    if found is None:
        return None
    hour, minute, offset = found["hour"], found["minute"], (found["offset"] or "Z").upper().replace("Z", "+00:00")
    try:
        start = datetime.fromisoformat(f"{found['day']}T{hour or '00'}:{minute or '00'}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return start, _after(start, DAY if hour is None else timedelta(hours=1) if minute is None else timedelta(minutes=1))


def _after(start: datetime, length: timedelta) -> datetime | None:
    try:
        return start + length
    except OverflowError:
        return None
