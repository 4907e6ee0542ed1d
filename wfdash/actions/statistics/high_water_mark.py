"""High-water mark: the event id below which no further event can be committed.

SQLite has one writer, so ids are committed in order. A transaction of PostgreSQL takes an id before it commits: a later
id may become visible earlier, and a reader that trusted what it sees would skip the earlier one.
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
    """The mark of one sweeper. It never goes back."""

    def __init__(self, using: str = DEFAULT_DB_ALIAS) -> None:
        self._using = using
        self._safe = 0
        self._pending: tuple[int, int] | None = None
        """An id, and the first transaction that can have taken none up to it."""

    def current(self) -> int:
        """Return the id up to which no event can appear any more; 0 at first if none is known yet (one query)."""
        if connections[self._using].vendor == "sqlite":
            return Event.objects.using(self._using).aggregate(last=Max("pk"))["last"] or 0
        self._read_transactions()
        return self._safe

    def _read_transactions(self) -> None:
        """Read the last id and the oldest running transaction.

        Every writer has changed its run before it takes an id, so it has a transaction number by then. The last id seen
        when a certain number was the next one is settled once no lower number is in progress.
        """
        ((last, following, oldest),) = run_statement(connections[self._using], SNAPSHOT)
        if oldest >= following:
            self._safe, self._pending = last, None
            return
        if self._pending is not None and oldest >= self._pending[1]:
            self._safe, self._pending = self._pending[0], None
        if self._pending is None:
            self._pending = (last, following)
