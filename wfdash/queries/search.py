"""What all lists are searched with: filter keys as rows of a table, conditions of the ORM, orders and cursors.

A list declares its own keys; its box, help, suggestions and errors follow from them. Every term and word of a filter
holds, the values of one term are alternatives. Pages join without gap or double while rows come and go.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, Generic, NamedTuple, TypeVar

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Exists, Func, Q, QuerySet
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

from checkpoints.records import frozen
from wfdash.access.viewer import Viewer
from wfdash.domain.errors import Invalid
from wfdash.domain.labels import in_words
from wfdash.engines import catalog

# Where the values come from that a search box suggests: rows of the list, and the catalogue.


@frozen
class ListedValues:
    """What occurs in rows of a list: of each row the values of ``columns``, a name or a list of names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def of(self, column: str) -> list[str]:
        """Return the values of a column, sorted."""
        found = (row[self.columns.index(column)] for row in self.rows)
        return sorted({name for value in found for name in (value if isinstance(value, list) else [value]) if name})


def listed(column: str) -> Callable[[ListedValues], Iterable[str]]:
    """Return what suggests the values that occur in a column."""
    return lambda values: values.of(column)


def listed_workflows(values: ListedValues) -> list[Suggestion]:
    """Return the workflows that occur, with their titles."""
    titles = catalog.titles()
    return [Suggestion(name, titles.get(name, "")) for name in values.of("workflow")]


def visible_workflows(viewer: Viewer) -> list[Suggestion]:
    """Return the loaded workflows this person may see, with their titles."""
    titles = catalog.titles()
    return [Suggestion(name, titles[name]) for name in sorted(titles) if viewer.may("see", name)]


C = TypeVar("C")
S = TypeVar("S")


class Suggestion(NamedTuple):
    """A value to choose, and what it is called where that says more."""

    value: str
    label: str = ""


@dataclass(frozen=True)
class Qualifier(Generic[C, S]):
    """A filter key. ``condition`` is what the list makes a condition with, ``S`` what it takes suggestions from."""

    key: str
    example: str
    meaning: str
    condition: C
    values: tuple[str, ...] = ()
    """Values that are always suggested."""
    only: tuple[str, ...] = ()
    """The values there are, where no others are; suggested in this order."""
    accepts: Callable[[str, str], bool] = lambda value, sign: True
    """Returns whether a value with this sign can be understood."""
    signs: tuple[str, ...] = ()
    suggest: Callable[[S], Iterable[Suggestion | str]] = lambda source: ()
    paths: Callable[[S], Iterable[Suggestion]] | None = None
    """Where a path follows behind a dot (``input.amount``): returns the names there are, each with what it is."""
    single: bool = False
    """Whether a row has exactly one value, so that terms that repeat the key are alternatives."""

    @property
    def name(self) -> str:
        """The key, as one writes it."""
        return f"{self.key}.…" if self.paths else self.key

    def understands(self, value: str, sign: str) -> bool:
        """Return whether a value is one of those there are, or one that is accepted."""
        return value.lower() in self.only if self.only else self.accepts(value, sign)

    def suggestions(self, source: S) -> list[dict[str, str]]:
        """Return the values to choose from, as the search box takes them."""
        found = [*self.values, *self.only, *self.suggest(source)]
        return [_offered(Suggestion(one) if isinstance(one, str) else one) for one in found]


