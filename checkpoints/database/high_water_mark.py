"""High-water mark: the event id below which no further event can be committed.

SQLite has one writer, so ids are committed in order. A transaction of PostgreSQL takes an id before it commits: a later
id may become visible earlier, and a reader that trusted what it sees would skip the earlier one.
"""

from __future__ import annotations

import time
from threading import Lock

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.models import Max

from checkpoints.database.alias import alias, atomic
from checkpoints.database.storage import run_statement
from checkpoints.models import Event, TallyMark

TABLE = Event._meta.db_table
LOOK = (
    f"SELECT coalesce(max(id), 0), ARRAY(SELECT DISTINCT virtualtransaction FROM pg_locks"  # noqa: S608
    f" WHERE locktype = 'relation' AND relation = '{TABLE}'::regclass AND mode = 'RowExclusiveLock' AND granted"
    f" AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    f" AND pid IS DISTINCT FROM pg_backend_pid()) FROM {TABLE}"
)
"""The last id, and then who writes events.

A transaction that inserts has the table's lock before the id is taken and until after the commit is visible. Snapshots
do not show that: their ``xmax`` follows the last transaction that has ended, and one that runs may have a later number.
"""
SEQUENCES = {
    "sqlite": f"SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = '{TABLE}'",  # noqa: S608
    "postgresql": f"SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('{TABLE}', 'id')::regclass), 0)",
}
STATISTICS = 1
"""The row of marks up to which statistics have counted."""
WEBHOOKS = 2
"""The row up to which what webhooks are sent was written."""
ROLLUPS = 3
"""The row of marks up to which their roll-ups have what was counted."""
LOOKS, BREATH = 5, 0.01
"""How often a single read looks, and seconds between two looks."""


def refuse_hidden_writers() -> None:
    """Raise ``ImproperlyConfigured`` where ``pg_locks`` does not show who writes: events would be skipped silently.

    Some stores that speak PostgreSQL's protocol show there a part of the locks, or none.
    """
    if connections[alias()].vendor == "sqlite":
        return
    with atomic(), connections[alias()].cursor() as cursor:
        cursor.execute(f"LOCK TABLE {TABLE} IN ROW EXCLUSIVE MODE")
        cursor.execute(LOOK.replace("pid IS DISTINCT FROM", "pid ="))
        if not cursor.fetchone()[1]:
            raise ImproperlyConfigured(
                "pg_locks of this database does not show which transactions write events, so that some would never be"
                " seen. Use PostgreSQL itself, or a store that is built on its server"
            )


def last_id(using: str | None = None) -> int:
    """Return the highest id that an event was ever given, whether it still exists or not (one query)."""
    connection = connections[using or alias()]
    ((found,),) = run_statement(connection, SEQUENCES[connection.vendor])
    return int(found)


def settled_id(using: str | None = None) -> int:
    """Return an id up to which no event can appear any more, for a single read: the last one if the writers of this
    moment commit soon, else what statistics have counted.

    One query, on PostgreSQL up to six while others write.
    """
    mark = HighWaterMark(using)
    found = mark.current()
    for _ in range(LOOKS - 1):
        if not mark.waits:
            return found
        time.sleep(BREATH)
        found = mark.current()
    counted = TallyMark.objects.using(using or alias()).filter(pk=STATISTICS).values_list("event", flat=True).first()
    return max(found, counted or 0)


class HighWaterMark:
    """The mark of one reader, for any of its threads. It never goes back."""

    def __init__(self, using: str | None = None) -> None:
        self._using = using or alias()
        self._settled = 0
        self._lock = Lock()
        self._pending: tuple[int, frozenset[str]] | None = None
        """An id, and the transactions that may still add events up to it."""

    @property
    def waits(self) -> bool:
        """Return whether there were later events at the last look, which other transactions held up."""
        return self._pending is not None and self._pending[0] > self._settled

    def current(self) -> int:
        """Return the id up to which no event can appear any more, 0 if none is known (one query).

        Read the events afterwards: what ended during the look is not in its snapshot.
        """
        if connections[self._using].vendor == "sqlite":
            return Event.objects.using(self._using).aggregate(last=Max("pk"))["last"] or 0
        with self._lock:
            ((last, found),) = run_statement(connections[self._using], LOOK)
            self._take(last, frozenset(found))
            return self._settled

    def _take(self, last: int, writing: frozenset[str]) -> None:
        if self._pending is not None and not writing & self._pending[1]:
            self._settle(self._pending[0])
        if not writing:
            self._settle(last)
        elif self._pending is None:
            self._pending = last, writing

    def _settle(self, last: int) -> None:
        self._settled, self._pending = max(self._settled, last), None
