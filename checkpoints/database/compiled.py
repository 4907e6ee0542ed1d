"""SQL that is built once: the ORM takes longer to build a small query than a database to answer it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, wraps
from typing import Any, Generic, TypeVar

from django.core.exceptions import EmptyResultSet, FullResultSet
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Field, Lookup, Model, Q, QuerySet, Value
from django.db.models.constants import OnConflict
from django.db.models.expressions import RawSQL
from django.db.models.query import ModelIterable, ValuesIterable, get_related_populators
from django.db.models.sql import UpdateQuery
from django.db.models.sql.compiler import SQLCompiler

from checkpoints.database.alias import alias, connection
from checkpoints.limits import findable
from checkpoints.models.fields import DatabaseNow
from checkpoints.records import frozen

# What several queries find first, and the database's time, in one statement: for looks that mostly find nothing.

Convert = Callable[[Sequence[Any]], list[Any]]
T = TypeVar("T")


class FirstValues:
    """Queries of one column each, by their names. They are compiled once, so they must not look at the clock."""

    def __init__(self, **queries: QuerySet[Any, Any]) -> None:
        self._queries = queries
        self._statement = lru_cache(maxsize=8)(self._compile)

    def read(self, **given: Any) -> tuple[datetime, Mapping[str, Any]]:
        """Return the database's time, and name -> the value in the first row, of each query that finds one which is
        not null, with these values for their placeholders (one statement).
        """
        sql, params, convert = self._statement(connection().vendor, alias())
        with connection().cursor() as cursor:
            cursor.execute(sql, filled(params, given, connection()))
            now, *found = convert(cursor.fetchone())
        return now, {name: value for name, value in zip(self._queries, found, strict=True) if value is not None}

    def _compile(self, vendor: str, using: str) -> tuple[str, Sequence[Any], Convert]:
        compilers = [query.using(using)[:1].query.get_compiler(using) for query in self._queries.values()]
        clock = DatabaseNow()
        base, kinds = compilers[0], [clock]
        (now, params), columns = base.compile(clock), list[str]()
        given = list(params)
        for one in compilers:
            try:
                sql, params = one.as_sql()
            except EmptyResultSet:
                # It can find nothing, whatever is in the tables.
                sql, params = "NULL", ()
            columns.append(f"({sql})")
            given += params
            kinds.append(one.select[0][0] if one.select else clock)
        converters = base.get_converters(kinds)

        def convert(row: Sequence[Any]) -> list[Any]:
            return next(iter(base.apply_converters([list(row)], converters)))

        return f"SELECT {', '.join([now, *columns])}", given, convert


# Queries of plain values compiled once, and counts of what they find.

NO_ROWS = "SELECT 1 WHERE 1 = 0"
FETCH_MODE = tuple(filter(None, [getattr(models, "FETCH_ONE", None)]))
"""How rows beside the one read are fetched when they are asked for: from Django 6.1 on this is said."""
KEPT = 512
"""How many statements are kept for each query; the least recently used go first."""


@frozen
class Statement:
    """A query as SQL with its parameters. ``sql`` is empty where the query can find nothing."""

    sql: str
    params: tuple[Any, ...] = ()

    def rows(self) -> list[tuple[Any, ...]]:
        """Return what the query finds now, as it is stored: select texts and numbers, no times and no JSON."""
        if not self.sql:
            return []
        with connection().cursor() as cursor:
            cursor.execute(self.sql, self.params)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows

    def count(self) -> int:
        """Return how many rows the query finds now."""
        found = self.select("COUNT(*)")
        return int(found[0]) if found else 0

    def select(self, columns: str) -> tuple[Any, ...] | None:
        """Return one row of aggregates over what the query finds, which is named ``found``; None if it finds nothing
        ever.
        """
        outer = Statement(sql=self.sql and f"SELECT {columns} FROM ({self.sql}) AS found", params=self.params)  # noqa: S608
        return next(iter(outer.rows()), None)


def count_each(parts: Sequence[Statement]) -> list[int]:
    """Return how many rows each query finds now (one statement)."""
    columns = ", ".join(f"(SELECT COUNT(*) FROM ({part.sql or NO_ROWS}) AS counted)" for part in parts)  # noqa: S608
    params = tuple(value for part in parts for value in part.params)
    return [number for row in Statement(sql=columns and f"SELECT {columns}", params=params).rows() for number in row]


def _kept(build: Callable[..., Any], make: Callable[[Any], T]) -> Callable[..., T]:
    """Return a function that returns what ``make`` makes of what ``build`` returns, once per database and arguments."""

    @lru_cache(maxsize=KEPT)
    def kept(vendor: str, using: str, *key: Hashable) -> T:
        return make(build(*key))

    def statement(*key: Hashable) -> T:
        used = connection()
        return kept(used.vendor, used.alias, *key)

    return wraps(build)(statement)


def compiled(build: Callable[..., QuerySet[Any, Any]]) -> Callable[..., Statement]:
    """Decorate a function that returns a query so that it returns the query's statement, kept per arguments.

    The arguments are hashable and alone decide the query: ``build`` neither reads the database nor looks at the clock.
    """
    return _kept(build, statement_of)


def compiled_filter(model: type[Model], build: Callable[..., Q]) -> Callable[..., Q]:
    """Return a function that returns ``build``'s filter of a table as SQL, kept per arguments as by ``compiled``.

    For queries of that table itself: within another query its columns have other names. A filter that needs other
    tables joined is returned as it is.
    """

    def as_sql(plain: Q) -> Q:
        query = model._default_manager.filter(plain).query
        try:
            sql, params = query.get_compiler(alias()).compile(query.where)
        except EmptyResultSet:
            return Q(pk__in=[])
        return plain if len(query.alias_map) > 1 else Q(RawSQL(sql, tuple(params), BooleanField()))  # noqa: S611

    return _kept(build, as_sql)


def compiled_condition(model: type[Model]) -> Callable[[Callable[..., Q]], Callable[..., Statement]]:
    """Decorate a function that returns a filter of a table so that it returns the filter as SQL, kept per arguments as
    by ``compiled``: for statements in which something by the table's name has the columns that it asks.
    """

    def as_sql(plain: Q) -> Statement:
        query = model._default_manager.filter(plain).query
        try:
            sql, params = query.get_compiler(alias()).compile(query.where)
        except EmptyResultSet:
            return Statement(sql="1 = 0")
        except FullResultSet:
            return Statement(sql="1 = 1")
        return Statement(sql=sql, params=tuple(params))

    return lambda build: _kept(build, as_sql)


def statement_of(query: QuerySet[Any, Any]) -> Statement:
    """Return a query's statement."""
    try:
        sql, params = query.query.get_compiler(alias()).as_sql()
    except EmptyResultSet:
        return Statement(sql="")
    return Statement(sql=sql, params=tuple(params))


