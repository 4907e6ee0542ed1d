"""The workflow changes while runs wait: one goes on as it stands, one is left to wait, one is migrated by a hook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage, Troubles
from tests.e2e.looks import check_accessibility, check_no_sideways_scrolling, check_page
from tests.e2e.moves import LATER, expect_live, expect_status
from tests.e2e.server import Server, serving, shell, wait_until

FIRST = """
from __future__ import annotations
from wfdash.workflow import Context, Workflow
from wfdash.workflow.authoring import Migration

wf = Workflow("claims", title="Expense claims")

@wf.step(start=True)
async def read(amount: int) -> int:
    return amount

@wf.step(after=read)
async def review(amount: int, ctx: Context) -> int:
    ctx.state["amount"] = amount
    return int(await ctx.ask("How much of it is paid?", answer=int))

@wf.step(after=review)
async def pay(amount: int) -> str:
    return f"paid {amount}"
"""
LONGER = f"""{FIRST}
@wf.step(after=pay)
async def archive(text: str) -> str:
    return text + ", filed"
"""
HOOKED = f"""{LONGER}
@wf.migrate(from_version="VERSION")
def widen(run: Migration) -> None:
    run.state["currency"] = "EUR"
"""

DESK = """
from django.contrib.auth.models import User
from checkpoints.models import HumanRequest, Run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.access.viewer import viewer_for
admin = viewer_for(User.objects.get(username='admin'))
"""
START = DESK + "print(*(start_run(admin, 'claims', amount).pk for amount in (10, 20, 30)))"
ANSWER = DESK + "answer_request(admin, HumanRequest.objects.get(run_id={run!r}).pk, 7)"
WAITING = DESK + "print(Run.objects.filter(phase='waiting').count())"
VERSION = DESK + "print(Run.objects.first().version)"


@pytest.fixture
def served(tmp_path: Path) -> Path:
    path = tmp_path / "claims.py"
    path.write_text(FIRST)
    return path


@pytest.fixture
def server(tmp_path: Path, sqlite_template: Path, served: Path) -> Iterator[Server]:
    with serving(Server(tmp_path / "data", files=[served], template=sqlite_template)) as server:
        yield server


def serve(server: Server, served: Path, source: str) -> None:
    """Deploy: stop, change the file, start."""
    server.stop()
    served.write_text(source)
    server.start()


def go_to(page: Page, run: str) -> None:
    page.goto(f"/runs/{run}/")
    expect_live(page)


@pytest.mark.nightly
def test_of_three_runs_one_goes_on_as_it_stands_one_waits_and_one_is_migrated(
    person: OpenPage, server: Server, served: Path, troubles: Troubles
) -> None:
    troubles.expect_outage()
    goes_on, waits, migrates = shell(server, START).split()
    wait_until(lambda: shell(server, WAITING) == "3", what="three questions")
    version = shell(server, VERSION)
    serve(server, served, LONGER)
    for run in (goes_on, waits):
        shell(server, ANSWER.format(run=run))
    page = person("admin")

    go_to(page, goes_on)
    expect_status(page, "held")
    panel = page.locator("#run-skew")
    expect(panel).to_contain_text("On hold: the workflow changed")
    expect(panel).to_contain_text("added: archive")
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    check_page(page, "held")
    panel.get_by_role("link", name="Continue without migration").click()
    expect(page.get_by_role("main")).to_contain_text("No change.")
    check_page(page, "override")
    page.get_by_role("button", name="Continue without migration").click()
    expect_status(page, "completed")
    expect(page.locator("#run-values")).to_contain_text("paid 7, filed")

    go_to(page, waits)
    expect_status(page, "held")
    page.locator("#run-skew").get_by_role("link", name="Migrate").click()
    expect(page.get_by_role("main")).to_contain_text("Not possible")
    expect(page.get_by_role("button", name="Migrate")).to_be_disabled()
    check_accessibility(page)
    check_no_sideways_scrolling(page)
    page.get_by_role("link", name="Cancel").click()
    expect_status(page, "held")
    page.goto("/runs/?q=status:held")
    expect(page.get_by_role("rowheader").get_by_role("link")).to_have_count(1)
    go_to(page, waits)

    serve(server, served, HOOKED.replace("VERSION", version))
    expect_status(page, "completed", timeout=2 * LATER)
    expect(page.locator("#run-events")).to_contain_text("Migrated to the current version")

    go_to(page, migrates)
    expect_status(page, "waiting")
    page.locator("#run-skew").get_by_role("link", name="Migrate").click()
    expect(page.get_by_role("main")).to_contain_text("state gets currency")
    check_page(page, "migrate")
    page.get_by_role("button", name="Migrate").click()
    expect(page.get_by_role("main")).to_contain_text("Run migrated to the current version")
    expect_status(page, "waiting")
    expect(page.locator("#run-skew")).to_have_count(0)
    shell(server, ANSWER.format(run=migrates))
    expect_status(page, "completed")
