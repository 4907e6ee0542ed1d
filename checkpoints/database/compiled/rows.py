"""Queries of rows compiled once, model instances or tuples, read as the ORM reads them: times, JSON and all.

A query's text depends on how it is built; what changes from call to call is a ``Placeholder`` in it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import Any, Generic, TypeVar

from django.core.exceptions import EmptyResultSet
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, QuerySet, Value
from django.db.models.query import ModelIterable, get_related_populators
from django.db.models.sql.compiler import SQLCompiler

from checkpoints.database.alias import alias, connection
from checkpoints.database.compiled.values import KEPT

T = TypeVar("T")
Reader = Callable[[Sequence[Any], BaseDatabaseWrapper], T]


@dataclass(frozen=True, kw_only=True)
class ParameterSlot:
    """The place of a value among a statement's parameters."""

    name: str
    field: Field[Any, Any] | None = None
    stored: bool = False
    """Whether the value is stored; else it is compared with."""

    def value(self, given: dict[str, Any], used: BaseDatabaseWrapper) -> Any:
        """Return the value as it goes to the database."""
        value = given[self.name]
        if self.field is None:
            return value
        return self.field.get_db_prep_save(value, used) if self.stored else self.field.get_db_prep_value(value, used)


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


@dataclass(frozen=True, kw_only=True)
class RowStatement(Generic[T]):
    """A query of rows as SQL. ``sql`` is empty where the query can find nothing."""

    sql: str
    params: tuple[Any, ...] = ()
    read: Reader[T] | None = None

    def all(self, **given: Any) -> Iterator[T]:
        """Yield what the query finds now, with these values for its placeholders."""
        if not self.sql or self.read is None:
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
    """Return a statement's parameters with the given values in their slots."""
    return [one.value(given, used) if isinstance(one, ParameterSlot) else one for one in params]


def compiled_rows(build: Callable[..., QuerySet[Any, T]]) -> Callable[..., RowStatement[T]]:
    """Decorate a function that returns a query of rows so that it returns the query's statement, kept per arguments as
    by ``compiled``. Model rows may have ``select_related`` and annotations; those of ``values_list`` are tuples.
    """

    @lru_cache(maxsize=KEPT)
    def kept(vendor: str, using: str, *key: Hashable) -> RowStatement[T]:
        rows: Any = build(*key)
        models = issubclass(rows._iterable_class, ModelIterable)
        compiler = rows.query.get_compiler(using)
        try:
            sql, params = compiler.as_sql()
        except EmptyResultSet:
            return RowStatement(sql="")
        return RowStatement(
            sql=sql,
            params=tuple(params),
            read=_reader_of(compiler, using, models=models),
        )

    return wraps(build)(lambda *key: kept(connection().vendor, alias(), *key))


def _reader_of(compiler: SQLCompiler, using: str, *, models: bool) -> Reader[Any]:
    """Return what makes of a row what the queryset would: an instance, or a tuple."""
    select, found = compiler.select or [], compiler.klass_info
    converters = tuple(
        (place, *pair) for place, pair in compiler.get_converters([column[0] for column in select]).items()
    )

    def converted(row: Sequence[Any], used: BaseDatabaseWrapper) -> list[Any]:
        values = list(row)
        for place, converts, expression in converters:
            for convert in converts:
                values[place] = convert(values[place], expression, used)
        return values

    if found is None or not models:
        return lambda row, used: tuple(converted(row, used))
    # As Django's ModelIterable does it for each row.
    model, fields = found["model"], found["select_fields"]
    start, end = fields[0], fields[-1] + 1
    names = [column[0].target.attname for column in select[start:end]]
    related = get_related_populators(found, select, using)  # type: ignore[call-arg]
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
