"""A play in which SQLite itself refuses every write for a while (``query_only``), as on a read-only filesystem."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Any

from tests.faults import plays

WORD = "attempt to write a readonly database"
LEASE = {"ttl": 1.0, "heartbeat": 0.3}


def drive_while_read_only(runs: list[str], ledger: str, flag: str) -> dict[str, Any]:
    """Drive runs; once they are under way refuse writes, try a verb, and allow them again. Returns what was seen."""
    from checkpoints.models import Run
    from wfdash.worker import worker
    from wfdash.worker.drive import Lease

    _obey(Path(flag))
    words = _listen()
    worker.Lease = lambda: Lease(**LEASE)  # type: ignore[assignment,misc]

    def seqs() -> list[int]:
        return list(Run.objects.order_by("pk").values_list("seq", flat=True))

    began = seqs()
    with plays.working():
        plays.wait_for(lambda: min(map(int.__sub__, seqs(), began)) > 3)
        Path(flag).touch()
        plays.wait_for(lambda: any("Database unavailable for run" in word and WORD in word for word in words))
        before, refused = seqs(), _try_a_verb(ledger)
        plays.wait_for(lambda: sum("Could not look for due runs" in word for word in words) >= 2)
        after = seqs()
        Path(flag).unlink()
        plays.wait_for(lambda: plays.phases(runs) <= {"completed", "failed"})
    return {"before": before, "after": after, "refused": refused, "phases": sorted(plays.phases(runs))}


def _obey(flag: Path) -> None:
    """Make every transaction of the writer read-only while the flag is there."""
    from checkpoints.sql import sqlite

    class Obeying(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql.startswith("BEGIN"):
                super().execute(f"PRAGMA query_only={int(flag.exists())}").close()
            return super().execute(sql, *parameters)

    plain = sqlite3.connect
    patched = type("Patched", (), {"__getattr__": lambda self, name: getattr(sqlite3, name)})()
    patched.connect = lambda path, **given: plain(path, **given, factory=Obeying)
    sqlite.sqlite3 = patched  # type: ignore[misc,assignment]


def _listen() -> list[str]:
    """Return a list that grows with what the worker says."""
    words: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: words.append(handler.format(record))  # type: ignore[method-assign]
    logging.getLogger("wfdash.worker").addHandler(handler)
    return words


def _try_a_verb(ledger: str) -> list[Any]:
    """Start a run as a door does; returns what the door would answer, and why."""
    from django.db import connection

    from wfdash.domain.errors import status_for

    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only=1")
    try:
        plays.start("chain", 1, ledger)
    except Exception as error:
        return [status_for(error), str(error)]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA query_only=0")
    return [201, ""]
