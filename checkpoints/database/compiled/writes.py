"""Rows written by statements that were compiled once, for actions that write several.

The ORM's own ``create()`` and ``update()`` take longer to build their SQL than a database to execute it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any

from django.db.models import Model, QuerySet
from django.db.models.constants import OnConflict
from django.db.models.sql import UpdateQuery

from checkpoints.database.alias import alias, connection
from checkpoints.database.compiled.rows import filled
from checkpoints.database.compiled.values import KEPT

Update = tuple[QuerySet[Any], Mapping[str, Any]]
"""Which rows to update, and their new values."""
FEW = 8
"""Rows up to which a statement of its own is kept for each number of them."""


@dataclass(frozen=True, kw_only=True)
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

    @lru_cache(maxsize=KEPT)
    def kept(vendor: str, *key: Hashable) -> UpdateStatement:
        found, changes = build(*key)
        query: Any = found.query.chain(UpdateQuery)
        query.add_update_values(dict(changes))
        sql, params = query.get_compiler(alias()).as_sql()
        return UpdateStatement(sql=sql, params=tuple(params))

    return wraps(build)(lambda *key: kept(connection().vendor, *key))


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
        row._state.adding, row._state.db = False, alias()
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
