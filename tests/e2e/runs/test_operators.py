"""Stories of those who operate: a failure among thousands, two at one run, and servers that end in the middle of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage, Troubles
from tests.e2e.moves import act, check_events, choose_action, expect_status, run_of, start_run
from tests.e2e.server import Server, shell

MANY = 3000
CROWD = f"""
from datetime import timedelta
from django.utils import timezone
from checkpoints import ids
from checkpoints.models import Run
now = timezone.now()
Run.objects.bulk_create([
    Run(id=(run := ids.new_run_id()), family=run, workflow="billing", title="Billing", phase="completed", listed=True,
        created=now - timedelta(minutes=i), updated=now, finished=now)
    for i in range({MANY})
])
"""
PEOPLE = """
from django.contrib.auth.models import User
from checkpoints.models import Grant
for name in ("olga", "omar"):
    Grant.objects.get_or_create(user=User.objects.get_or_create(username=name)[0], role="operator", workflow="*")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """Billing, with thousands of runs behind it and two who operate."""
    data, file = tmp_path_factory.mktemp("billing") / "data", Path(__file__).parents[1] / "billing.py"
    served = Server(data, files=[file], template=sqlite_template).start()
    shell(served, PEOPLE + CROWD)
    yield served
    assert served.stop() == 0, served.log()


def bill(page: Page, customer: str, amount: str, currency: str) -> str:
    """Start a run and return its id."""
    return start_run(page, "billing", {"Customer": customer, "Amount": amount, "Currency": currency})


@pytest.mark.nightly
def test_a_failed_run_is_found_read_mended_and_watched_to_its_end(
    person: OpenPage, server: Server, troubles: Troubles
) -> None:
    troubles.expect_outage()
    olga = person("olga")
    failed = bill(olga, "Blue Chair Ltd", "120", "EURO")
    expect_status(olga, "failed")

    olga.goto("/runs/")
    olga.locator("input[name=q]").first.fill("status:failed input.customer:Blue*")
    olga.keyboard.press("Enter")
    olga.locator(f"a[href='/runs/{failed}/']").first.click()
    expect(olga.get_by_role("main")).to_contain_text("EURO is no currency that Blue Chair Ltd can be charged in")

    choose_action(olga, "Edit and retry…")
    olga.get_by_role("main").get_by_label("Currency").fill("EUR")
    olga.get_by_role("button", name=re.compile("fork")).click()
    expect(olga.get_by_role("heading", level=1)).to_contain_text("with edits?")
    server.kill()
    server.start()
    olga.get_by_role("button", name="Fork with edits").click()
    expect_status(olga, "completed")
    assert run_of(olga) != failed
    expect(olga.get_by_role("main")).to_contain_text(re.compile("edited by olga", re.I))
    olga.goto(f"/runs/{failed}/")
    expect_status(olga, "failed")


@pytest.mark.nightly
def test_of_two_who_operate_one_run_the_second_is_shown_what_has_changed(
    person: OpenPage, server: Server, troubles: Troubles
) -> None:
    troubles.expect("409")
    olga, omar = person("olga"), person("omar")
    run = bill(olga, "Red Lamp Ltd", "5000", "EUR")
    expect_status(olga, "waiting")
    for page in (olga, omar):
        page.goto(f"/runs/{run}/")
        page.locator("#run-rail").get_by_role("link", name=re.compile("charge", re.I)).last.click()
        page.get_by_role("link", name="Restore…").first.click()
    olga.get_by_role("button", name=re.compile("^Restore checkpoint")).click()
    expect_status(olga, "waiting")
    omar.get_by_role("button", name=re.compile("^Restore checkpoint")).click()
    expect(omar.get_by_role("alert").first).to_contain_text("The run changed since this preview")
    omar.goto(f"/runs/{run}/")
    choose_action(omar, "Cancel run…")
    choose_action(olga, "Pause")
    expect_status(olga, "paused")
    omar.get_by_role("button", name=re.compile("^Cancel")).first.click()
    expect_status(omar, "cancelled")
    expect_status(olga, "cancelled")


@pytest.mark.nightly
def test_a_restore_and_its_answer_outlive_the_server(person: OpenPage, server: Server, troubles: Troubles) -> None:
    troubles.expect_outage()
    olga = person("olga")
    run = bill(olga, "Green Desk Ltd", "2000", "EUR")
    expect_status(olga, "waiting")
    olga.locator("#run-rail").get_by_role("link", name=re.compile("charge", re.I)).last.click()
    olga.get_by_role("link", name="Restore…").first.click()
    expect(olga.get_by_role("main")).to_contain_text("Charge 2000 EUR?")
    assert server.stop() == 0, server.log()
    server.start()
    olga.get_by_role("button", name=re.compile("^Restore checkpoint")).click()
    expect_status(olga, "waiting")
    server.kill()
    server.start()
    olga.goto(f"/runs/{run}/")
    expect(olga.get_by_role("main")).to_contain_text("Restored from an earlier checkpoint by olga")
    olga.locator("#run-requests").get_by_role("link").first.click()
    act(olga, "approve")
    olga.goto(f"/runs/{run}/")
    expect_status(olga, "completed")
    check_events(olga)