# Rows written by statements that were compiled once, for actions that write several.

Update = tuple[QuerySet[Any], Mapping[str, Any]]
"""Which rows to update, and their new values."""
FEW = 8
"""Rows up to which a statement of its own is kept for each number of them."""


@frozen
class UpdateStatement:
    """An update as SQL with its parameters."""

    sql: str
    params: tuple[Any, ...] = ()

    def execute(self, **given: Any) -> int:
        """Update with these values for its placeholders, and return how many rows that were."""
        used = connection()
        with used.cursor() as cursor:
            cursor.execute(self.sql, filled(self.params, given, used))
            return int(cursor.rowcount)


def compiled_update(build: Callable[..., Update]) -> Callable[..., UpdateStatement]:
    """Decorate a function that returns a query and its changes so that it returns the statement, kept per arguments as
    by ``compiled``.

    The query is of one table. As with ``update()`` nothing is encrypted, and no signals are sent.
    """

    def as_sql(update: Update) -> UpdateStatement:
        found, changes = update
        query: Any = found.query.chain(UpdateQuery)
        query.add_update_values(dict(changes))
        sql, params = query.get_compiler(alias()).as_sql()
        return UpdateStatement(sql=sql, params=tuple(params))

    return _kept(build, as_sql)


def insert(*rows: Model, ignore_conflicts: bool = False) -> None:
    """Insert new rows of one table whose keys are set, as ``bulk_create`` does: without signals.

    ``ignore_conflicts``: a row whose key is taken already is left out. A key that the database counts stays unknown.
    """
    if not rows:
        return
    if len(rows) > FEW:
        type(rows[0])._default_manager.using(alias()).bulk_create(rows, ignore_conflicts=ignore_conflicts)
    else:
        _insert_few(rows, ignore_conflicts=ignore_conflicts)


