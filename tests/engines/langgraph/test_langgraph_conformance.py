"""The LangGraph engine keeps what engines promise, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph")

from checkpoints.errors import Incompatible
from tests.conformance.worlds import AnyWorld
from tests.engines.langgraph.samples import SAMPLES, chain, noting
from wfdash.engines.conformance import CHECKS, Check, EngineWorld, Ledger
from wfdash.engines.langgraph import LangGraphEngine
from wfdash.engines.serving import Served


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_langgraph_engine_keeps_its_promises(check: Check, engine_place: AnyWorld):
    await check(EngineWorld(LangGraphEngine, SAMPLES, engine_place, visible_within=5.0, tolerance=0.5))


def test_all_checks_apply_to_it():
    world = EngineWorld(LangGraphEngine, SAMPLES)
    assert {check.__name__: world.lacks(check) for check in CHECKS if world.lacks(check)} == {}


async def test_a_graph_that_lost_the_node_that_comes_next_is_not_continued():
    world = EngineWorld(LangGraphEngine, SAMPLES)
    run = await world.begin(SAMPLES.asks)
    await run.drive()
    engine, head = world.engine(), await run.head()
    other = chain("asking", noting(Ledger(), "before"), noting(Ledger(), "after"))
    with pytest.raises(Incompatible, match="continues at ask, which the graph no longer has"):
        engine.carry(Served(target=other, variable="sample"), head, run.description(), override=True)
    with pytest.raises(Incompatible, match="LangGraph has no migrations"):
        engine.carry(Served(target=other, variable="sample"), head, run.description())