@frozen
class ListFilter(Generic[C, S]):
    """What a list can be filtered by. ``words`` says where words are looked for."""

    qualifiers: tuple[Qualifier[C, S], ...]
    words: str
    word_flaw: Callable[[str], str] = lambda word: ""
    """Says what is wrong with a word to look for; nothing, mostly."""

    def __getitem__(self, key: str) -> Qualifier[C, S]:
        return next(one for one in self.qualifiers if one.key == key)

    def read(self, text: str) -> ParsedFilter:
        """Return what a text asks for. Never raises: what is wrong with it stands in ``flaws``."""
        terms: list[Term] = []
        words: dict[bool, list[str]] = {True: [], False: []}
        flaws = [*too_long(text)]
        for part, said in split(text):
            said = self._nested(said) if isinstance(said, Term) else said
            message = self._flaw(said)
            if message:
                flaws.append(Flaw(part=part, message=message))
            elif isinstance(said, Term):
                terms.append(said)
            elif said.text:
                words[said.negated].append(said.text)
        merged = tuple(self._merged(terms))
        return ParsedFilter(terms=merged, words=tuple(words[False]), unwanted=tuple(words[True]), flaws=tuple(flaws))

    def parse(self, text: str) -> ParsedFilter:
        """Return what a text asks for; ``Invalid`` names each part that cannot be understood, and its remedy."""
        found = self.read(text)
        if found.flaws:
            raise Invalid([{"loc": ["q", flaw.part], "msg": flaw.message} for flaw in found.flaws])
        return found

    def help(self) -> list[tuple[str, str]]:
        """Return what one can write, each with its meaning: the keys, then what holds for all of them."""
        first = next((one for one in self.qualifiers if len(one.only) > 1), None)
        general = [('"blue chair"', self.words), (f"-{self.qualifiers[0].example}", "exclude with a minus")]
        several = [(f"{first.key}:{','.join(first.only[:2])}", "any of several")] if first else []
        return [(one.example, one.meaning) for one in self.qualifiers] + general + several

    def suggestions(self, source: S) -> dict[str, Any]:
        """Return ``{"keys": [{key, example, meaning}], "values": {key: [{value, label}]}}``."""
        plain = [one for one in self.qualifiers if one.paths is None]
        keys = [{"key": one.key, "example": one.example, "meaning": one.meaning} for one in plain]
        paths = [path for one in self.qualifiers if one.paths for path in one.paths(source)]
        keys += [{"key": path.value, "example": f"{path.value}:…", "meaning": path.label} for path in paths]
        return {"keys": keys, "values": {one.key: one.suggestions(source) for one in self.qualifiers}}

    def _nested(self, term: Term) -> Term:
        head, _, path = term.key.partition(".")
        nested = any(one.paths and one.key == head for one in self.qualifiers)
        return replace(term, key=head, path=path) if nested else term

    def _merged(self, terms: list[Term]) -> list[Term]:
        """Return terms with those that repeat the key of a single value in one, as alternatives."""
        kept: list[Term] = []
        for term in terms:
            joins = self[term.key].single and not (term.negated or term.sign)
            same = next((one for one in kept if joins and one.key == term.key and not (one.negated or one.sign)), None)
            if same is None:
                kept.append(term)
            else:
                kept[kept.index(same)] = replace(same, values=same.values + term.values)
        return kept

    def _flaw(self, said: Term | Word) -> str:
        """Say what is wrong with a part and what to write; empty if nothing is."""
        if isinstance(said, Word):
            return self.word_flaw(said.text) if said.text else ""
        one = next((one for one in self.qualifiers if one.key == said.key), None)
        if one is None:
            known = ", ".join(one.name for one in self.qualifiers)
            return f'Unknown filter "{said.key}". Available: {known}. Put text with a colon in quotes.'
        if not said.values:
            return f"Enter a value after the colon: {one.example}"
        if said.sign and said.sign not in one.signs:
            return f"{self._sign_rule(said.sign)}: {one.example}"
        wrong = next((value for value in said.values if not one.understands(value, said.sign)), None)
        if wrong is None:
            return ""
        return f'Invalid value "{said.sign}{wrong}" for {said.name}. Expected: {one.meaning}. Example: {one.example}'

    def _sign_rule(self, sign: str) -> str:
        keys = [one.key for one in self.qualifiers if sign in one.signs]
        return f"{sign} can only be used with {in_words(keys)}" if keys else f"{sign} cannot be used here"


