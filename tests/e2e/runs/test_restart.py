"""The server stops, or is killed in mid-step: the page comes back by itself, with nothing lost and nothing doubled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage, Troubles
from tests.e2e.moves import LATER, check_events, expect_live, expect_status, start_run
from tests.e2e.server import Server, serving, wait_until

SERVED = Path(__file__).parents[2] / "faults" / "crashes" / "served.py"


@pytest.fixture
def server(tmp_path: Path, sqlite_template: Path) -> Iterator[Server]:
    """A workflow whose step waits for the test."""
    with serving(Server(tmp_path / "data", files=[SERVED], template=sqlite_template)) as server:
        yield server


@pytest.mark.parametrize("end", [pytest.param("stop", marks=pytest.mark.nightly), "kill"])
def test_a_page_and_its_run_go_on_by_themselves_after_the_server_came_back(
    person: OpenPage, server: Server, troubles: Troubles, tmp_path: Path, end: str
) -> None:
    troubles.expect_outage()
    log, gate = tmp_path / "log.txt", tmp_path / "gate"
    page = person("admin")
    start_run(page, "killed", {"log": str(log), "gate": str(gate)})
    expect_live(page)
    expect(page.locator("#run-events")).to_contain_text("Second started", timeout=LATER)
    getattr(server, end)()
    expect(page.locator("[data-live-state]").first).not_to_have_attribute("data-live-state", "live", timeout=LATER)
    server.start()
    wait_until(lambda: log.read_text().count("second") == 2, what="the step again")
    gate.touch()
    expect_status(page, "completed", timeout=40_000)
    expect_live(page)
    seen = check_events(page)
    page.reload()
    assert check_events(page) == seen
    assert log.read_text().count("first\n") == 1
