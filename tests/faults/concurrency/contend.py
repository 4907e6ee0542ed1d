"""A bare worker that wants one run for itself: claims it, commits as fast as it can until it is told that it lost it.

Run as ``python -m tests.faults.concurrency.contend '{"run": ID, "notes": FILE, "ttl": 0.3}'``; it ends by being killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from tests.faults.ledger import write_line

PATIENCE = 0.5
"""Seconds PostgreSQL keeps what a frozen process has locked; shorter than in earnest, as is the lease."""


async def contend(run: str, notes: str, ttl: float) -> None:
    """Claim and commit forever. Every commit leaves its epoch in an event: the table itself tells who wrote when."""
    from checkpoints.database.storage import DatabaseStorage
    from checkpoints.errors import ClaimLost, StorageFailed
    from checkpoints.ids import RunId

    storage, me, run_id = DatabaseStorage(), os.getpid(), RunId(run)
    while True:
        claim = None
        try:
            claim = await storage.claim(run_id, worker=f"contend:{me}", ttl=ttl)
            n = (await storage.read_run(run_id)).n if claim is not None else 0
            while claim is not None:
                n += 1
                await storage.commit(commit_of(run_id, n, claim.epoch), claim=claim)
        except (ClaimLost, StorageFailed):
            if claim is not None:
                write_line(notes, pid=me, lost=claim.epoch)
        await asyncio.sleep(0.005)


def commit_of(run: object, n: int, epoch: int) -> object:
    from checkpoints.events import EventKind
    from checkpoints.ids import WorkflowId, new_checkpoint_id
    from checkpoints.recorder import utc_now
    from checkpoints.records import Checkpoint, Commit

    named = {"id": new_checkpoint_id(), "run": run, "workflow": WorkflowId("w"), "version": "v"}
    step = Checkpoint(**named, n=n, created=utc_now(), body={"state": {"n": n}, "position": {}})
    return Commit(
        run=run, checkpoint=step, events=(EventKind.CUSTOM.draft(name="step", data={"epoch": epoch, "n": n}),)
    )


def main() -> None:
    import django

    django.setup()
    from checkpoints.sql import postgres_scripts

    postgres_scripts.IDLE_IN_TRANSACTION_TIMEOUT = postgres_scripts.TRANSACTION_TIMEOUT = PATIENCE
    asyncio.run(contend(**json.loads(sys.argv[1])))


if __name__ == "__main__":
    main()
