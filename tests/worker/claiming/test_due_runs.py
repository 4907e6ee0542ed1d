"""Batches of due runs as one worker claims them, by its room, its pace and its turns; the storage is a double."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError

from checkpoints.rules import Priority
from checkpoints.sql.claims import DueLook
from checkpoints.storage import Serves
from wfdash.telemetry.logs import is_outage
from wfdash.worker import due_runs
from wfdash.worker.drive import Lease
from wfdash.worker.due_runs import CLAIM_SECONDS, RUNS_PER_CLAIM, DueRuns, look_limit


class Backlog:
    """A storage with so many due runs."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def now(self) -> datetime:
        return datetime.fromtimestamp(0, UTC)

    async def claim_due(self, *, limit: int, runs: Any = None, **asked: Any) -> list[SimpleNamespace]:
        self.asked.append({"limit": limit, "runs": runs, **asked})
        if self.error is not None:
            raise self.error
        count = min(limit, self.count)
        self.count -= count
        return [SimpleNamespace(run=f"{len(self.asked)}.{n}") for n in range(count)]


class Worker:
    """A worker with so much room; it begins what it is given at once, unless it is ``slow``."""

    def __init__(self, backlog: Backlog, room: int = 500, *, slow: bool = False) -> None:
        self.backlog, self.room, self.slow = backlog, room, slow
        self.begun: list[str] = []
        self.may_be_seldom = False
        self.shared = 0
        found: Any = backlog
        self.due = DueRuns(
            found,
            worker="w",
            ttl=10,
            room=lambda: self.room - len(self.begun),
            serves=lambda: Serves(workflows=("expense",)),
            takes_over=lambda: True,
            begin=self.begin,
            may_be_seldom=lambda: self.may_be_seldom,
            share=self.share,
        )

    def share(self) -> None:
        self.shared += 1

    def begin(self, claim: Any, since: float) -> None:
        self.begun.append(claim.run)
        if not self.slow:
            self.due.begun(claim.run)

    async def look(self, **found: Any) -> None:
        """Look as a worker does."""
        await self.due.look(DueLook(self.backlog.now(), is_any_due=self.backlog.count > 0, **found))

    async def rest(self, until: Callable[[], object]) -> None:
        """Rest until that holds, long before the next look."""
        resting = asyncio.ensure_future(self.due.rest(asyncio.Event()))
        while not until():
            assert not resting.done()
            await asyncio.sleep(0)
        resting.cancel()


@pytest.fixture(autouse=True)
def seldom(monkeypatch) -> None:
    monkeypatch.setattr(due_runs, "LOOK_SECONDS", 3600)


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 30))  # type: ignore[arg-type]


def test_an_idle_look_claims_nothing() -> None:
    async def story() -> None:
        worker = Worker(Backlog(0))
        await worker.look()
        assert worker.backlog.asked == []

    run(story)


def test_a_full_worker_asks_for_nothing() -> None:
    async def story() -> None:
        worker = Worker(Backlog(1), room=0)
        await worker.look()
        assert (worker.backlog.asked, worker.begun) == ([], [])

    run(story)


def test_what_is_due_is_claimed_by_the_look_that_finds_it_and_a_backlog_without_another_read() -> None:
    async def story() -> None:
        worker = Worker(Backlog(RUNS_PER_CLAIM + 3))
        await worker.look()
        assert worker.begun == [f"1.{n}" for n in range(RUNS_PER_CLAIM)]
        await worker.due.look(DueLook(worker.backlog.now()))
        assert len(worker.begun) == RUNS_PER_CLAIM + 3

    run(story)


def test_a_backlog_is_claimed_in_batches_as_fast_as_they_are_begun() -> None:
    async def story() -> None:
        worker = Worker(Backlog(3 * RUNS_PER_CLAIM + 5))
        await worker.look()
        assert len(worker.begun) == RUNS_PER_CLAIM
        await worker.rest(lambda: len(worker.begun) == 3 * RUNS_PER_CLAIM + 5)
        assert [asked["limit"] for asked in worker.backlog.asked] == [RUNS_PER_CLAIM] * 4

    run(story)


def test_the_next_batch_waits_for_runs_that_have_not_begun_but_not_long(monkeypatch) -> None:
    monkeypatch.setattr(due_runs, "BEGIN_SECONDS", 0.02)

    async def story() -> None:
        worker = Worker(Backlog(2 * RUNS_PER_CLAIM), slow=True)
        began = time.monotonic()
        await worker.look()
        await worker.rest(lambda: len(worker.begun) == 2 * RUNS_PER_CLAIM)
        assert time.monotonic() - began >= 0.02

    run(story)


def test_a_worker_never_claims_more_than_it_has_room_for() -> None:
    async def story() -> None:
        worker = Worker(Backlog(100), room=RUNS_PER_CLAIM + 3)
        await worker.look()
        await worker.rest(lambda: len(worker.begun) == RUNS_PER_CLAIM + 3)
        worker.room += 2
        worker.due.begun("an earlier one")
        await worker.rest(lambda: len(worker.begun) == RUNS_PER_CLAIM + 5)
        assert [asked["limit"] for asked in worker.backlog.asked] == [RUNS_PER_CLAIM, 3, 2]

    run(story)


