"""The native engine keeps what engines promise: in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

from tests.conformance.worlds import AnyWorld
from tests.engines.samples import SAMPLES
from wfdash.engines.conformance import CHECKS, Check, EngineWorld
from wfdash.engines.native import NativeEngine

applying = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


@applying
async def test_the_native_engine_keeps_its_promises_in_memory(check: Check):
    await check(EngineWorld(NativeEngine, SAMPLES, visible_within=5.0, tolerance=0.5))


@applying
async def test_the_native_engine_keeps_its_promises(check: Check, engine_place: AnyWorld):
    await check(EngineWorld(NativeEngine, SAMPLES, engine_place, visible_within=5.0, tolerance=0.5))


def test_all_checks_apply_to_it():
    world = EngineWorld(NativeEngine, SAMPLES)
    assert {check.__name__: world.lacks(check) for check in CHECKS if world.lacks(check)} == {}


@pytest.mark.alone
async def test_a_running_step_is_visible_within_300_ms_and_its_length_is_right_to_30_ms():
    (check,) = (check for check in CHECKS if check.__name__.startswith("a_step_is_visible_while_it_runs"))
    await check(EngineWorld(NativeEngine, SAMPLES))
