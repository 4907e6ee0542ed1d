"""The deadlines job of a worker: due work is done in time, whichever process sweeps, also after a restart."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Answer, Event, HumanRequest, Notice, Run
from tests.people import ACTIONS, DECISION
from tests.worker.conftest import until
from wfdash.access.viewer import Viewer
from wfdash.actions.requests.answer import answer_request
from wfdash.questions.policy import Policy
from wfdash.worker import sweeps
from wfdash.worker.process import EmbeddedWorker

Start = Callable[..., EmbeddedWorker]
SECOND = timedelta(seconds=1)


@pytest.fixture
def ask(transactional_db) -> Callable[..., HumanRequest]:
    run_id = ids.new_run_id()
    now = timezone.now()
    run = Run.objects.create(
        id=run_id, family=run_id, workflow="script", version="v1", phase="waiting", created=now, updated=now
    )

    def make(policy: Policy, opened: datetime, **facts: Any) -> HumanRequest:
        due = opened + policy.due if policy.due else None
        return HumanRequest.objects.create(
            id=ids.new_request_id(),
            run=run,
            key=f"review:{HumanRequest.objects.count()}",
            workflow="script",
            step="review",
            kind="approval",
            card={"subject": "Pay?", "actions": ACTIONS},
            answer_schema=DECISION,
            created=opened,
            due=due,
            policy=policy.stored(),
            alarm=policy.next_alarm(opened, due, opened),
            **facts,
        )

    return make


@pytest.mark.alone
def test_a_deadline_passes_within_a_tenth_of_a_second(ask, start_worker: Start) -> None:
    start_worker()
    due = timezone.now() + 2 * SECOND
    request = ask(Policy(due=2, on_timeout="reject"), due - 2 * SECOND)
    until(lambda: Answer.objects.filter(request=request).exists())
    late = (Answer.objects.get().at - due).total_seconds()
    assert 0 <= late < 0.3, late


@pytest.mark.alone
def test_an_answer_takes_effect_when_it_can_no_longer_be_taken_back(ask, otto: Viewer, start_worker, settings) -> None:
    settings.WFDASH_UNDO = 1.5
    start_worker()
    request = ask(Policy(), timezone.now())
    reply = answer_request(otto, request.pk, {"action": "approve"}, undo=True)
    until(lambda: Answer.objects.filter(request=request).exists())
    request.refresh_from_db()
    late = (request.answered - reply.settles).total_seconds()
    assert 0 <= late < 0.3, late


def test_what_became_due_while_no_worker_ran_is_done_in_order_once_one_does(ask, otto, start_worker: Start) -> None:
    policy = Policy(due="4h", remind="1h", escalate="otto", on_timeout="reject")
    overdue = [ask(policy, timezone.now() - timedelta(hours=9 + n)) for n in range(5)]
    worker = start_worker()
    until(lambda: Answer.objects.count() == 5)
    worker.stop()
    start_worker()
    fresh = ask(Policy(due=1, on_timeout="reject"), timezone.now())
    until(lambda: Answer.objects.filter(request=fresh).exists())
    kinds = list(Event.objects.filter(data__request=overdue[0].pk).order_by("seq").values_list("kind", flat=True))
    assert kinds == ["request.escalated", "request.answered"]
    assert Answer.objects.count() == 6


def test_those_who_may_answer_hear_of_what_has_opened(ask, otto: Viewer, start_worker: Start) -> None:
    start_worker()
    ask(Policy(), timezone.now())
    until(lambda: Notice.objects.filter(kind="opened", user=otto.user).exists())


def test_the_next_sweep_comes_when_something_is_due(ask, monkeypatch) -> None:
    monkeypatch.setattr(sweeps, "DEADLINE_SECONDS", 600)
    assert sweeps.sweep_deadlines() == 600
    ask(Policy(due=300, on_timeout="reject"), timezone.now())
    assert 0 < sweeps.sweep_deadlines() <= 300


def test_what_becomes_due_during_a_sweep_is_done_at_once_by_the_next(ask, monkeypatch) -> None:
    def slow(limit: int) -> int:
        ask(Policy(due=0.001, on_timeout="reject"), timezone.now())
        until(lambda: HumanRequest.objects.get().alarm < timezone.now())
        return 0

    monkeypatch.setattr("wfdash.actions.requests.announce.announce_opened", slow)
    assert sweeps.sweep_deadlines() == 0


def test_one_kind_of_work_that_fails_does_not_stop_the_others(ask, monkeypatch, caplog) -> None:
    def broken(limit: int) -> int:
        raise RuntimeError("no")

    monkeypatch.setattr("wfdash.actions.requests.finalize.finalize_due", broken)
    ask(Policy(due=1, on_timeout="reject"), timezone.now() - 2 * SECOND)
    sweeps.sweep_deadlines()
    assert Answer.objects.count() == 1
    assert "Could not process what is due (broken)" in caplog.text


def test_a_sweep_with_nothing_to_do_asks_little(ask, django_assert_max_num_queries) -> None:
    sweeps.sweep_deadlines()
    with django_assert_max_num_queries(14):
        sweeps.sweep_deadlines()
