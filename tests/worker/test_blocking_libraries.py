"""A step that a library calls and that blocks the event loop is named, and put aside once it stopped two processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("agent_framework")

from checkpoints.models import Event
from tests.worker.conftest import reaches, until
from tests.worker.test_loop_watchdog import hasty as hasty
from tests.worker.test_loop_watchdog import quick as quick
from tests.worker.test_loop_watchdog import stop_before, told_of
from wfdash.actions.runs.lifecycle import start_run
from wfdash.engines import catalog

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

SPIN = """
import asyncio
import threading

began, go, end = threading.Event(), threading.Event(), threading.Event()


async def spin_on_loop(number):
    began.set()
    await asyncio.to_thread(go.wait, 60)
    while number and not end.is_set():
        pass
"""
LANGGRAPH = """
from typing import TypedDict

from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    number: int


async def spin(state: State) -> State:
    await spin_on_loop(state["number"])
    return {"number": 0}


flow = StateGraph(State).add_node("spin", spin).add_edge(START, "spin").add_edge("spin", END).compile(name="spin")
"""
EXECUTORS = """
from agent_framework import WorkflowBuilder, WorkflowContext, executor


@executor(id="spin")
async def spin(number: int, ctx: WorkflowContext[int, int]) -> None:
    await spin_on_loop(number)
    await ctx.yield_output(0)


flow = WorkflowBuilder(start_executor=spin, name="spin").build()
"""
FUNCTION = """
import warnings

from agent_framework import workflow

with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    @workflow(name="spin")
    async def spin(number: int) -> int:
        await spin_on_loop(number)
        return 0
"""
KINDS = {
    "langgraph": (LANGGRAPH, lambda number: {"number": number}),
    "agent_framework": (EXECUTORS, lambda number: number),
    "a function of agent_framework": (FUNCTION, lambda number: number),
}


@pytest.fixture(params=KINDS)
def spinning(request: pytest.FixtureRequest, tmp_path: Path, settings: Any) -> Iterator[Any]:
    """A module with a workflow whose step computes on the loop, without an end for ``message(1)``."""
    text, message = KINDS[request.param]
    settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS = [], [str(tmp_path / "served_spinning.py")]
    (tmp_path / "served_spinning.py").write_text(SPIN + text)
    catalog.load.cache_clear()
    catalog.load()
    module = next(one for name, one in sys.modules.items() if name.startswith("served_spinning"))
    module.message = message
    yield module
    module.go.set()
    module.end.set()
    catalog.load.cache_clear()
    for name in [one for one in sys.modules if one.startswith("served_spinning")]:
        del sys.modules[name]


def test_a_step_of_a_library_that_stops_a_second_process_is_put_aside(
    spinning, otto, start_worker, hasty, quick
) -> None:
    start_worker()
    run = start_run(otto, "spin", spinning.message(1))
    assert spinning.began.wait(60)
    until(lambda: Event.objects.filter(run=run, kind="step.started").exists())
    stop_before(run, "gone")
    spinning.go.set()
    until(reaches(run, "failed"))
    run.refresh_from_db()
    assert run.error["type"] == "StepBlocksWorkers"
    assert run.error["step"] == "spin"
    assert "spin_on_loop" in run.error["message"] + run.error["traceback"]
    innocent = start_run(otto, "spin", spinning.message(0))
    until(reaches(innocent, "completed"))
    assert told_of(innocent) == []


def test_a_step_of_a_library_that_stops_one_process_may_end(spinning, otto, start_worker, hasty, quick) -> None:
    start_worker()
    run = start_run(otto, "spin", spinning.message(1))
    spinning.go.set()
    until(lambda: [one.step for one in told_of(run)] == ["spin"] * 2)
    assert told_of(run)[-1].data["where"].startswith("served_spinning")
    spinning.end.set()
    until(reaches(run, "completed"))
