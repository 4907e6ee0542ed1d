"""Stories of people at the same request: who has it open, what changed under one's hands, talk, a crash in between."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage, Troubles
from tests.e2e.desk import look, start, wait_for_phase
from tests.e2e.looks import check_accessibility, check_no_sideways_scrolling
from tests.e2e.moves import LATER, act, card, expect_live
from tests.e2e.requests.test_deciding import go_to
from tests.e2e.server import Server
from tests.e2e.server import gate_of_all as gate_of_all

SOON = 5_000
WHOLE = """list => {
  const { x, width, bottom } = list.getBoundingClientRect();
  return list.contains(document.elementFromPoint(x + width / 2, bottom - 4));
}"""
"""Whether a list is seen down to its end."""


def open_at(page: Page, server: Server, run: str) -> str:
    """Open a run's request on its own page; returns the request's id."""
    request = go_to(page, server, run)
    expect_live(page)
    return request


def test_who_has_it_open_is_seen_at_once_and_taking_over_is_one_click(person: OpenPage, server: Server) -> None:
    (run,) = start(server, {"subject": "Refund for two pairs of eyes?"})
    ana, ben = person("ana"), person("ben")
    open_at(ana, server, run)
    open_at(ben, server, run)
    claim = ben.locator(".claim")
    expect(claim).to_contain_text("ana opened this")
    expect(ana.get_by_role("main")).to_contain_text("ben is viewing", timeout=SOON)
    expect(ana.locator(".claim")).to_have_count(0)
    ana.reload()
    expect(ana.get_by_role("main")).to_contain_text("ben is viewing", timeout=SOON)
    expect(ana.locator(".claim")).to_have_count(0)
    expect(claim).to_contain_text("ana opened this", timeout=SOON)
    fold = card(ana).locator("details.action").filter(has=ana.locator("button[value=reject]"))
    fold.locator("summary").first.click()
    fold.get_by_label("Reason").first.press_sequentially("Hm")
    expect(claim).to_contain_text("is typing", timeout=SOON)
    check_accessibility(ben)
    check_no_sideways_scrolling(ben)
    ben.get_by_role("button", name="Take over").click()
    expect(ana.locator(".claim")).to_contain_text("ben took over", timeout=LATER)
    expect(fold.get_by_label("Reason").first).to_have_value("Hm")
    expect(ben.locator(".claim")).to_have_count(0)
    ben.goto("/runs/")
    expect(ana.locator(".claim")).to_have_count(0, timeout=LATER)


def test_a_request_that_changes_under_ones_hands_shows_the_difference_first(
    person: OpenPage, server: Server, troubles: Troubles
) -> None:
    troubles.expect("409")
    (run,) = start(server, {"subject": "Refund that changes?", "policy": {"undo": 0}})
    ana, olga = person("ana"), person("olga")
    request = open_at(ana, server, run)
    fold = card(ana).locator("details.action").filter(has=ana.locator("button[value=reject]"))
    fold.locator("summary").first.click()
    fold.get_by_label("Reason").first.fill("Nobody asked for it")
    olga.goto(f"/requests/{request}/amend/")
    olga.get_by_label("Details").fill("The customer called **twice**.")
    olga.get_by_role("button", name="Add").click()
    expect(ana.get_by_role("main")).to_contain_text("changed since you opened it", timeout=SOON)
    fold.locator("button[name=_action]").click()
    expect(ana.get_by_role("heading", name="Changed since you opened it")).to_be_visible()
    expect(ana.get_by_role("main")).to_contain_text("The customer called **twice**.")
    expect(card(ana).get_by_label("Reason").first).to_have_value("Nobody asked for it")
    check_accessibility(ana)
    assert look(server, run)["replies"] == []
    fold.locator("button[name=_action]").click()
    wait_for_phase(server, run, "failed")


def test_a_mention_is_completed_and_what_is_said_appears_to_the_other(person: OpenPage, server: Server) -> None:
    (run,) = start(server, {"subject": "Refund to talk about?"})
    ana, ben = person("ana"), person("ben")
    open_at(ana, server, run)
    open_at(ben, server, run)
    box = ana.locator("#say")
    box.press_sequentially("What do you say, @be")
    expect(ana.get_by_role("option", name="ben")).to_be_visible()
    assert ana.get_by_role("listbox", name="People to mention").evaluate(WHOLE)
    box.press("Enter")
    expect(box).to_have_value("What do you say, @ben ")
    ana.get_by_role("button", name="Comment").click()
    expect(ben.locator("#request-thread")).to_contain_text("What do you say, @ben", timeout=SOON)


def test_an_answer_on_its_way_survives_a_crash_and_so_does_the_way_back(
    person: OpenPage, server: Server, troubles: Troubles
) -> None:
    troubles.expect_outage()
    kept, taken = start(
        server,
        {"subject": "Refund kept?", "policy": {"undo": 5}},
        {"subject": "Refund undone?", "policy": {"undo": 600}},
    )
    ana = person("ana")
    open_at(ana, server, kept)
    act(ana, "approve")
    request = open_at(ana, server, taken)
    act(ana, "approve")
    expect(ana.get_by_role("region", name="Undo")).to_be_visible()
    server.kill()
    server.start()
    wait_for_phase(server, kept, "completed")
    ana.goto(f"/requests/{request}/")
    ana.get_by_role("button", name="Undo").click()
    expect(ana.get_by_role("main")).to_contain_text("Decision undone")
    assert look(server, taken)["open"] == [request]