def _offered(one: Suggestion) -> dict[str, str]:
    quoted = f'"{one.value}"' if " " in one.value or "," in one.value else one.value
    return {"value": quoted, "label": one.label if one.label != one.value else ""}


# The grammar of filters: text in, terms and words out. Pure.

MAX_LENGTH = 500
TERM = re.compile(
    r'(?P<part>(?P<not>-)?(?:(?P<key>[A-Za-z_][\w.-]*):)?(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]+|(?(key)(?<=:)|(?!)))))'
)
SIGNS = ("<=", ">=", "<", ">")
INEQUALITIES = ("<", ">")


@frozen
class Term:
    """One part: ``due:<4h``. ``sign`` is ``<`` or the like where given; ``path``: ``amount`` in ``input.amount``."""

    key: str
    values: tuple[str, ...]
    sign: str = ""
    negated: bool = False
    path: str = ""

    @property
    def name(self) -> str:
        """The key as it was written."""
        return f"{self.key}.{self.path}" if self.path else self.key


@frozen
class Word:
    """A word to look for, or one that must not occur."""

    text: str
    negated: bool = False


@frozen
class Flaw:
    """A part that cannot be understood, and what to write instead."""

    part: str
    message: str


@frozen
class ParsedFilter:
    """What a filter asks for. With ``flaws`` it must not be applied: it would list something else than was meant."""

    terms: tuple[Term, ...] = ()
    words: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    """Words that must not occur."""
    flaws: tuple[Flaw, ...] = field(default=())


def split(text: str) -> Iterator[tuple[str, Term | Word]]:
    """Yield the parts of a filter as they were written, each with what it says; an empty word says nothing."""
    for found in TERM.finditer(text[:MAX_LENGTH].replace("\0", "")):
        value, negated = found["bare"] if found["quoted"] is None else found["quoted"], bool(found["not"])
        if found["key"] is None:
            yield found["part"], Word(text=value, negated=negated)
        else:
            yield found["part"], _term(found["key"].lower(), value, negated=negated, quoted=bool(found["quoted"]))


def replaced(text: str, key: str, part: str = "") -> str:
    """Return a filter in which what is asked for by a key is asked for by one part instead, or not at all.

    What it excludes by that key stays, and so does everything else, as it was written.
    """
    found = [(one, _asks_for(said, key)) for one, said in split(text)]
    at = next((number for number, (_, asks) in enumerate(found) if asks), len(found))
    kept = [one for one, asks in found if not asks]
    return " ".join([*kept[:at], *([part] if part else []), *kept[at:]])


def toggled(text: str, part: str) -> str:
    """Return a filter with this part added, without it where it has it."""
    parts = [one for one, _ in split(text)]
    rest = [one for one in parts if one.lower() != part]
    return " ".join(rest if len(rest) < len(parts) else [*parts, part])


def asked_for(text: str, key: str) -> tuple[str, ...]:
    """Return the values that a filter asks for by a key, in lower case; those with a sign do not count."""
    found = (said for _, said in split(text) if isinstance(said, Term) and _asks_for(said, key) and not said.sign)
    return tuple(value.lower() for said in found for value in said.values)


def _asks_for(said: Term | Word, key: str) -> bool:
    return isinstance(said, Term) and said.key == key and not said.negated


def too_long(text: str) -> tuple[Flaw, ...]:
    """Return the flaw of a text that is not read to its end, if it is one."""
    if len(text) <= MAX_LENGTH:
        return ()
    return (Flaw(part=f"{text[:20]}…", message=f"A filter has at most {MAX_LENGTH} characters: shorten it."),)


def _term(key: str, value: str, *, negated: bool, quoted: bool) -> Term:
    sign = "" if quoted else next((sign for sign in SIGNS if value.startswith(sign)), "")
    rest = value[len(sign) :]
    values = (rest,) if quoted else tuple(part for part in rest.split(",") if part)
    return Term(key=key, values=values, sign=sign, negated=negated)


