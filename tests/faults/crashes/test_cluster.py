"""A web and two workers are killed and frozen, and their database crashes: the short form of ``make cluster``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.chaos.story import Plan, Story
from tests.faults.servers import Postgres

pytestmark = [pytest.mark.process, pytest.mark.postgres]
PLAN = Plan(
    seed=7,
    webs=1,
    workers=2,
    runs=33,
    wanted=33,
    people=6,
    viewers=3,
    late_minutes=5,
    pace=(0.5, 1.5),
    attacks=3,
    most_attacks=3,
    crashes=1,
    away=(0.2, 0.3),
    cut=1.0,
    settle=120.0,
)


@pytest.mark.nightly
def test_a_cluster_under_attack_loses_and_repeats_nothing(
    tmp_path: Path, postgres: Postgres, postgres_template: str
) -> None:
    story = Story(PLAN, tmp_path, postgres, postgres.new_database(template=postgres_template), migrated=True)
    report = story.play()
    assert report.wrong == {}
    assert report.seen["runs"] >= PLAN.runs + PLAN.late_minutes
    assert report.seen["once effects"] > 0
    assert report.seen["events followed"] > 0
    assert report.done["database crashes"] == report.done["times that signals were cut off"] == 1
