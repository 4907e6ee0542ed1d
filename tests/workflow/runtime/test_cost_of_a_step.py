"""What a step costs the engine, counted: a clock would judge the machine."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from checkpoints.records import Commit, Record
from tests.conftest import trust
from wfdash.workflow import Context, Workflow
from wfdash.workflow.runtime.recorders import OwnRecorder

MOST_CALLS = 218
"""Calls of functions, Python's and C's, that a step with one value in its state may take. In Python 3.11: 217."""


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make records as they are made outside of tests."""
    monkeypatch.setattr(Record, "trusted", classmethod(trust))


class Counting(OwnRecorder):
    """Keeps how many commits it was given."""

    def __init__(self) -> None:
        self.commits = 0

    async def commit(self, commit: Commit) -> None:
        self.commits += 1


def chain(steps: int) -> Workflow:
    """Return a workflow of so many steps in a row, each of which replaces a value of the state."""
    made = Workflow("cost", title="Cost")

    async def advance(i: int, ctx: Context) -> int:
        ctx.state["text"] = f"{i:08d}"
        return i + 1

    step = made.step(name="s0", start=True)(advance)
    for place in range(1, steps):
        step = made.step(name=f"s{place}", after=step)(advance)
    return made


async def calls_of(workflow: Workflow) -> Counter[str]:
    """Return how often a run of the workflow calls each function of C, and Python's as ``python``."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            found["python"] += 1
        elif event == "c_call":
            found[getattr(function, "__qualname__", "")] += 1

    await workflow.run(message=0, storage=Counting())
    before, _ = sys.getprofile(), sys.setprofile(count)
    try:
        await workflow.run(message=0, storage=Counting())
    finally:
        sys.setprofile(before)
    return found


async def test_a_step_takes_few_calls_and_checks_no_record_of_its_own() -> None:
    short, long = await calls_of(chain(20)), await calls_of(chain(40))
    each = {name: (count - short[name]) / 20 for name, count in long.items()}
    assert sum(each.values()) < MOST_CALLS, sorted(each.items(), key=lambda one: -one[1])[:20]
    assert not [name for name in each if name.startswith("SchemaValidator") and each[name] > 0]


async def test_a_step_leaves_nothing_to_the_garbage_collector() -> None:
    left, workflow = list[int](), chain(20)
    gc.disable()
    try:
        for _ in range(4):  # Other threads of this process leave garbage too, though seldom four times.
            gc.collect()
            await workflow.run(message=0, storage=Counting())
            left.append(gc.collect())
    finally:
        gc.enable()
    assert min(left) < 20
