"""Stories of deciding: two at once, edits, quorum, four eyes, a deadline, the way back, a draft, a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from tests.e2e.conftest import OpenContext, OpenPage, Troubles, sign_in
from tests.e2e.desk import look, start, wait_for_phase
from tests.e2e.looks import check_accessibility, check_no_sideways_scrolling
from tests.e2e.moves import LATER, act, card, open_request
from tests.e2e.server import Server, shell
from tests.e2e.server import gate_of_all as gate_of_all

THUMB = 44
"""Pixels that a finger hits."""
MOST_DOCK = 120
PHONE: ViewportSize = {"width": 390, "height": 844}


def go_to(page: Page, server: Server, run: str) -> str:
    """Open a run's request on its own page; returns the request's id."""
    request = str(look(server, run)["open"][0])
    page.goto(f"/requests/{request}/")
    expect(card(page)).to_be_visible()
    return request


def test_of_those_who_answer_one_wins_and_the_others_are_told_and_lose_no_word(
    person: OpenPage, server: Server, troubles: Troubles
) -> None:
    troubles.expect("409")
    (run,) = start(server, {"subject": "Refund in a race?", "policy": {"undo": 0}})
    ana, ben, cem = person("ana"), person("ben"), person("cem")
    cem.route_web_socket("**", lambda socket: None)
    for page in (ana, ben, cem):
        go_to(page, server, run)
    act(ana, "approve")
    expect(card(ben).locator("button[name=_action][value=approve]").first).to_be_disabled()
    expect(ben.get_by_role("main")).to_contain_text("ana")
    act(cem, "reject", {"Reason": "Not with me"}, open_fold=True)
    expect(cem.get_by_role("alert").first).to_contain_text("Already answered by ana")
    expect(cem.get_by_role("main")).to_contain_text("Not with me")
    check_accessibility(cem)
    cem.get_by_role("button", name="Comment with this text").click()
    expect(cem.locator("#say")).to_have_value("Not with me")
    wait_for_phase(server, run, "completed")
    assert [reply[:2] for reply in look(server, run)["replies"]] == [["ana", "approve"]]


@pytest.mark.nightly
def test_an_edited_proposal_is_what_the_run_goes_on_with(person: OpenPage, server: Server) -> None:
    (run,) = start(server, {"subject": "Refund too much?", "policy": {"undo": 0}})
    ana = person("ana")
    go_to(ana, server, run)
    act(ana, "edit", {"Amount": "80", "Note": "as agreed"})
    seen = wait_for_phase(server, run, "completed")
    assert seen["output"] == {"customer": "Kim", "amount": 80.0, "note": "as agreed"}
    assert seen["replies"] == [["ana", "edit", "modified", "page"]]


@pytest.mark.nightly
def test_two_of_finance_must_agree_and_others_cannot(person: OpenPage, server: Server) -> None:
    policy = {"by": "finance", "need": 2, "not_by": "requester", "undo": 0}
    (run,) = start(server, {"subject": "Refund by quorum?", "policy": policy})
    ana, ben, cem = person("ana"), person("ben"), person("cem")
    go_to(cem, server, run)
    expect(cem.get_by_role("main")).to_contain_text("Only finance can answer")
    expect(card(cem).locator("button[name=_action]")).to_have_count(0)
    go_to(ana, server, run)
    expect(ana.get_by_role("main")).to_contain_text("Needs 2 votes from finance. Excluded: the requester.")
    act(ana, "approve")
    request = go_to(ben, server, run)
    expect(ben.get_by_role("main")).to_contain_text("1 of 2")
    check_accessibility(ben)
    act(ben, "approve")
    wait_for_phase(server, run, "completed")
    ana.goto(f"/requests/{request}/")
    expect(ana.get_by_role("main")).to_contain_text("approved")


@pytest.mark.nightly
def test_who_started_a_run_cannot_approve_what_needs_a_second_person(person: OpenPage, server: Server) -> None:
    (run,) = start(server, {"subject": "Refund for myself?", "policy": {"not_by": "requester"}}, by="olga")
    olga = person("olga")
    go_to(olga, server, run)
    expect(olga.get_by_role("main")).to_contain_text("second person")
    expect(card(olga).locator("button[name=_action]")).to_have_count(0)


DEADLINE = """
from datetime import timedelta
from checkpoints.models import HumanRequest
for request in HumanRequest.objects.filter(run_id={run!r}):
    back = timedelta(seconds={seconds})
    HumanRequest.objects.filter(pk=request.pk).update(
        created=request.created - back, due=request.due - back, alarm=request.alarm - back
    )
