"""Timers on hand-set rows: what has to happen happens once, in order, however many sweep and however late."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections
from django.utils import timezone

from checkpoints.models import Answer, AuditEntry, Event, HumanRequest, Notice, Reply, Run
from wfdash.access.viewer import Viewer
from wfdash.actions.requests.answer import answer_request, undo_answer
from wfdash.actions.requests.deadlines import due_moments, extend_deadline, fire_alarms
from wfdash.actions.runs.lifecycle import retry_run
from wfdash.domain.errors import AlreadyAnswered, Invalid, NotAllowed, WrongState
from wfdash.questions.policy import Policy

Ask = Callable[..., HumanRequest]
Person = Callable[..., Viewer]
HOUR = timedelta(hours=1)


@pytest.fixture
def timed(ask: Ask) -> Callable[..., HumanRequest]:
    """Ask under a policy, as if it had opened that long ago."""

    def make(policy: Policy, ago: timedelta, key: str = "review:0", **facts: Any) -> HumanRequest:
        opened = timezone.now() - ago
        due = opened + policy.due if policy.due else None
        terms = {"policy": policy.stored(), "due": due, "alarm": policy.next_alarm(opened, due, opened)}
        return ask(key, created=opened, by=list(policy.by), **{**terms, **facts})

    return make


def kinds(request: HumanRequest) -> list[str]:
    return list(Event.objects.filter(run=request.run_id).order_by("seq").values_list("kind", flat=True))


def told(kind: str) -> list[str]:
    return sorted(Notice.objects.filter(kind=kind).values_list("user__username", flat=True))


def again(request: HumanRequest) -> HumanRequest:
    return HumanRequest.objects.select_related("run").get(pk=request.pk)


def test_a_reminder_goes_to_those_who_may_answer_and_the_next_alarm_is_the_deadline(timed, person: Person) -> None:
    person("ana", "reviewer")
    person("vera", "viewer")
    request = timed(Policy(due="4h", remind="1h", on_timeout="reject"), 3.5 * HOUR)
    assert fire_alarms() == 1
    assert kinds(request) == ["request.reminded"]
    assert told("reminder") == ["ana"]
    assert again(request).alarm == request.due
    assert fire_alarms() == 0


def test_nothing_happens_before_its_time_nor_to_what_is_no_longer_open(timed, person: Person, run: Run) -> None:
    policy = Policy(due="4h", on_timeout="reject")
    timed(policy, HOUR, "early")
    closed = timed(policy, 5 * HOUR, "closed")
    HumanRequest.objects.filter(pk=closed.pk).update(closed=timezone.now(), closed_as="withdrawn")
    assert fire_alarms() == 0
    timed(policy, 5 * HOUR, "of a cancelled run")
    Run.objects.filter(pk=run.pk).update(phase="cancelled")
    assert fire_alarms() == 0


def test_escalation_lets_one_more_answer(timed, person: Person) -> None:
    ana, cfo = person("ana", "reviewer"), person("cfo", "reviewer")
    request = timed(Policy(by="ana", due="4h", escalate="cfo", on_timeout="reject"), 4.5 * HOUR)
    with pytest.raises(NotAllowed):
        answer_request(cfo, request.pk, {"action": "approve"})
    assert fire_alarms() == 1
    assert (kinds(request), told("escalated")) == (["request.escalated"], ["cfo"])
    assert again(request).by == ["ana", "cfo"]
    answer_request(cfo, request.pk, {"action": "approve"})
    with pytest.raises(AlreadyAnswered):
        answer_request(ana, request.pk, {"action": "approve"})


def test_a_request_for_everybody_stays_so_when_it_is_escalated(timed, person: Person) -> None:
    person("ana", "reviewer")
    person("boss", "reviewer").user.groups.add(Group.objects.create(name="chiefs"))
    request = timed(Policy(escalate="chiefs", escalate_after="1h"), 2 * HOUR)
    fire_alarms()
    assert (again(request).by, told("escalated")) == ([], ["boss"])


def test_at_the_deadline_the_default_answer_counts_and_the_run_goes_on(timed, person: Person) -> None:
    request = timed(Policy(due="4h", on_timeout="reject"), 5 * HOUR)
    assert fire_alarms() == 1
    answer, reply = Answer.objects.get(), Reply.objects.get()
    assert (answer.value, answer.verdict, answer.by) == ({"action": "reject"}, "reject", None)
    assert (reply.via, reply.stands, reply.by) == ("deadline", "rejected", None)
    assert kinds(request) == ["request.answered"]
    assert again(request).run.phase == "ready"
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.verb, entry.request) == ("a deadline", "answer", request.pk)
    with pytest.raises(AlreadyAnswered, match="a deadline"):
        answer_request(person("ana", "reviewer"), request.pk, {"action": "approve"})


def test_a_deadline_may_fail_the_run_and_leave_the_question_open(timed, person: Person, run: Run) -> None:
    otto = person("otto", "operator")
    request = timed(Policy(due="4h", on_timeout="fail"), 5 * HOUR, card={"subject": "Pay 900?"})
    fire_alarms()
    run.refresh_from_db()
    assert (run.phase, run.error["type"], run.epoch) == ("failed", "DeadlinePassed", 1)
    assert "Pay 900?" in run.error["message"]
    assert (again(request).closed, again(request).alarm) == (None, None)
    answer_request(otto, request.pk, {"action": "approve"})
    assert retry_run(otto, run.pk).phase == "ready"


def test_a_default_answer_that_does_not_fit_fails_the_run_instead(timed, run: Run) -> None:
    timed(Policy(due="4h", on_timeout={"action": "dance"}), 5 * HOUR)
    fire_alarms()
    run.refresh_from_db()
    assert run.phase == "failed"
    assert not Answer.objects.exists()


def test_a_paused_run_is_not_failed_by_a_deadline(timed, run: Run) -> None:
    timed(Policy(due="4h", on_timeout="fail"), 5 * HOUR)
    Run.objects.filter(pk=run.pk).update(phase="paused")
    fire_alarms()
    run.refresh_from_db()
    assert run.phase == "paused"


def test_a_late_sweep_does_everything_in_order_but_remind_of_what_has_passed(timed, person: Person) -> None:
    person("cfo", "reviewer")
    policy = Policy(by="ana", due="4h", remind="1h", escalate="cfo", on_timeout="reject")
    request = timed(policy, 9 * HOUR)
    assert fire_alarms() == 1
    assert kinds(request) == ["request.escalated", "request.answered"]
    assert told("reminder") == []


def test_the_oldest_alarms_go_off_first_and_a_sweep_does_only_so_many(timed) -> None:
    policy = Policy(due="4h", on_timeout="reject")
    old, older = timed(policy, 5 * HOUR, "a"), timed(policy, 6 * HOUR, "b")
    assert fire_alarms(limit=1) == 1
    assert [again(request).answered is None for request in (old, older)] == [True, False]
    assert fire_alarms() == 1


def test_an_answer_that_may_still_be_taken_back_wins_over_the_deadline(timed, person: Person, settings) -> None:
    settings.WFDASH_UNDO = 60
    ana = person("ana", "reviewer")
    request = timed(Policy(due="4h", on_timeout="reject"), 4 * HOUR - timedelta(seconds=1))
    answer_request(ana, request.pk, {"action": "approve"}, undo=True)
    HumanRequest.objects.update(alarm=timezone.now() - HOUR, due=timezone.now() - HOUR)
    assert fire_alarms() == 0
    undo_answer(ana, request.pk)
    assert fire_alarms() == 1
    assert Answer.objects.get().verdict == "reject"


def test_anyone_who_voted_already_is_not_reminded(timed, person: Person) -> None:
    ana, _ = person("ana", "reviewer"), person("ben", "reviewer")
    request = timed(Policy(need=2, due="4h", remind="1h"), 3.5 * HOUR)
    answer_request(ana, request.pk, {"action": "approve"})
    fire_alarms()
    assert told("reminder") == ["ben"]


def test_moving_the_deadline_moves_its_alarms(timed, person: Person) -> None:
    otto, ana = person("otto", "operator"), person("ana", "reviewer")
    request = timed(Policy(due="4h", remind="1h", on_timeout="reject"), 3.5 * HOUR)
    fire_alarms()
    later = timezone.now() + 10 * HOUR
    with pytest.raises(NotAllowed):
        extend_deadline(ana, request.pk, later)
    with pytest.raises(Invalid):
        extend_deadline(otto, request.pk, timezone.now() - HOUR)
    HumanRequest.objects.update(assignee=ana.user)
    extend_deadline(ana, request.pk, later)
    moved = again(request)
    assert (moved.due, moved.alarm) == (later, later - HOUR)
    assert kinds(request)[-1] == "request.extended"
    assert AuditEntry.objects.filter(verb="extend", actor="ana").exists()
    answer_request(otto, request.pk, {"action": "approve"})
    with pytest.raises(WrongState):
        extend_deadline(otto, request.pk, later)


def test_an_alarm_set_by_a_clock_that_is_a_little_ahead_is_not_lost() -> None:
    opened = datetime.fromisoformat("2026-01-05T09:00:00+00:00")
    policy = Policy(escalate="cfo", escalate_after="1h")
    for drift in (timedelta(seconds=-2), timedelta(), timedelta(seconds=2)):
        alarm = opened + HOUR + drift
        assert due_moments(policy, opened, None, alarm, alarm) == (["escalate"], None)


def test_an_alarm_without_a_policy_does_nothing_and_is_cleared(ask: Ask) -> None:
    request = ask(alarm=timezone.now() - HOUR)
    assert fire_alarms() == 1
    assert (kinds(request), again(request).alarm) == ([], None)


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Call them in threads at the same moment; returns what came of each, errors too."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> object:
        gate.wait()
        try:
            return call()
        except Exception as error:
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.mark.django_db(transaction=True)
def test_two_sweepers_fire_each_alarm_once(timed, person: Person) -> None:
    person("ana", "reviewer")
    requests = [timed(Policy(due="4h", remind="1h", on_timeout="reject"), 3.5 * HOUR, f"r{n}") for n in range(30)]
    fired = at_once(fire_alarms, fire_alarms)
    assert sum(int(count) for count in fired) == 30, fired
    assert kinds(requests[0]).count("request.reminded") == 30
    assert Notice.objects.filter(kind="reminder").count() == 30
    assert AuditEntry.objects.count() == 30


@pytest.mark.django_db(transaction=True)
def test_of_an_answer_and_a_deadline_exactly_one_wins(timed, person: Person) -> None:
    ana = person("ana", "reviewer")
    won = {"approve": 0, "reject": 0}
    for n in range(200):
        request = timed(Policy(due="4h", on_timeout="reject"), 5 * HOUR, f"r{n}")
        answered, fired = at_once(
            lambda request=request: answer_request(ana, request.pk, {"action": "approve"}), fire_alarms
        )
        answer = Answer.objects.get(request=request)
        won[answer.verdict] += 1
        assert (answer.verdict == "reject") == (fired == 1) == isinstance(answered, AlreadyAnswered), (answered, fired)
        assert Reply.objects.filter(request=request).count() == 1
        assert Event.objects.filter(kind="request.answered").count() == n + 1
    print(won)
