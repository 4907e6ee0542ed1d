from __future__ import annotations

import re

import pytest

from checkpoints.models import Event, HumanRequest, Run
from wfdash.pages.runs.actions import ACTIONS
from wfdash.pages.ui.event_text import cancelled, describe

pytestmark = pytest.mark.django_db


def test_before_cancelling_everything_that_is_open_is_shown_and_nothing_is_done(run, as_):
    page = as_("otto").get(f"/runs/{run.pk}/cancel/").content.decode()
    for request in HumanRequest.objects.filter(run=run, closed=None, answered=None):
        assert request.card["subject"] in page
    assert "Cancel now" in page
    assert "Cancel after current step" not in page, "nothing runs"
    run.refresh_from_db()
    assert run.phase == "waiting"


def test_cancelling_says_what_it_did(run, as_):
    answer = as_("otto").post(f"/runs/{run.pk}/cancel/", {"when": "now", "_key": "k"}, follow=True)
    assert "Cancelled. Its open requests are closed." in answer.content.decode()
    run.refresh_from_db()
    assert run.phase == "cancelled"


def test_a_form_that_is_sent_twice_is_done_once(run, as_):
    client = as_("otto")
    page = client.get(f"/runs/{run.pk}/").content.decode()
    key = re.search(r'name="_key" value="([\w-]+)"', page)[1]
    for _ in range(2):
        answer = client.post(f"/runs/{run.pk}/pause/", {"_key": key}, follow=True)
        assert ACTIONS["pause"].done in answer.content.decode()
    assert Event.objects.filter(run=run, kind="run.paused").count() == 1


def test_an_ended_run_is_not_offered_to_be_cancelled(run, as_):
    Run.objects.filter(pk=run.pk).update(phase="completed")
    client = as_("otto")
    assert "Cancel now" not in client.get(f"/runs/{run.pk}/cancel/").content.decode()
    answer = client.post(f"/runs/{run.pk}/cancel/", follow=True)
    assert "Cannot cancel a run" in answer.content.decode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "Cancelled. Its open requests are closed."),
        (
            {"fenced": ["charge"]},
            ("Cancelled: “Charge” interrupted; external effects possible. Its open requests are closed."),
        ),
        (
            {"after": "charge"},
            "Cancelled: “Charge” finished, no other step started. Its open requests are closed.",
        ),
        (
            {"unsure": ["bank.transfer"]},
            "Cancelled: outcome of “bank.transfer” unknown: check externally. Its open requests are closed.",
        ),
    ],
)
def test_what_was_cut_off_is_named(data, words):
    assert cancelled(data) == words
    assert describe("run.cancelled", "", {"by": "otto", **data}).startswith("Cancelled by otto")


def test_many_names_are_counted():
    told = cancelled({"fenced": [f"part_{n}" for n in range(8)]})
    assert "“Part 0”" in told
    assert "and 3 more" in told


def test_a_pause_that_is_on_its_way_is_not_offered_a_second_time(run, as_):
    pause = f'action="/runs/{run.pk}/pause/"'
    assert pause in as_("otto").get(f"/runs/{run.pk}/").content.decode()
    Run.objects.filter(pk=run.pk).update(ending="otto", ending_as="paused")
    assert pause not in as_("otto").get(f"/runs/{run.pk}/").content.decode()
