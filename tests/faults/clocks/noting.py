"""``manage.py work`` with a short lease, a note of every commit it made, and maybe a wrong clock.

Run as ``python -m tests.faults.clocks.noting '{"notes": FILE, "ttl": 2.0, "heartbeat": 0.5, "shift": 0.0}'``.
"""

from __future__ import annotations

import datetime as clocks
import json
import os
import signal
import sys
from typing import Any

from tests.faults.ledger import write_line


def shift_clock(seconds: float) -> None:
    """Make this process's wall clock wrong, for all who ask ``datetime``; ``time.monotonic`` stays right.

    On SIGUSR1 it jumps to the opposite error.
    """
    real, error = clocks.datetime, [seconds]
    signal.signal(signal.SIGUSR1, lambda *_: error.append(-error.pop()))

    class Shifted(real):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real.now(tz) + clocks.timedelta(seconds=error[0])

    for name in (
        "checkpoints.database.storage",
        "checkpoints.sql.storage",
        "checkpoints.recorder",
        "wfdash.workflow.runtime.recorders",
    ):
        module = sys.modules.get(name)
        if hasattr(module, "datetime"):
            module.datetime = Shifted  # type: ignore[union-attr]


def note_commits(path: str) -> None:
    """Append run, seq, epoch and process of each commit that succeeded under a claim."""
    from checkpoints.database.storage import DatabaseStorage

    plain = DatabaseStorage.commit

    async def commit(self: DatabaseStorage, commit: Any, *, claim: Any = None) -> int:
        seq = await plain(self, commit, claim=claim)
        if claim is not None:
            n = commit.checkpoint.n if commit.checkpoint else 0
            write_line(path, run=commit.run, seq=seq, n=n, epoch=claim.epoch, pid=os.getpid())
        return seq

    DatabaseStorage.commit = commit  # type: ignore[method-assign]


def main(notes: str, ttl: float, heartbeat: float, shift: float) -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from wfdash.worker import worker
    from wfdash.worker.drive import Lease

    note_commits(notes)
    if shift:
        shift_clock(shift)
    worker.Lease = lambda: Lease(ttl=ttl, heartbeat=heartbeat)  # type: ignore[assignment,misc]
    # As much shorter as the lease is: a supervised worker that waits ten seconds for each suspect fills a minute.
    worker.STEADY_SECONDS = min(worker.STEADY_SECONDS, 2 * ttl)
    call_command("work")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
