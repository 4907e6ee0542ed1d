from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.conftest import make_world
from tests.conformance.model import StorageMachine

SHARE = {"memory": 2, "file": 2, "sqlite": 2, "postgres": 6}
"""Which part of the usual number of examples: each is a story of thirty steps."""
PLACES = ["memory", "file", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.mark.parametrize("place", PLACES)
def test_a_storage_and_a_simple_model_agree(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    world = make_world(place, request, tmp_path)
    chosen = settings(
        max_examples=settings.default.max_examples // SHARE[place],
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    with asyncio.Runner() as runner:
        run_state_machine_as_test(lambda: StorageMachine(world, runner), settings=chosen)
        runner.run(world.storage.aclose())
