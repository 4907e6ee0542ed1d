"""The LangGraph engine keeps what engines promise: in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph")

from tests.conformance.worlds import AnyWorld
from tests.engines.langgraph.samples import SAMPLES
from wfdash.engines.conformance import CHECKS, Check, EngineWorld
from wfdash.engines.langgraph import LangGraphEngine


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_langgraph_engine_keeps_its_promises(check: Check, engine_place: AnyWorld):
    world = EngineWorld(LangGraphEngine, SAMPLES, engine_place, visible_within=5.0, tolerance=0.5)
    if reason := world.lacks(check):
        pytest.skip(reason)
    await check(world)
