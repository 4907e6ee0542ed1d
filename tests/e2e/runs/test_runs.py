"""The story of the list of runs: a failed one is found among thousands, rows live in place, all of them are retried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.desk import add_people
from tests.e2e.looks import check_accessibility, picture_page
from tests.e2e.moves import LATER, expect_live
from tests.e2e.server import Server, shell

THOUSANDS = """
from datetime import timedelta
from django.utils import timezone
from checkpoints import ids
from checkpoints.models import Run, RunFact
now = timezone.now()
runs = [Run(id=ids.new_run_id(), family="x", workflow="shipping", version="v", title=f"Order {n}", phase="completed",
    created=now - timedelta(minutes=5, seconds=n), updated=now, finished=now, listed=True) for n in range(3000)]
Run.objects.bulk_create(runs, batch_size=500)
RunFact.objects.bulk_create([RunFact(run=run, name="input.amount", text=str(n), number=n, created=run.created)
    for n, run in enumerate(runs)], batch_size=500)
"""
WHOLE_ROWS = """() => [...document.querySelectorAll("tr[data-row]")].filter((row) => {
    const { top, bottom } = row.getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
}).length"""
START = """
from django.contrib.auth.models import User
from wfdash.engines import catalog
from wfdash.actions.runs.lifecycle import start_run
from wfdash.access.viewer import viewer_for
catalog.load()
who = viewer_for(User.objects.get(username="olga"))
for customer, amount in {orders!r}:
    print(start_run(who, "shipping", {{"customer": customer, "amount": amount}}).id)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """A warehouse that is shut, with thousands of orders shipped before."""
    data = tmp_path_factory.mktemp("runs") / "data"
    served = Server(data, files=[Path(__file__).parents[1] / "shipping.py"], template=sqlite_template).start()
    add_people(served)
    shell(served, THOUSANDS)
    yield served
    assert served.stop() == 0, served.log()


def look_for(page: Page, text: str) -> None:
    """Type a filter and send it."""
    page.keyboard.press("/")
    page.get_by_label("Filter runs").fill(text)
    page.keyboard.press("Enter")
    page.wait_for_load_state()


def look_for_one(page: Page, text: str) -> None:
    """Type a filter that finds one run, maybe only once the sweep has indexed it: then the list offers it."""
    look_for(page, text)
    rows, more = page.locator("tr[data-row]"), page.get_by_role("link", name="Show 1 new run")
    expect(rows.or_(more).first).to_be_visible(timeout=LATER)
    if more.is_visible():
        more.click()
    expect(rows).to_have_count(1, timeout=LATER)


@pytest.mark.nightly
def test_a_failed_run_is_found_among_thousands_and_all_like_it_are_retried(person: OpenPage, server: Server) -> None:
    olga = person("olga")
    olga.goto("/runs/")
    expect_live(olga)
    choose_density(olga)
    top = olga.locator("tr[data-row]").first.get_attribute("data-row")
    first, *others = shell(server, START.format(orders=[("Kim Novak", 4711), ("Ana", 12), ("Ben", 13)])).split()
    button = olga.get_by_role("link", name="Show 3 new runs")
    expect(button).to_be_visible(timeout=LATER)
    assert olga.locator("tr[data-row]").first.get_attribute("data-row") == top
    button.click()
    row = olga.locator(f"#run-{first}")
    expect(row.locator("[data-status=failed]")).to_be_visible(timeout=LATER)
    expect(row).to_contain_text("WarehouseShut: Gate 4711 of the warehouse is shut")
    for text in ("gate 4711", "novak status:failed", "input.amount:>4000", "error:warehouse* -input.customer:ana,ben"):
        look_for_one(olga, text)
        expect(row).to_be_visible()
    picture_page(olga, "runs")
    retry_all(olga, server, {first, *others})


def choose_density(page: Page) -> None:
    """A screen has room for twenty runs; comfortable rows are remembered."""
    page.set_viewport_size({"width": 1440, "height": 900})
    assert page.evaluate(WHOLE_ROWS) >= 20
    with page.expect_response("**/lists/density/"):
        page.get_by_role("button", name="Comfortable rows").click()
    assert page.evaluate(WHOLE_ROWS) < 20
    page.reload()
    assert page.evaluate(WHOLE_ROWS) < 20
    expect(page.get_by_role("button", name="Comfortable rows")).to_have_attribute("aria-pressed", "true")
    with page.expect_response("**/lists/density/"):
        page.get_by_role("button", name="Compact rows").click()
    expect_live(page)


def select_by_keys(page: Page) -> None:
    """Rows are selected one by one, up to a row, and not at all; a bar says how many."""
    bar = page.get_by_role("group", name="Selected runs")
    expect(bar).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(bar).to_contain_text("1 selected")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Shift+Space")
    expect(bar).to_contain_text("3 selected")
    check_accessibility(page)
    page.keyboard.press("Escape")
    expect(bar).to_be_hidden()


def retry_all(olga: Page, server: Server, runs: set[str]) -> None:
    """Open the warehouse, and retry all that failed; they are seen to end."""
    olga.goto("/runs/?q=error:warehouseshut")
    expect_live(olga)
    select_by_keys(olga)
    olga.keyboard.press("t")
    olga.get_by_label("All matching").check()
    olga.get_by_role("button", name="Retry…").click()
    expect(olga.get_by_role("heading", level=1)).to_have_text("Retry 3 runs?")
    check_accessibility(olga)
    (server.data / "warehouse-open").touch()
    olga.get_by_role("button", name="Retry 3 runs").click()
    expect(olga.get_by_role("heading", name="3 of 3 retried")).to_be_visible(timeout=LATER)
    olga.get_by_role("link", name="Back to the runs").click()
    for run in runs:
        expect(olga.locator(f"#run-{run} [data-status=completed]")).to_be_visible(timeout=LATER)
