"""Where a run stands, in words."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from checkpoints.models import Run
from checkpoints.records import Status
from tests import people
from wfdash.queries.requests.inbox import requests_of
from wfdash.queries.runs.listing import RunView, read_run
from wfdash.queries.runs.logs import Intervention
from wfdash.records.runs import RunError
from wfdash.web.pages.runs.header import (
    ANY,
    CHANGED,
    HINTS,
    TRANSIENT,
    hint,
    intervention_sentences,
    plain,
    status_sentence,
)

NOW = people.THEN + timedelta(hours=3)


@pytest.fixture
def header(run):
    return read_run(people.viewer("otto"), run.pk)


def told(header: RunView, status: str, *more: Any, **facts: Any) -> str:
    return plain(status_sentence(header.model_copy(update={"status": Status(status), **facts}), *more), NOW)


def intervention(kind: str, at: datetime = people.THEN, **data: Any) -> Intervention:
    return Intervention.trusted(run="r", seq=7, kind=kind, step=None, data=data, at=at)


def test_a_waiting_run_says_for_whom_since_when_and_until_when(run, header):
    due = NOW + timedelta(minutes=40)
    people.ask(run, "Pay 900?", by=["finance"], created=NOW - timedelta(hours=2), due=due)
    people.ask(run, "Pay 7?", by=["ana", "finance"], created=NOW - timedelta(hours=1))
    asked = requests_of(people.viewer("otto"), run.pk)
    words = told(header, "waiting", asked)
    assert words.startswith("Waiting for ana and finance for 2 h: “Pay 7?” and 1 more, due in 40 min")


def test_a_run_that_waits_for_anyone_and_for_a_time_says_both(run, header):
    people.ask(run, "Pay?", created=NOW - timedelta(minutes=1))
    asked = requests_of(people.viewer("otto"), run.pk)
    words = told(header, "waiting", asked, wake_at=NOW + timedelta(minutes=5))
    assert words == "Waiting for an answer for 1 min: “Pay?”; another step resumes in 5 min"


@pytest.mark.parametrize(
    ("status", "facts", "words"),
    [
        ("retrying", {"retry": {"attempt": 2, "attempts": 5}}, "Retrying Pay: attempt 2 of 5 in 30 s"),
        ("sleeping", {}, "Sleeping in Pay, wakes in 30 s"),
        ("queued", {}, "Queued for 3 h"),
        ("completed", {}, "Completed 5 min ago in 2 h 55 min"),
        ("held", {}, "On hold: workflow changed, no migration defined"),
    ],
)
def test_every_status_is_a_sentence(status, facts, words, header):
    times = {"wake_at": NOW + timedelta(seconds=30), "finished": NOW - timedelta(minutes=5), "step": "pay"}
    assert told(header, status, **times, **facts) == words


def test_a_failed_run_says_when_and_where_and_leaves_why_to_the_box_of_the_error(header):
    error = RunError(type="CardDeclined", message="no\nfunds " * 30, step="part/charge")
    course = (intervention("run.failed", NOW - timedelta(minutes=5)),)
    assert told(header, "failed", (), course, error=error) == "Failed 5 min ago in Charge"


def test_a_run_says_who_stopped_it_and_what_it_is_running(header):
    course = (intervention("run.paused", NOW - timedelta(minutes=5)),)
    assert told(header, "paused", (), course, acted_by="otto") == "Paused by otto 5 min ago. Answers are kept."
    busy = {"read": NOW - timedelta(minutes=3), "pay": NOW - timedelta(minutes=9)}
    assert told(header, "running", (), (), busy) == "Running Read claims and Pay, for 9 min."
    assert "It is cancelled after" in told(header, "running", (), (intervention("run.ending", by="otto"),), busy)


def test_a_run_that_no_one_can_answer_says_so_and_offers_the_missing_group(run, header, as_):
    asked = people.ask(run, "Pay?", by=["legal"], created=NOW - timedelta(hours=1), stuck="nobody")
    words = told(header, "waiting", requests_of(people.viewer("otto"), run.pk))
    assert words.startswith("No one can answer: waiting for legal for 1 h: “Pay?”")
    heads = {name: as_(name).get(f"/runs/{run.pk}/?fragment=head").content.decode() for name in ("otto", "adam")}
    assert 'name="name" value="legal"' in heads["adam"]
    assert 'name="name"' not in heads["otto"]
    assert f'<a href="/requests/{asked.pk}/">What helps</a>' in heads["otto"]


def test_a_changed_course_is_marked_forever():
    course = (
        intervention("run.restored", by="ana", n=9),
        intervention("run.paused"),
        intervention("run.edited", by="otto", n=12),
    )
    assert [(seq, plain(sentence, NOW)) for seq, sentence in intervention_sentences(course)] == [
        (7, "Restored from an earlier checkpoint by ana 3 h ago, as checkpoint 9"),
        (7, "Edited by otto 3 h ago, as checkpoint 12"),
    ]


def test_what_was_done_before_a_fork_is_told_too():
    ((seq, sentence), _) = intervention_sentences((intervention("run.edited", by="otto"),), "restored,edited")
    assert (seq, plain(sentence, NOW)) == (0, "Forked from a run that was restored")


def test_a_restored_run_says_so_on_its_page(run, as_):
    people.happen(run, ("run.restored", None, {"by": "ana", "checkpoint": "c", "n": 4}))
    Run.objects.filter(pk=run.pk).update(altered="restored")
    page = as_("otto").get(f"/runs/{run.pk}/").content.decode()
    assert "Restored from an earlier checkpoint by ana" in page
    assert f'href="/runs/{run.pk}/events/?seq=1#e1"' in page


@pytest.mark.parametrize(
    ("kind", "helps"),
    [
        ("StateConflict", HINTS["StateConflict"]),
        ("pydantic_core.ValidationError", HINTS["ValidationError"]),
        ("httpx.ConnectTimeout", TRANSIENT),
        ("ConnectionResetError", TRANSIENT),
        ("CardDeclined", ANY + CHANGED),
        ("", ANY + CHANGED),
    ],
)
def test_every_error_has_a_hint(kind, helps):
    assert hint(RunError(type=kind)) == helps
    assert hint(None) == ANY + CHANGED
    assert "restart" not in hint(None, reloads=True)


def test_every_error_of_workflows_that_can_fail_a_run_has_a_hint_of_its_own():
    from wfdash.workflow import errors

    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.WorkflowError)
    ]
    missing = {kind.__name__ for kind in kinds} - HINTS.keys() - {"WorkflowError", "InvalidCall"}
    assert missing == set()
