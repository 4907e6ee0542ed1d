"""``rate=``: how often a step may start, over all runs and processes of a storage."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from checkpoints.file import FileStorage
from checkpoints.ids import new_run_id
from tests.conformance.worlds import AnyWorld
from tests.workflow.world import finished
from wfdash.workflow import Workflow, each, gather
from wfdash.workflow.errors import InvalidWorkflow

EVERY, MILLISECOND = 0.1, 0.001  # SQLite counts those.


async def test_a_turn_that_was_taken_comes_again_by_itself_in_its_time(world: AnyWorld) -> None:
    name = f"paying/{new_run_id()}"
    assert await world.storage.take_turn(name, EVERY) == 0
    assert 0 < await world.storage.take_turn(name, EVERY) <= EVERY, "whoever took it may be dead by now"
    assert await world.storage.take_turn(f"{name}x", EVERY) == 0
    await asyncio.sleep(EVERY)
    assert await world.storage.take_turn(name, EVERY) == 0


def paced(starts: list[float], rate: str = "600/m") -> Workflow[list[int]]:
    wf = Workflow[list[int]](f"w-{new_run_id()}")

    @wf.step(start=True)
    async def split(orders: list[int]) -> list[int]:
        return orders

    @wf.step(after=each(split), rate=rate, timeout=0.05)
    async def look(order: int) -> int:
        starts.append(time.monotonic())
        return order

    @wf.step(after=gather(look))
    async def end(found: list[int]) -> int:
        return sum(found)

    return wf


async def test_runs_of_all_processes_keep_to_it_together_and_none_that_gives_up_costs_a_turn(tmp_path: Path) -> None:
    starts: list[float] = []
    wf, path = paced(starts), tmp_path / "runs.sqlite3"
    began = time.monotonic()
    # Each storage has connections of its own, as another process has.
    async with FileStorage(path) as one, FileStorage(path) as other:
        left = asyncio.create_task(wf.run([9] * 50, storage=one))
        first = asyncio.create_task(wf.run([1, 2], storage=one))
        second = asyncio.create_task(wf.run([3, 4, 5], storage=other))
        await asyncio.sleep(EVERY)
        left.cancel()
        assert finished(await first) + finished(await second) == 15
    assert starts[-1] - began > (len(starts) - 1) * (EVERY - MILLISECOND)
    assert len(starts) < 40


async def test_without_a_storage_the_process_keeps_to_it() -> None:
    began, starts = time.monotonic(), list[float]()
    assert finished(await paced(starts).run([1, 2, 3])) == 6
    assert starts[-1] - began >= 2 * EVERY


@pytest.mark.parametrize("rate", ["60", "0/m", "60/min", "-1/s", "1.5/s", " 1/s", "9999999/s", 60])
def test_what_is_no_rate_is_refused_with_the_step_and_how_to_write_one(rate: str) -> None:
    with pytest.raises(InvalidWorkflow, match=r"of a step of w-.*: write its starts .* such as 60/m"):
        paced([], rate)
