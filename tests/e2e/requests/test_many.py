"""Stories of many: thirty decided together, a dozen by keyboard alone, and a restore that asks again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.desk import add_people, look, start, wait_for_phase
from tests.e2e.looks import check_accessibility, check_no_sideways_scrolling, check_nothing_moved, watch_shifts
from tests.e2e.moves import LATER, act, card, expect_status, read
from tests.e2e.server import Server, serving, shell, wait_until

ALIKE, BY_HAND = 30, 12
ANSWERED = re.compile(r"/requests/[^/]+/\?")
DONE = """
from checkpoints.models import AuditEntry, Reply, Run
runs = {runs!r}
print(Run.objects.filter(pk__in=runs, phase="completed").count(),
      AuditEntry.objects.filter(run__in=runs, verb="answer").count(),
      Reply.objects.filter(request__run__in=runs, via={via!r}, stands="approved").count())
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """The gate alone, with people."""
    data = tmp_path_factory.mktemp("many") / "data"
    with serving(
        Server(data, files=[Path(__file__).parents[1] / "gates.py"], template=sqlite_template, undo=1)
    ) as served:
        add_people(served)
        yield served


def refunds(subject: str, count: int, risk: str | None = None) -> list[dict[str, object]]:
    """Return gates that differ in customer and amount."""
    return [
        {"subject": f"{subject} {n}?", "refund": {"customer": f"C{n}", "amount": 10 + n}, "risk": risk}
        for n in range(count)
    ]


def done(server: Server, runs: list[str], via: str) -> list[int]:
    """Return how many runs completed, acts were recorded and approvals came by that door."""
    return [int(text) for text in shell(server, DONE.format(runs=runs, via=via)).split()]


def test_thirty_alike_are_one_decision_and_thirty_records_and_high_risks_stay(person: OpenPage, server: Server) -> None:
    runs = start(server, *refunds("Batch", ALIKE))
    (risky,) = start(server, *refunds("Risky", 1, "high"))
    ana = person("ana")
    ana.goto("/?sort=alike")
    # Rows are selected by key and by shift and click, without anything moving; the table opens with them.
    watch_shifts(ana)
    ana.keyboard.press("x")
    boxes = ana.locator("#inbox-list").get_by_role("checkbox", name=re.compile("Select Batch"))
    boxes.nth(2).click(modifiers=["Shift"])
    expect(ana.locator("#inbox-chosen")).to_contain_text("3 selected")
    check_nothing_moved(ana)
    check_accessibility(ana)
    ana.get_by_role("button", name="Review together").click()
    table = ana.get_by_role("region", name="Requests")
    expect(table.get_by_role("checkbox", checked=True)).to_have_count(3)
    expect(table.get_by_role("row")).to_have_count(ALIKE + 2)
    expect(table.get_by_role("checkbox", name=re.compile("Batch"))).to_have_count(ALIKE)
    expect(table).to_contain_text("C7")
    check_accessibility(ana)
    check_no_sideways_scrolling(ana)
    ana.get_by_label(re.compile("Select all")).check()
    act(ana, "approve")
    expect(ana.get_by_role("heading", level=1)).to_contain_text(f"{ALIKE} approved")
    check_accessibility(ana)
    wait_until(lambda: done(server, runs, "batch") == [ALIKE] * 3, what="thirty runs", pause=0.2)
    assert look(server, risky)["open"]


def answer_by_keyboard(page: Page) -> None:
    """Approve what is shown, by its key alone, and wait for the next to open."""
    before = card(page).get_by_role("heading", level=1).inner_text()
    read(page)
    page.keyboard.press("a")
    expect(page.locator("article.card h1").filter(has_text=re.compile(f"^{re.escape(before)}$"))).to_have_count(0)


@pytest.mark.nightly
def test_a_dozen_are_decided_by_keyboard_alone(person: OpenPage, server: Server) -> None:
    runs = start(server, *refunds("Key", BY_HAND))
    ana = person("ana")
    ana.goto("/?q=Key")
    ana.keyboard.press("f")
    sent: list[str] = []
    ana.on(
        "request",
        lambda request: sent.append(request.url) if request.method == "POST" and ANSWERED.search(request.url) else None,
    )
    for left in range(BY_HAND, 0, -1):
        expect(ana.get_by_role("banner").filter(has_text=re.compile(rf"1\s+of {left}\b")).first).to_be_visible()
        if left == 1:
            ana.keyboard.press("j")
            expect(ana.get_by_text("This is the last of 1 request")).to_be_visible()
        answer_by_keyboard(ana)
    expect(ana.get_by_role("heading", name="All done")).to_be_visible()
    assert (len(sent), len(set(sent))) == (BY_HAND, BY_HAND)
    check_accessibility(ana)
    assert done(server, runs, "page")[1:] == [BY_HAND, BY_HAND]
    wait_until(lambda: done(server, runs, "page")[0] == BY_HAND, what="a dozen runs", pause=0.2)


@pytest.mark.nightly
def test_a_restored_run_asks_again_with_the_old_answer_as_suggestion(person: OpenPage, server: Server) -> None:
    (run,) = start(server, {"subject": "Refund twice?"})
    ana, olga = person("ana"), person("olga")
    ana.goto(f"/requests/{look(server, run)['open'][0]}/")
    act(ana, "edit", {"Amount": "99", "Note": "first try"})
    wait_for_phase(server, run, "completed")
    olga.goto(f"/runs/{run}/")
    olga.locator("#run-rail").get_by_role("link", name="review").last.click()
    olga.get_by_role("link", name="Restore…").first.click()
    expect(olga.get_by_role("main")).to_contain_text("Refund twice?")
    olga.get_by_role("main").get_by_role("button", name=re.compile("Restore")).click()
    expect_status(olga, "waiting")
    ana.goto(f"/requests/{look(server, run)['open'][0]}/")
    expect(ana.get_by_role("main")).to_contain_text("You edited and approved this")
    expect(card(ana).get_by_label("Note").first).to_have_value("first try", timeout=LATER)
    check_accessibility(ana)
    card(ana).get_by_role("button", name="Cancel").click()
    act(ana, "approve")
    seen = wait_for_phase(server, run, "completed")
    assert seen["output"]["amount"] == 120
    assert len(seen["requests"]) == 2
