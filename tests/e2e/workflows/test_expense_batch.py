"""A month of expense claims, decided by two people of finance to its end: the payments come out."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.looks import picture_page
from tests.e2e.moves import LATER, act, card, check_events, choose_action, expect_live, expect_status, start_run
from tests.e2e.server import demo_of_all as demo_of_all

CLAIMS = """id,employee,date,category,amount,currency,description
E-1,Jana Novakova,2026-10-01,training,66.72,EUR,Book
E-2,Kofi Mensah,2026-10-02,travel,812.40,EUR,Train to the customer
E-3,Amira Haddad,2026-10-02,equipment,3900.00,EUR,Laptop
E-4,Jana Novakova,2026-10-03,travel,1250.00,USD,Flight
E-5,Nobody,2026-10-03,travel,abc,EUR,A row that makes no sense
"""


def decide_all(page: Page, most: int) -> int:
    """Approve whatever the inbox of this person shows for expense claims; return how many there were."""
    page.goto("/?tab=mine&q=workflow:expense_batch")
    for done in range(most):
        if not card(page).is_visible():
            return done
        subject = card(page).text_content()
        act(page, "approve")
        expect(
            card(page).or_(page.get_by_text("Your queue is empty").or_(page.get_by_text("No matches")))
        ).not_to_have_text(subject or "", timeout=LATER)
        page.goto("/?tab=mine&q=workflow:expense_batch")
    return most


def cancel_the_demo_s_batch(page: Page) -> None:
    """Only the story's own claims shall wait."""
    page.goto("/runs/?q=workflow:expense_batch")
    page.get_by_role("rowheader").get_by_role("link").first.click()
    expect_status(page, "waiting")
    choose_action(page, "Cancel run…")
    page.get_by_role("button", name="Cancel now").click()
    expect_status(page, "cancelled")


@pytest.mark.nightly
def test_a_batch_is_paid_after_finance_decided_and_a_second_person_agreed(person: OpenPage) -> None:
    adam, ana, ben = person("adam"), person("ana"), person("ben")
    cancel_the_demo_s_batch(adam)
    start_run(adam, "expense_batch", {"Claims": CLAIMS})
    expect_live(adam)
    expect(adam.locator("#run-requests").get_by_role("listitem")).to_have_count(3, timeout=LATER)
    picture_page(adam, "run")
    assert decide_all(ana, 10) == 3
    expect(adam.locator("#run-requests").get_by_role("listitem")).to_have_count(4, timeout=LATER)
    expect_status(adam, "waiting")
    assert decide_all(ben, 10) == 1
    expect_status(adam, "completed")
    values = adam.locator("#run-values")
    for part in ("Kofi Mensah", "3900.00", "line 6"):
        expect(values).to_contain_text(part)
    check_events(adam)
