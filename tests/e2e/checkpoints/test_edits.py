"""A failed run is read, mended by its input, forked with that, and watched to its end; both are compared."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.desk import look, start, wait_for_phase
from tests.e2e.looks import check_accessibility, check_no_sideways_scrolling, check_page, take_pictures
from tests.e2e.moves import act, card, expect_status, run_of
from tests.e2e.server import Server
from tests.e2e.server import gate_of_all as gate_of_all


def answer(page: Page, server: Server, run: str, action: str, fields: dict[str, str] | None = None) -> None:
    """Open what a run asks and answer it."""
    page.goto(f"/requests/{look(server, run)['open'][0]}/")
    expect(card(page)).to_be_visible()
    act(page, action, fields)


@pytest.mark.nightly
def test_a_failed_run_is_mended_by_its_input_and_forked(person: OpenPage, server: Server) -> None:
    (failed,) = start(server, {"subject": "Refund the wrong Kim?", "policy": {"undo": 0}})
    ana, olga = person("ana"), person("olga")
    answer(ana, server, failed, "reject", {"Reason": "It was Kim Larsen"})
    olga.goto(f"/runs/{failed}/")
    expect_status(olga, "failed")
    expect(olga.get_by_role("main")).to_contain_text("It was Kim Larsen")
    olga.goto(f"/runs/{failed}/checkpoints/")
    check_accessibility(olga)
    check_no_sideways_scrolling(olga)
    olga.locator("#run-rail").get_by_label("Actions for checkpoint").first.click()
    olga.get_by_role("link", name="Edit and fork").first.click()
    check_page(olga, "edit")
    olga.get_by_label("Customer").first.fill("Kim Larsen")
    olga.get_by_label("Reason", exact=True).fill("the other Kim")
    olga.get_by_role("button", name="Preview fork").click()
    expect(olga.get_by_role("heading", level=1)).to_contain_text("with edits")
    expect(olga.get_by_role("main")).to_contain_text("restarts, edited")
    check_accessibility(olga)
    check_no_sideways_scrolling(olga)
    take_pictures(olga, "preview", "light")
    olga.get_by_role("button", name="Fork with edits").click()
    expect_status(olga, "waiting")
    fork = run_of(olga)
    assert fork != failed
    answer(ana, server, fork, "approve")
    expect_status(olga, "completed")
    assert wait_for_phase(server, fork, "completed")["output"]["customer"] == "Kim Larsen"
    expect(olga.locator("#run-head")).to_contain_text("Edited by olga")
    olga.goto(f"/runs/{failed}/checkpoints/")
    expect(olga.locator("#run-rail")).to_contain_text(f"fork {fork[-8:]}")
    olga.get_by_role("button", name="Compare").click()
    expect(olga.get_by_role("heading", name="Steps")).to_be_visible()
    olga.goto(f"/runs/{fork}/checkpoints/")
    end = olga.locator("#run-rail .row-title").first.get_attribute("href")
    olga.goto(f"/runs/{failed}/compare/?a=1&b={end}")
    expect(olga.get_by_role("main")).to_contain_text("finished")
    expect(olga.get_by_role("main")).to_contain_text("Kim Larsen")
    check_page(olga, "compare")
    olga.goto(f"/runs/{failed}/at/3/")
    check_accessibility(olga)
    check_no_sideways_scrolling(olga)
    olga.get_by_role("link", name="Next").click()
    expect(olga.get_by_role("heading", level=1)).to_contain_text("Event 4")
