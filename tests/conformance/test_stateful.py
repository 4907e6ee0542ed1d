from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.conftest import make_world
from tests.conformance.model import StorageMachine

EXAMPLES = {"memory": 50, "file": 40, "sqlite": 30, "postgres": 8}
PLACES = ["memory", "file", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.mark.parametrize("place", PLACES)
def test_a_storage_and_a_simple_model_agree(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    world = make_world(place, request, tmp_path)
    chosen = settings(
        max_examples=EXAMPLES[place],
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    with asyncio.Runner() as runner:
        run_state_machine_as_test(lambda: StorageMachine(world, runner), settings=chosen)
        runner.run(world.storage.aclose())