@frozen
class FilterContext:
    """Who filters, and when."""

    viewer: Viewer
    now: datetime = field(default_factory=timezone.now)


ToQ = Callable[[FilterContext, Term, str], Q]
"""Returns the condition of one value of a term."""


@frozen
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
    "workflow",
    "workflow:refund",
    "this workflow; ref* for prefix",
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


class RowExists(Exists):
    """An ``EXISTS`` that is asked of each row on the way: PostgreSQL may not make a join of it, and begin elsewhere,
    nor read all rows of the other table first.
    """

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the expression; a subquery with an offset stays one."""
        sql, params = self.as_sql(compiler, connection, **extra)
        return re.sub(r"\)$", " OFFSET 0)", sql), tuple(params)


class NamesEmpty(Func):
    """True when the JSON list in ``column`` is empty. SQLite and PostgreSQL."""

    template = "(%(expressions)s = '[]')"
    output_field = BooleanField()

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Any:
        """Compare the text."""
        return self.as_sql(compiler, connection, template="((%(expressions)s)::text = '[]')", **extra)


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
    r"(?P<day>\d{4}-\d\d-\d\d)(?:T(?P<hour>[01]\d|2[0-3])(?::(?P<minute>\d\d))?)?(?P<offset>Z|[+-]\d\d:\d\d)?",
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


MOMENTS = frozenset({"created", "finished", "place"})
NUMBERS = {"risk": 1000, "n": 2**63, "never": 2}
"""Columns of numbers, which are below these."""


@frozen
class KeysetOrder:
    """Columns with their directions (``-`` first: descending), the last of them unique; none may be null."""

    columns: tuple[str, ...]

    def backwards(self) -> KeysetOrder:
        """Return the opposite order."""
        turned = (column[1:] if column.startswith("-") else f"-{column}" for column in self.columns)
        return replace(self, columns=tuple(turned))

    def after(self, place: Mapping[str, Any] | None) -> Q:
        """Return the filter of what comes after the row with these values; of everything where there is none."""
        if place is None:
            return Q()
        beyond = Q(pk__in=[])
        for column in reversed(self.columns):
            name = column.lstrip("-")
            after, value = f"{name}__{'lt' if column.startswith('-') else 'gt'}", place[name]
            # Beside the OR: else PostgreSQL reads and sorts all that follows instead of walking the index from here.
            beyond = Q(**{f"{after}e": value}) & (Q(**{after: value}) | beyond)
        return beyond

    def cursor(self, row: Mapping[str, Any]) -> str:
        """Return the place after this row as text for an address."""
        values = (row[column.lstrip("-")] for column in self.columns)
        text = json.dumps([{"at": one.isoformat()} if isinstance(one, datetime) else one for one in values])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def place(self, cursor: str) -> dict[str, Any] | None:
        """Return the place a cursor names; None for an empty or damaged one: the list then starts at its top."""
        try:
            values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            if not isinstance(values, list) or len(values) != len(self.columns):
                return None
            names = [column.lstrip("-") for column in self.columns]
            return {name: _decoded(name, value) for name, value in zip(names, values, strict=True)}
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError, binascii.Error):
            return None


def _decoded(name: str, value: Any) -> Any:
    """Return a value of a place. ``ValueError`` and others for one that its column cannot be compared with."""
    if name in MOMENTS:
        moment = datetime.fromisoformat(value["at"])
        if moment.tzinfo is None:
            raise ValueError("a moment without a time zone")
        return moment.astimezone(UTC)
    if name in NUMBERS and isinstance(value, int) and abs(value) < NUMBERS[name]:
        return value
    if name not in NUMBERS and isinstance(value, str) and "\0" not in value:
        value.encode()  # A lone surrogate is no text that a column could hold.
        return value
    raise ValueError("no value of a place")
