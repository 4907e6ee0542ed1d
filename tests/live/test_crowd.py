"""Many viewers of one run on a real server: the short form of ``tests/benchmarks/servers/bench_live.py``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import Server, serving, wait_until
from tests.live.crowd import SERVED, Crowd, count_events, start_beating

pytestmark = pytest.mark.process

VIEWERS, RATE, SECONDS = 50, 50, 4


@pytest.fixture
def server(tmp_path: Path, sqlite_template: Path) -> Iterator[Server]:
    with serving(Server(tmp_path / "data", files=[SERVED], template=sqlite_template)) as server:
        yield server


def test_a_crowd_sees_every_event_once_and_in_order_over_a_storm_and_hang_ups(server: Server, tmp_path: Path) -> None:
    run = start_beating(server, tmp_path / "gate", rate=RATE, seconds=SECONDS)
    crowd = Crowd(server, run, viewers=VIEWERS)
    try:
        (tmp_path / "gate").touch()
        crowd.trickle(0.1)
        time.sleep(SECONDS / 4)
        crowd.storm()
        last = wait_until(lambda: count_events(server, run), what="the run", pause=0.3)
        seen = crowd.report(last)
    finally:
        crowd.close()
    print(f"\n{seen.events} events, {seen.connects} connects, p99 {seen.late_at(0.99)} ms")
    assert seen.wrong == {"lost": 0, "doubled": 0, "reordered": 0, "snapshots": 0}
    assert seen.events > RATE * SECONDS
    assert seen.connects >= 2 * VIEWERS
    assert seen.messages < seen.events * VIEWERS
