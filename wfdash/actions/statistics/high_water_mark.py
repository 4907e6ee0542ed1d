"""Up to which event everything that will ever be there is there.

SQLite has one writer, so ids are committed in their order. A transaction of PostgreSQL takes an id before it ends: a
later id may be seen earlier, and a reader that went by what it sees would skip the earlier one.
"""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Max

from checkpoints.database.storage import run_statement
from checkpoints.models import Event

SNAPSHOT = (
    f"SELECT coalesce(max(id), 0), pg_snapshot_xmax(pg_current_snapshot())::text::bigint,"  # noqa: S608
    f" pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM {Event._meta.db_table}"
)


class HighWaterMark:
    """Belongs to one sweeper. What it returned once stays true."""

    def __init__(self, using: str = DEFAULT_DB_ALIAS) -> None:
        self._using = using
        self._safe = 0
        self._pending: tuple[int, int] | None = None
        """An id, and the first transaction that can have taken none up to it."""

    def current(self) -> int:
        """Return the id up to which no event can turn up any more; 0 at first if nobody knows yet (one query)."""
        if connections[self._using].vendor == "sqlite":
            return Event.objects.using(self._using).aggregate(last=Max("pk"))["last"] or 0
        self._look()
        return self._safe

    def _look(self) -> None:
        """Every writer has changed its run before it takes an id, so it has a number by then.

        What was the last id when a certain number was the next one is settled once no lower number is under way.
        """
        ((last, following, oldest),) = run_statement(connections[self._using], SNAPSHOT)
        if oldest >= following:
            self._safe, self._pending = last, None
            return
        if self._pending is not None and oldest >= self._pending[1]:
            self._safe, self._pending = self._pending[0], None
        if self._pending is None:
            self._pending = (last, following)