def insert_if_free(row: Model) -> bool:
    """Insert a new row and return True; False if its key is taken, for which it waits where another transaction is
    about to take it.
    """
    return _insert_few([row], ignore_conflicts=True) == 1


def _insert_few(rows: Sequence[Model], *, ignore_conflicts: bool) -> int:
    used, model = connection(), type(rows[0])
    fields = _stored(model)
    values = [field.get_db_prep_save(field.pre_save(row, add=True), used) for row in rows for field in fields]
    with used.cursor() as cursor:
        cursor.execute(_insert(used.vendor, model, len(rows), ignore_conflicts), values)
        count = int(cursor.rowcount)
    for row in rows:
        row._state.adding, row._state.db = False, used.alias
    return count


@lru_cache(maxsize=KEPT)
def _stored(model: type[Model]) -> tuple[Any, ...]:
    """Return the columns that an insert names: all but a key that the database counts."""
    fields: Any = model._meta.concrete_fields
    return tuple(field for field in fields if field is not model._meta.auto_field)


@lru_cache(maxsize=KEPT)
def _insert(vendor: str, model: type[Model], count: int, ignore_conflicts: bool) -> str:
    fields, ops = _stored(model), connection().ops
    conflict = OnConflict.IGNORE if ignore_conflicts else None
    columns = ", ".join(ops.quote_name(field.column) for field in fields)
    row = f"({', '.join(['%s'] * len(fields))})"
    into = f"{ops.insert_statement(on_conflict=conflict)} {ops.quote_name(model._meta.db_table)} ({columns})"
    suffix = ops.on_conflict_suffix_sql(fields, conflict, (), ())
    return f"{into} VALUES {', '.join([row] * count)} {suffix}".rstrip()


# Queries of rows compiled once, model instances or tuples, read as the ORM reads them: times, JSON and all.

Reader = Callable[[Sequence[Any], BaseDatabaseWrapper], T]


@frozen
class ParameterSlot:
    """The place of a value among a statement's parameters."""

    name: str
    field: Field[Any, Any] | None = None
    stored: bool = False
    """Whether the value is stored; else it is compared with."""


class Placeholder(Value):
    """A value that a query gets when it is executed. ``field``: the column it is stored in or compared with; without
    one the database takes the value as it is.
    """

    def __init__(self, name: str, field: Any = None) -> None:
        super().__init__(ParameterSlot(name=name, field=field))

    def __str__(self) -> str:
        """Raise ``TypeError``: a look-up that takes no expression would compare with this text, and find nothing."""
        raise TypeError(f"This look-up takes no placeholder ({self.value.name}): compare with it by exact")

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, Any]:
        """Return a placeholder, with its slot as the parameter."""
        return "%s", (replace(self.value, stored=self.for_save),)


class Literally(Lookup):
    """A column and what is said of it in SQL, such as ``> ''``: so that SQLite knows that a partial index applies.

    No ``Func``: from Django 6.1 on SQLite is asked whether that ``= True``, which no index answers.
    """

    prepare_rhs = False

    def __init__(self, column: Any, said: Any) -> None:
        super().__init__(F(column) if isinstance(column, str) else column, said)

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, Any]:
        """Return the condition."""
        column, params = compiler.compile(self.lhs)
        return f"{column} {self.rhs}", params


