from __future__ import annotations

import re

import pytest

from checkpoints.models import Event, HumanRequest, Run
from wfdash.pages.act import VERBS
from wfdash.pages.words import cancelled, describe

pytestmark = pytest.mark.django_db


def test_before_cancelling_everything_that_is_open_is_shown_and_nothing_is_done(run, as_):
    page = as_("otto").get(f"/runs/{run.pk}/cancel/").content.decode()
    for request in HumanRequest.objects.filter(run=run, closed=None, answered=None):
        assert request.card["subject"] in page
    assert "Cancel now" in page
    assert "Cancel after the step" not in page, "nothing runs"
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
        assert VERBS["pause"].said in answer.content.decode()
    assert Event.objects.filter(run=run, kind="run.paused").count() == 1


def test_an_ended_run_is_not_offered_to_be_cancelled(run, as_):
    Run.objects.filter(pk=run.pk).update(phase="completed")
    client = as_("otto")
    assert "Cancel now" not in client.get(f"/runs/{run.pk}/cancel/").content.decode()
    answer = client.post(f"/runs/{run.pk}/cancel/", follow=True)
    assert "cannot be told to cancel" in answer.content.decode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "Cancelled. Its open requests are closed."),
        (
            {"fenced": ["charge"]},
            (
                "Cancelled: “Charge” ran and was cut off, so what it did outside may have happened."
                " Its open requests are closed."
            ),
        ),
        (
            {"after": "charge"},
            "Cancelled: “Charge” was let end, and no other step began. Its open requests are closed.",
        ),
        (
            {"unsure": ["bank.transfer"]},
            "Cancelled: nobody knows whether “bank.transfer” happened: look outside. Its open requests are closed.",
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
