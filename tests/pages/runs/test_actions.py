from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from checkpoints.models import Event, HumanRequest, Run
from wfdash.web.pages.runs.actions import ACTIONS, RunButton, next_action
from wfdash.web.pages.ui.event_text import cancelled, describe

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
    assert "Cannot cancel a run" in client.post(f"/runs/{run.pk}/cancel/", follow=True).content.decode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "Cancelled. Its open requests are closed."),
        (
            {"fenced": ["charge"]},
            ("Cancelled: “Charge” interrupted; external effects possible. Its open requests are closed."),
        ),
        ({"after": "charge"}, "Cancelled: “Charge” finished, no other step started. Its open requests are closed."),
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


def lead_of(client, run):
    return client.get(f"/runs/{run.pk}/?fragment=head").context["lead"]


def test_the_next_action_of_a_waiting_run_is_to_review_it_for_those_who_may_answer(run, question, as_):
    lead = lead_of(as_("ben"), run)
    assert (lead.verb.label, lead.address) == ("Review request", f"/requests/{question.pk}/")
    assert lead_of(as_("vera"), run) is None


@pytest.mark.parametrize(("phase", "label"), [("failed", "Retry"), ("paused", "Resume"), ("completed", None)])
def test_the_next_action_stands_apart_and_is_not_repeated_in_the_menu(phase, label, run, as_):
    Run.objects.filter(pk=run.pk).update(phase=phase, acted_by="otto")
    client = as_("otto")
    lead = lead_of(client, run)
    assert (lead.verb.label if lead else None) == label
    head = client.get(f"/runs/{run.pk}/?fragment=head").content.decode()
    menu = head[head.index('id="run-actions"') :]
    assert label is None or f"> {label}" not in menu.replace("\n", " ")
    assert "Run again…" in menu


def test_a_run_that_waits_for_a_signal_offers_to_send_it():
    buttons = [RunButton(verb=ACTIONS[name], address="/there/") for name in ("pause", "signal")]
    waits = SimpleNamespace(status=SimpleNamespace(value="waiting"), signal="go")
    lead = next_action(waits, buttons)
    assert (lead.verb.label, lead.verb.style) == ("Send signal…", "primary")
    assert next_action(SimpleNamespace(status=waits.status, signal=""), buttons) is None


def test_who_may_not_operate_has_no_menu(run, as_):
    assert 'id="run-actions"' not in as_("vera").get(f"/runs/{run.pk}/").content.decode()