class Among(Literally):
    """Whether a column has one of many values, which are one parameter: a list, given for a placeholder."""

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, Any]:
        """Return the condition; SQLite reads the values from a JSON list."""
        column, params = compiler.compile(self.lhs)
        values, given = compiler.compile(self.rhs)
        among = f"IN (SELECT value FROM json_each({values}))" if connection.vendor == "sqlite" else f"= ANY({values})"  # noqa: S608
        return f"{column} {among}", (*params, *given)


@frozen
class RowStatement(Generic[T]):
    """A query of rows as SQL. ``sql`` is empty where the query can find nothing."""

    sql: str
    params: tuple[Any, ...] = ()
    read: Reader[T] | None = None

    def all(self, **given: Any) -> Iterator[T]:
        """Yield what the query finds now, with these values for its placeholders: among no values, nothing."""
        if not self.sql or self.read is None or [] in given.values():
            return
        used = connection()
        with used.cursor() as cursor:
            cursor.execute(self.sql, filled(self.params, given, used))
            rows = cursor.fetchall()
        for row in rows:
            yield self.read(row, used)

    def first(self, **given: Any) -> T | None:
        """Return the first of them; None if there is none. For look-ups by a key: it reads all."""
        return next(self.all(**given), None)


def filled(params: Sequence[Any], given: dict[str, Any], used: BaseDatabaseWrapper) -> list[Any]:
    """Return a statement's parameters with the given values in their slots, as they go to the database."""
    values = list(params)
    for place, slot in enumerate(params):
        if isinstance(slot, ParameterSlot):
            values[place] = value = given[slot.name]
            if slot.field is not None:
                prepare = slot.field.get_db_prep_save if slot.stored else slot.field.get_db_prep_value
                values[place] = prepare(value, used)
            elif isinstance(value, list):
                values[place] = one_parameter(value, used)
    return values


def one_parameter(values: Collection[str], used: BaseDatabaseWrapper) -> Any:
    """Return many texts as the one parameter that ``Among`` compares with; text that no row can have finds nothing."""
    known = [findable(value) for value in values]
    return json.dumps(known) if used.vendor == "sqlite" else known


def compiled_rows(build: Callable[..., QuerySet[Any, T]]) -> Callable[..., RowStatement[T]]:
    """Decorate a function that returns a query of rows so that it returns the query's statement, kept per arguments as
    by ``compiled``. Model rows may have ``select_related`` and annotations; of ``values`` they are dicts, else tuples.
    """

    def as_sql(rows: Any) -> RowStatement[T]:
        compiler = rows.query.get_compiler(using := alias())
        try:
            sql, params = compiler.as_sql()
        except EmptyResultSet:
            return RowStatement(sql="")
        return RowStatement(sql=sql, params=tuple(params), read=_reader_of(compiler, using, rows._iterable_class))

    return _kept(build, as_sql)


def _reader_of(compiler: Any, using: str, kind: type) -> Reader[Any]:
    """Return what makes of a row what the queryset would: an instance, a dict or a tuple."""
    select, found = compiler.select, compiler.klass_info
    converters = tuple(
        (place, *pair) for place, pair in compiler.get_converters([column[0] for column in select]).items()
    )

    def converted(row: Sequence[Any], used: BaseDatabaseWrapper) -> list[Any]:
        values = list(row)
        for place, converts, expression in converters:
            for convert in converts:
                values[place] = convert(values[place], expression, used)
        return values

    if kind is ValuesIterable:
        return lambda row, used: dict(zip(compiler.query.selected, converted(row, used), strict=True))
    if kind is not ModelIterable:
        return lambda row, used: tuple(converted(row, used))
    # As Django's ModelIterable does it for each row.
    model, fields = found["model"], found["select_fields"]
    start, end = fields[0], fields[-1] + 1
    names = [column[0].target.attname for column in select[start:end]]
    related = get_related_populators(found, select, using, *FETCH_MODE)
    annotated = tuple((compiler.annotation_col_map or {}).items())

    def read(row: Sequence[Any], used: BaseDatabaseWrapper) -> Any:
        values = converted(row, used)
        made = model.from_db(using, names, values[start:end])
        for populator in related:
            populator.populate(values, made)
        for name, place in annotated:
            setattr(made, name, values[place])
        return made

    return read