"""


@pytest.mark.nightly
def test_a_deadline_that_passes_brings_the_next_in_line_and_then_decides(person: OpenPage, server: Server) -> None:
    policy = {"by": "finance", "due": "2h", "escalate": "cfo", "on_timeout": "reject"}
    (run,) = start(server, {"subject": "Refund nobody looks at?", "policy": policy})
    cem = person("cem")
    cem.goto("/")
    expect(cem.get_by_role("main")).not_to_contain_text("Refund nobody looks at?")
    shell(server, DEADLINE.format(run=run, seconds=7201))
    row = cem.locator("#inbox-list").get_by_text("Refund nobody looks at?")
    fresh = cem.get_by_role("link", name=re.compile("Show [0-9]+ new requests?"))
    expect(row.or_(fresh).first).to_be_visible(timeout=LATER)
    cem.goto("/")
    expect(row).to_be_visible()
    go_to(cem, server, run)
    expect(cem.get_by_role("main")).to_contain_text("escalated to cfo")
    shell(server, DEADLINE.format(run=run, seconds=7201))
    assert wait_for_phase(server, run, "failed")["replies"] == [[None, "reject", "rejected", "deadline"]]


def test_an_answer_can_be_taken_back_for_some_seconds_even_after_the_next_has_opened(
    person: OpenPage, server: Server
) -> None:
    (run,) = start(server, {"subject": "Refund by mistake?"})
    ana = person("ana")
    open_request(ana, "Refund by mistake?")
    act(ana, "approve")
    expect(ana.get_by_role("region", name="Undo")).to_be_visible()
    # At once: a look into the database may take as long as the answer can be undone.
    ana.keyboard.press("u")
    expect(card(ana)).to_contain_text("Refund by mistake?")
    expect(ana.get_by_role("main")).to_contain_text("Decision undone")
    assert look(server, run)["open"]
    act(ana, "reject", {"Reason": "It was a mistake"}, open_fold=True)
    seen = wait_for_phase(server, run, "failed")
    assert [reply[1] for reply in seen["replies"]] == ["approve", "reject"]


@pytest.mark.nightly
def test_the_requester_is_asked_back_and_answers_and_then_it_is_decided(person: OpenPage, server: Server) -> None:
    (run,) = start(server, {"subject": "Refund for what?", "policy": {"undo": 0}})
    ana, olga = person("ana"), person("olga")
    request = go_to(ana, server, run)
    ana.get_by_label(re.compile("comment", re.I)).fill("Which order is it? @olga")
    ana.get_by_role("button", name="Ask olga").click()
    expect(ana.get_by_role("main")).to_contain_text("information requested from olga")
    olga.goto("/?tab=asked")
    expect(olga.locator("#inbox-list")).to_contain_text("Refund for what?", timeout=LATER)
    olga.goto(f"/requests/{request}/")
    olga.get_by_label(re.compile("reply", re.I)).fill("Order **4711**")
    olga.get_by_role("button", name="Reply").click()
    expect(ana.locator("#request-thread")).to_contain_text("Order 4711", timeout=LATER)
    expect(ana.get_by_role("main")).not_to_contain_text("information requested from olga")
    act(ana, "approve")
    wait_for_phase(server, run, "completed")


def test_a_half_written_answer_survives_a_reload_and_another_device(person: OpenPage, server: Server) -> None:
    (run,) = start(server, {"subject": "Refund in two sittings?", "policy": {"undo": 0}})
    ana = person("ana")
    request = go_to(ana, server, run)
    fold = card(ana).locator("details.action").filter(has=ana.locator("button[value=reject]"))
    fold.locator("summary").first.click()
    with ana.expect_response(lambda response: "/draft/" in response.url):
        fold.get_by_label("Reason").first.press_sequentially("I have to ask first")
    ana.reload()
    expect(ana.get_by_role("main")).to_contain_text("Draft restored")
    other = person("ana")
    other.goto(f"/requests/{request}/")
    expect(card(other).get_by_label("Reason").first).to_have_value("I have to ask first")
    # Decided here: a card with a draft opens its sheet wherever it is the next one.
    act(other, "reject", open_fold=True)
    wait_for_phase(server, run, "failed")
    assert [reply[:2] for reply in look(server, run)["replies"]] == [["ana", "reject"]]


def press(place: Locator) -> None:
    """Press with the thumb that holds the phone: it reaches the lower half, and what nothing lies over."""
    expect(place).to_be_visible()
    box = place.bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= THUMB, box
    assert PHONE["height"] / 2 <= box["y"] + box["height"] / 2, box
    assert box["y"] + box["height"] <= PHONE["height"], box
    place.tap()


@pytest.mark.nightly
def test_one_thumb_decides_says_why_and_takes_it_back(open_context: OpenContext, server: Server) -> None:
    (run,) = start(server, {"subject": "Refund on the train?", "policy": {"due": "3h"}})
    context = open_context(base_url=server.url, viewport=PHONE, has_touch=True, is_mobile=True)
    page = context.new_page()
    sign_in(page, server.link_for("ana"))
    # Of this request alone: the next one may have a draft of another story, and open its sheet.
    page.goto("/?q=train")
    page.locator("#inbox-list").get_by_role("link", name=re.compile("Refund on the train")).first.tap()
    expect(card(page)).to_be_visible()
    check_no_sideways_scrolling(page)
    check_accessibility(page)
    buttons = card(page).locator(".dock .button:visible")
    boxes = [box for button in buttons.all() if (box := button.bounding_box())]
    assert len({box["y"] for box in boxes}) == 1
    dock = card(page).locator(".dock").bounding_box()
    assert dock is not None
    assert dock["height"] <= MOST_DOCK
    press(card(page).get_by_text("More", exact=True))
    assert all(min(box["width"], box["height"]) >= THUMB and box["y"] > 844 - 2 * THUMB for box in boxes), boxes
    fold = card(page).locator("details.action").filter(has=page.locator("button[value=reject]"))
    press(fold.locator("summary").first)
    reason = fold.get_by_label("Reason").first
    press(reason)
    reason.fill("Not from a train")
    press(fold.locator("button[value=reject]"))
    # As long as its sheet is open, the undo is above it.
    expect(page.locator(".dock .action[open]")).to_have_count(0)
    press(page.get_by_role("region", name="Undo").get_by_role("button", name=re.compile("^Undo")).first)
    expect(page.get_by_role("region", name="Undo")).to_have_count(0)
    go_to(page, server, run)
    press(card(page).locator(".dock button[value=approve]").first)
    wait_for_phase(server, run, "completed")
    assert [reply[:2] for reply in look(server, run)["replies"]][-1] == ["ana", "approve"]
