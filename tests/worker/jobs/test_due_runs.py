"""What a worker asks its storage when it looks for due runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checkpoints import ids
from checkpoints.ids import RunId
from checkpoints.records import Claim
from checkpoints.storage import Serves
from wfdash.worker.due_runs import BATCH, DueRuns

SERVES = Serves(workflows=("refund",), others=())


class Shelf:
    """A storage with a number of runs that are due; keeps what it was asked."""

    def __init__(self, due: int) -> None:
        self.waiting = [ids.new_run_id() for _ in range(due)]
        self.asked: list[str] = []

    async def due(self, *, limit: int, suspect: bool | None, serves: Serves) -> Sequence[RunId]:
        assert (suspect, serves) == (False, SERVES)
        self.asked.append("read")
        return self.waiting[:limit]

    async def claim_due(self, *, worker: str, ttl: float, limit: int, **_: Any) -> Sequence[Claim]:
        self.asked.append("claim")
        found, self.waiting = self.waiting[:limit], self.waiting[limit:]
        at = ids.new_run_id()
        return [Claim.model_construct(run=run, token=at, worker=worker, epoch=1, ttl=ttl) for run in found]


def look_for(shelf: Shelf, *, room: int = 100) -> tuple[DueRuns, list[RunId]]:
    """Return what looks for the runs of a shelf, and the list of those that it begins."""
    begun: list[RunId] = []
    storage: Any = shelf
    looks = DueRuns(
        storage,
        worker="w",
        ttl=10,
        room=lambda: room - len(begun),
        serves=lambda: SERVES,
        takes_over=lambda: True,
        begin=lambda claim, since: begun.append(claim.run),
    )
    return looks, begun


async def test_an_idle_worker_only_reads() -> None:
    shelf = Shelf(due=0)
    looks, begun = look_for(shelf)
    await looks.look()
    await looks.look()
    assert (shelf.asked, begun) == (["read", "read"], [])


async def test_what_is_due_is_claimed_by_the_look_that_finds_it() -> None:
    shelf = Shelf(due=3)
    due = list(shelf.waiting)
    looks, begun = look_for(shelf)
    await looks.look()
    assert begun == due
    assert shelf.asked == ["read", "claim"]


async def test_a_look_at_a_backlog_claims_without_reading_first() -> None:
    shelf = Shelf(due=2 * BATCH)
    looks, begun = look_for(shelf)
    await looks.look()
    await looks.look()
    assert shelf.asked == ["read", "claim", "claim"]
    assert len(begun) == 2 * BATCH


async def test_a_full_worker_asks_for_nothing() -> None:
    shelf = Shelf(due=1)
    looks, begun = look_for(shelf, room=0)
    await looks.look()
    assert (shelf.asked, begun) == ([], [])
