"""An answer takes over what was found of its request where nothing has happened since, and looks again where it has."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.events import EventKind
from checkpoints.models import Event, HumanRequest, Reply, Run
from tests.actions.requests.conftest import told
from wfdash.actions.common import append_request_event, find_request, lock_as_found
from wfdash.actions.requests.answer import answer_request, marks_of, undo_answer
from wfdash.actions.requests.collaboration import amend_request, ask_back, assign_request, comment_on
from wfdash.actions.requests.deadlines import extend_deadline
from wfdash.actions.runs.cancellation import cancel_run
from wfdash.domain.errors import AlreadyAnswered, NoLongerOpen
from wfdash.domain.hash_chain import fingerprint

pytestmark = pytest.mark.django_db
YES = {"action": "approve"}


def look_ups(seen: CaptureQueriesContext) -> int:
    return len(
        [one for one in seen if one["sql"].startswith("SELECT") and 'FROM "checkpoints_humanrequest"' in one["sql"]]
    )


def numbers(run: Run) -> list[int]:
    return list(Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))


def test_a_request_to_which_nothing_happened_is_looked_up_once(person, ask, run) -> None:
    with CaptureQueriesContext(connection) as seen:
        answer_request(person("ana", "reviewer"), ask().id, YES)
    assert look_ups(seen) == 1
    run.refresh_from_db()
    assert numbers(run) == [*range(1, run.seq + 1)]


@pytest.mark.parametrize("change", ["seq", "n", "epoch", "phase", "deleted"])
def test_whatever_happens_to_a_run_is_noticed(change, person, ask, run) -> None:
    ana = person("ana", "reviewer")
    found = find_request(ana, ask().id, marks_of)
    rows = Run.objects.filter(pk=run.pk)
    if change == "deleted":
        HumanRequest.objects.all().delete()
        rows.delete()
    else:
        rows.update(**{change: "failed" if change == "phase" else getattr(found.run, change) + 1})
    assert not lock_as_found(found.run, wake=True)
    assert not lock_as_found(found.run, wake=False)


@pytest.mark.parametrize("act", ["amend", "assign", "comment", "ask back", "extend", "vote", "undo", "cancel"])
def test_whatever_an_answer_depends_on_changes_with_an_event_of_the_run(act, person, ask, run) -> None:
    ana, otto = person("ana", "reviewer"), person("otto", "operator")
    request = ask(policy={"need": 2})
    if act == "undo":
        answer_request(otto, request.id, YES)
    found = find_request(ana, request.id, marks_of)
    acts = {
        "amend": lambda: amend_request(otto, request.id, body="More"),
        "assign": lambda: assign_request(otto, request.id, "ana"),
        "comment": lambda: comment_on(otto, request.id, "Well"),
        "ask back": lambda: ask_back(otto, request.id, "Why?"),
        "extend": lambda: extend_deadline(otto, request.id, timezone.now() + timedelta(days=1)),
        "vote": lambda: answer_request(otto, request.id, YES),
        "undo": lambda: undo_answer(otto, request.id),
        "cancel": lambda: cancel_run(otto, run.id),
    }
    acts[act]()
    assert not lock_as_found(found.run, wake=True)


def test_an_answer_to_what_was_found_before_it_changed_is_given_to_what_it_is_now(person, ask, run) -> None:
    ana, otto, request = person("ana", "reviewer"), person("otto", "operator"), ask()
    found = find_request(ana, request.id, marks_of)
    comment_on(otto, request.id, "Careful")
    amend_request(otto, request.id, body="More")
    answer_request(ana, request.id, YES, found=found)
    changed = HumanRequest.objects.get(pk=request.pk)
    assert Reply.objects.get().seen == fingerprint(changed.card, changed.answer_schema)
    assert "decided" in told("otto")
    run.refresh_from_db()
    assert numbers(run) == [*range(1, run.seq + 1)]


def test_of_two_who_found_it_open_the_first_answers(person, ask) -> None:
    ana, ben, request = person("ana", "reviewer"), person("ben", "reviewer"), ask()
    found = find_request(ben, request.id, marks_of)
    answer_request(ana, request.id, YES)
    with pytest.raises(AlreadyAnswered) as refused:
        answer_request(ben, request.id, YES, found=found)
    assert refused.value.facts["by"] == "ana"


def test_a_request_that_was_closed_since_takes_no_answer(person, ask, run) -> None:
    ana, request = person("ana", "reviewer"), ask()
    found = find_request(ana, request.id, marks_of)
    cancel_run(person("otto", "operator"), run.id)
    with pytest.raises(NoLongerOpen):
        answer_request(ana, request.id, YES, found=found)
    assert not Reply.objects.exists()


def test_an_event_that_was_counted_with_the_lock_is_not_given_up_for_another(person, ask) -> None:
    found = find_request(person("ana", "reviewer"), ask().id, marks_of)
    assert lock_as_found(found.run, wake=True)
    with pytest.raises(RuntimeError, match="another event"):
        append_request_event(found, EventKind.REQUEST_VOTED)