def test_some_batches_of_a_backlog_leave_out_what_is_more_important() -> None:
    async def story() -> None:
        worker = Worker(Backlog(33 * RUNS_PER_CLAIM), room=40 * RUNS_PER_CLAIM)
        await worker.look()
        await worker.rest(lambda: not worker.backlog.count)
        most = [asked["most"] for asked in worker.backlog.asked]
        assert [place for place, one in enumerate(most) if one == Priority.STARTED] == [8, 24]
        assert [place for place, one in enumerate(most) if one == Priority.TIMED] == [16, 32]

    run(story)


def test_hinted_runs_are_claimed_together_and_doubled_hints_once() -> None:
    async def story() -> None:
        worker: Any = Worker(Backlog(3))
        for hinted in ("r1", "r2", "r1"):
            worker.due.hint(hinted)
        await asyncio.sleep(0.01)
        assert [asked["runs"] for asked in worker.backlog.asked] == [["r1", "r2"]]
        worker.due.hint("r3")
        await worker.due.aclose()
        assert len(worker.backlog.asked) == 1, "a worker that ends claims nothing more"

    run(story)


def test_a_claim_that_fails_leaves_the_room_and_the_next_look_claims(caplog) -> None:
    async def story() -> None:
        worker: Any = Worker(Backlog(2), room=2)
        worker.backlog.error = ConnectionError("the database is away")
        worker.due.hint("r1")
        await asyncio.sleep(0.01)
        assert "they will be found" in caplog.text
        worker.backlog.error = None
        await worker.look()
        assert len(worker.begun) == 2

    run(story)


def test_a_backlog_is_shared_once_and_less_than_a_batch_is_not() -> None:
    async def story() -> None:
        worker = Worker(Backlog(RUNS_PER_CLAIM - 1))
        await worker.look()
        assert worker.shared == 0
        worker.backlog.count = 5 * RUNS_PER_CLAIM
        for _ in range(3):
            await worker.look()
        assert worker.shared == 1
        await worker.rest(lambda: not worker.backlog.count)
        await worker.look()
        worker.backlog.count = 2 * RUNS_PER_CLAIM
        await worker.look()
        assert worker.shared == 2

    run(story)


def test_what_a_full_worker_cannot_take_is_shared() -> None:
    async def story() -> None:
        worker = Worker(Backlog(3), room=0)
        await worker.look()
        assert (worker.shared, worker.begun) == (1, [])

    run(story)


def test_a_worker_that_rests_looks_at_once_when_another_has_found_a_backlog_and_does_not_share_it_again() -> None:
    async def story() -> None:
        worker = Worker(Backlog(0))
        await worker.look()
        resting = asyncio.ensure_future(worker.due.rest(asyncio.Event()))
        await asyncio.sleep(0)
        worker.due.join()
        await asyncio.wait_for(resting, 5)
        worker.backlog.count = 2 * RUNS_PER_CLAIM
        await worker.look()
        assert (worker.shared, len(worker.begun)) == (0, RUNS_PER_CLAIM)
        worker.due.join()
        await worker.rest(lambda: not worker.backlog.count)

    run(story)


async def test_a_database_that_does_not_answer_is_an_outage_and_it_is_said_for_how_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(due_runs, "CLAIM_SECONDS", 0.02)
    with pytest.raises(OperationalError, match=r"^no answer for 0 s$") as raised:
        async with look_limit():
            await asyncio.sleep(60)
    assert is_outage(raised.value)


def test_what_a_look_claimed_at_its_beginning_has_expired_when_it_is_given_up() -> None:
    assert Lease().ttl < CLAIM_SECONDS


SOON = datetime.fromtimestamp(2, UTC)


@pytest.mark.parametrize(
    ("heard", "found", "hinted", "seldom"),
    [
        (True, {}, False, True),
        (False, {}, False, False),
        (True, {"expiry": SOON}, False, False),
        (True, {"wake": SOON}, False, False),
        (True, {"suspects": ("r1",)}, False, False),
        (True, {}, True, False),
    ],
)
def test_a_worker_looks_seldom_only_while_nothing_can_become_due_unheard(
    monkeypatch, heard: bool, found: dict[str, Any], hinted: bool, seldom: bool
) -> None:
    monkeypatch.setattr(due_runs, "LOOK_SECONDS", 0.01)

    async def story() -> None:
        worker: Any = Worker(Backlog(0))
        worker.may_be_seldom = heard
        await worker.look(**found)
        resting = asyncio.ensure_future(worker.due.rest(asyncio.Event()))
        await asyncio.sleep(0)
        if hinted:
            worker.due.hint("r1")
        await asyncio.wait({resting}, timeout=0.1 if seldom else 5)
        assert resting.done() is not seldom
        resting.cancel()

    run(story)
