"""The engine of Agent Framework keeps what engines promise, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

pytest.importorskip("agent_framework")

from tests.conformance.worlds import AnyWorld
from tests.engines.agent_framework.promises import SAMPLES
from wfdash.engines.agent_framework import AgentFrameworkEngine
from wfdash.engines.conformance import CHECKS, Check, EngineWorld

WORLD = EngineWorld(AgentFrameworkEngine, SAMPLES)
LACKS = {check.__name__: reason for check in CHECKS if (reason := WORLD.lacks(check))}
CHECKED = [check for check in CHECKS if not WORLD.lacks(check)]


@pytest.mark.parametrize("check", CHECKED, ids=lambda one: one.__name__)
async def test_the_engine_keeps_its_promises(check: Check, engine_place: AnyWorld):
    await check(EngineWorld(AgentFrameworkEngine, SAMPLES, engine_place, visible_within=5.0, tolerance=0.5))


@pytest.mark.alone
async def test_a_running_step_is_visible_within_300_ms_and_its_length_is_right_to_30_ms():
    (check,) = (check for check in CHECKED if check.__name__.startswith("a_step_is_visible_while_it_runs"))
    await check(WORLD)


def test_what_it_does_not_promise_is_known():
    abilities = ("LooksAhead", "TakesEdits")
    # The framework knows a question only at the end of a superstep: none is visible beside a step that runs.
    assert set(LACKS.values()) == {
        "Samples.asks_beside is not given",
        *(f"the engine is no {ability}" for ability in abilities),
    }
