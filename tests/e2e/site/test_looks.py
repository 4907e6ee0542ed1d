"""Every page as it is first seen: no axe violation by day or by night, and nothing wider than a phone."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Request

from tests.e2e.conftest import OpenPage
from tests.e2e.looks import TARGETS, check_no_sideways_scrolling, check_page
from tests.e2e.server import Server, shell, wait_until
from tests.e2e.server import demo_of_all as demo_of_all

FOUND = """
import json
from checkpoints.models import HumanRequest
asked = HumanRequest.objects.filter(answered=None, closed=None).order_by("created")
batch, patch = asked.filter(workflow="expense_batch").first(), asked.filter(workflow="patch_review").first()
saved = batch and patch and patch.run.checkpoints.order_by("n").first()
print(json.dumps(saved and {"request": batch.pk, "run": patch.run_id, "checkpoint": saved.pk}))
"""
"""What asks for most, and a run with little of everything: axe takes seconds for the hundreds of events of a batch."""
PAGES = [
    *("/", "/?tab=groups", "/?tab=asked", "/?tab=answered", "/?sort=alike", "/?q=due:<4x", "/focus/"),
    *("/notifications/", "/out-of-office/", "/workflows/", "/workflows/expense_batch/"),
    *("/schedules/", "/schedules/?q=state:up", "/schedules/new/?workflow=expense_batch", "/runs/"),
    *(
        "/statistics/",
        "/operations/",
        "/search/?q=expense",
        "/audit/",
        "/settings/",
        "/settings/webhooks/",
        "/requests/{request}/",
        "/runs/{run}/",
    ),
    *(
        "/runs/{run}/events/",
        "/runs/{run}/logs/",
        "/runs/{run}/state/",
        "/runs/{run}/checkpoints/",
        "/runs/{run}/at/1/",
    ),
    *("/runs/{run}/cancel/", "/runs/{run}/checkpoints/{checkpoint}/", "/runs/{run}/checkpoints/{checkpoint}/restore/"),
]

MOST_REQUESTS = 15
"""Files and answers of a page, for a browser with an empty cache."""


class Loads:
    """What each load of a page asks for, whether or not the browser has it."""

    def __init__(self) -> None:
        self.found: list[list[str]] = []

    def add(self, request: Request) -> None:
        """Note a request: of a new page, or of the one that is open."""
        if request.is_navigation_request():
            self.found.append([])
        self.found[-1].append(request.url)


@pytest.mark.parametrize(
    "addresses",
    [PAGES[1::3], pytest.param([*PAGES[::3], *PAGES[2::3]], marks=pytest.mark.nightly)],
    ids=["one of three", "the others"],
)
def test_everybody_can_use_every_page_by_day_by_night_and_on_a_phone(
    addresses: list[str], person: OpenPage, server: Server
) -> None:
    found = wait_until(lambda: json.loads(shell(server, FOUND)), what="a request of the demo")
    page, loads = person("adam"), Loads()
    page.on("request", loads.add)
    for address in addresses:
        answer = page.goto(address.format(**found))
        assert answer is not None
        assert answer.status == 200, address
        check_page(page)
        check_no_sideways_scrolling(page, TARGETS)
    assert {load[0]: load for load in loads.found if len(load) > MOST_REQUESTS} == {}
