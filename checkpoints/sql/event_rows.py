"""The events of a commit as rows, and the statement that inserts them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeAlias

from checkpoints.content.canonical_json import dumps
from checkpoints.content.encryption import Encryptor
from checkpoints.events import UNENCRYPTED
from checkpoints.ids import RunId
from checkpoints.records import EventDraft
from checkpoints.sql.statements import Dialect, Statement, insert
from checkpoints.sql.tables import EVENT, event_row

StoredEvent: TypeAlias = tuple[str, str | None, str]
"""Kind, step, data as text."""
OWN_TIME = "{least}({greatest}(?, coalesce((SELECT at FROM checkpoints_event WHERE run_id=? AND seq=?), ?)), {{now}})"
"""The time of an event that has one, not before the event before the commit and not after it."""


def stored_events(drafts: Iterable[EventDraft]) -> tuple[StoredEvent, ...]:
    """Return events with their data as text."""
    return tuple([(event.kind, event.step, dumps(event.data).decode()) for event in drafts])


def insert_events(
    dialect: Dialect,
    encryptor: Encryptor,
    run: RunId,
    events: Sequence[StoredEvent],
    times: Sequence[datetime | None],
    last: int,
) -> Statement:
    """Return the statement that inserts a run's events. ``last``: the number of the last one.

    ``times``: the time of each event, None for that of the commit; empty if none has one of its own.
    """
    first = last - len(events) + 1
    params: list[Any] = []
    for seq, (kind, step, data) in enumerate(events, first):
        if encryptor.changes(data):
            data = encryptor.encrypt_document(data, "event", run, str(seq), "data", clear=UNENCRYPTED)
        params += event_row(run, seq, kind, step, data)
        if times and (time := dialect.moment(times[seq - first])) is not None:
            params += (time, run, first - 1, time)
    if times:
        return _timed(dialect, tuple(time is not None for time in times)), tuple(params)
    return _plain(dialect, len(events)), tuple(params)


@lru_cache(maxsize=512)
def _plain(dialect: Dialect, count: int) -> str:
    return dialect.sql(insert("checkpoints_event", EVENT, rows=count, at="{now}"))


@lru_cache(maxsize=512)
def _timed(dialect: Dialect, timed: tuple[bool, ...]) -> str:
    least, greatest = ("min", "max") if dialect.name == "sqlite" else ("least", "greatest")
    own = OWN_TIME.format(least=least, greatest=greatest)
    columns = ", ".join(f'"{name}"' for name in (*EVENT, "at"))
    marks = ",".join(["?"] * len(EVENT))
    rows = ",".join(f"({marks},{own if one else '{now}'})" for one in timed)
    return dialect.sql(f"INSERT INTO checkpoints_event ({columns}) VALUES {rows}")  # noqa: S608
