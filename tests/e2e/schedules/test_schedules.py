"""A story of a schedule: made while its next times are told, it starts runs by itself and by a click, is paused."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.looks import check_page, picture_page
from tests.e2e.moves import LATER, RUN_ADDRESS
from tests.e2e.server import Server, shell, wait_until
from tests.e2e.server import gate_of_all as gate_of_all

DUE = """
from django.utils import timezone
from checkpoints.models import Schedule
Schedule.objects.update(next_at=timezone.now())
"""


def hold_the_first(page: Page, address: str) -> list[Route]:
    """Hold the first request to an address until the story lets it go on."""
    held: list[Route] = []
    page.route(address, lambda route: route.continue_() if held else held.append(route))
    return held


def test_a_schedule_tells_its_times_starts_runs_and_is_paused(person: OpenPage, server: Server) -> None:
    olga = person("olga")
    olga.goto("/workflows/gate/")
    olga.get_by_role("link", name="Schedule…").click()
    picture_page(olga, "schedule-form")
    held = hold_the_first(olga, "**/schedules/next/**")
    olga.get_by_label("Name").fill("Morning refunds")
    olga.get_by_label("Cron expression").press_sequentially("0 9 * * MON-FRI")
    wait_until(lambda: olga.wait_for_timeout(20) or held, what="a look at the times")
    olga.get_by_label("Time zone").fill("Europe/Berlin")
    olga.get_by_label("Time zone").blur()
    held[0].continue_()
    coming = olga.locator("#schedule-coming")
    expect(coming).to_contain_text("At 09:00 on Monday through Friday")
    expect(coming.locator(".schedule-there")).to_have_count(5)
    expect(coming.locator(".schedule-there").first).to_contain_text("09:00 CE")
    olga.get_by_label("Subject").fill("The morning's refund?")
    olga.get_by_label("Customer").fill("Mia")
    olga.get_by_label("Amount").fill("20")
    olga.get_by_role("button", name="Save").click()
    expect(olga.get_by_role("heading", name="Morning refunds", exact=True)).to_be_visible()
    shell(server, DUE)
    fired = olga.get_by_role("region", name="Latest runs").get_by_role("link")
    for _ in range(20):
        olga.reload()
        if fired.count():
            break
        olga.wait_for_timeout(200)
    expect(fired).to_have_count(1)
    check_page(olga, "schedule")
    olga.get_by_role("button", name="Run now").click()
    olga.wait_for_url(RUN_ADDRESS)
    olga.goto("/schedules/")
    olga.get_by_role("button", name="Pause Morning refunds").click()
    expect(olga.get_by_role("button", name="Resume Morning refunds")).to_be_visible(timeout=LATER)
    expect(olga.get_by_role("row", name=re.compile("Morning refunds"))).to_contain_text("paused")
    picture_page(olga, "schedules")
