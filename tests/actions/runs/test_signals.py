from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints.models import Answer, AuditEntry, Event, HumanRequest, Notice, Run, Signal
from tests.actions.conftest import NOW
from tests.people import kinds
from wfdash.actions.requests import announce
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs import signals
from wfdash.actions.runs.lifecycle import retry_run
from wfdash.actions.runs.signals import send_signal
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState
from wfdash.queries.requests.inbox import TABS, count_open, count_tabs, read_inbox
from wfdash.queries.requests.request import read_request

pytestmark = pytest.mark.django_db
NUMBER = {"type": "integer"}


@pytest.fixture
def wait(ask):
    def make(name: str = "shipped", number: int = 0, **facts: Any) -> HumanRequest:
        facts = {"kind": "signal", "answer_schema": NUMBER, "step": "wait", **facts}
        card = {"subject": f"Waits for the signal {name!r}", "context": {"signal": name}}
        return ask(f"signal:{name}:wait-1.{number}", card=card, **facts)

    return make


@pytest.fixture
def otto(person):
    return person("otto", "operator")


def test_a_signal_reaches_the_step_that_waits_for_it(otto, run, wait) -> None:
    waiting = wait()
    assert send_signal(otto, run.id, "shipped", 7, others=["eve"]).taken == waiting.id
    assert Answer.objects.get().others == '["eve"]'
    answer = Answer.objects.get()
    assert (answer.request_id, answer.value, answer.by.username) == (waiting.id, 7, "otto")
    assert kinds(run) == ["signal.sent", "signal.received"]
    assert Event.objects.get(kind="signal.received").data["name"] == "shipped"
    run.refresh_from_db()
    assert run.phase == "ready"
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.right, entry.facts["name"]) == ("signal", "operate", "shipped")


def test_what_no_one_waits_for_yet_is_kept_and_received_in_order(otto, run, wait) -> None:
    for number in (1, 2, 3):
        assert send_signal(otto, run.id, "shipped", number).taken is None
    send_signal(otto, run.id, "paid", 9)
    first = wait()
    assert signals.match_waiting() == 1
    assert Answer.objects.get(request=first).value == 1
    second, third = wait(number=1), wait(number=2)
    assert signals.match_signals(run.id) == 2
    assert [Answer.objects.get(request=one).value for one in (second, third)] == [2, 3]
    wait(number=3)
    assert Signal.objects.get(taken=None).name == "paid"
    assert not signals.RECEIVABLE.exists(), "always found, it would be in the way of others"
    assert signals.match_waiting() == 0


def test_one_that_is_kept_is_received_before_one_that_is_sent_now(otto, run, wait) -> None:
    send_signal(otto, run.id, "shipped", 1)
    first, second = wait(), wait(number=1)
    send_signal(otto, run.id, "shipped", 2)
    assert [Answer.objects.get(request=one).value for one in (first, second)] == [1, 2]


def test_what_does_not_fit_the_step_that_waits_is_refused_at_its_field(otto, run, wait) -> None:
    wait(answer_schema={"type": "object", "properties": {"code": {"type": "string"}}})
    with pytest.raises(Invalid) as refused:
        send_signal(otto, run.id, "shipped", {"code": 3})
    assert refused.value.errors[0]["loc"] == ["value", "code"]
    assert not Signal.objects.exists()
    assert kinds(run) == []


def test_a_kept_one_that_does_not_fit_is_put_aside_and_those_behind_it_are_not_held_up(otto, run, wait) -> None:
    send_signal(otto, run.id, "shipped", "seven")
    send_signal(otto, run.id, "shipped", 7)
    wait()
    assert signals.match_waiting() == 1
    assert Answer.objects.get().value == 7
    assert kinds(run)[-2:] == ["signal.refused", "signal.received"]


def test_a_signal_goes_to_its_own_name_alone(otto, run, wait) -> None:
    wait("ship")
    wait("shipped.too", 1)
    wait("ship_ed", 2)
    assert send_signal(otto, run.id, "shipped", 1).taken is None
    assert signals.match_waiting() == 0
    assert send_signal(otto, run.id, "ship.ed", 1).taken is None


@pytest.mark.parametrize("name", ["", "a b", "a:b", "ä", "x" * 101])
def test_a_name_that_is_none_is_refused(otto, run, name) -> None:
    with pytest.raises(Invalid) as refused:
        send_signal(otto, run.id, name, 1)
    assert refused.value.errors[0]["loc"] == ["name"]


def test_a_value_that_cannot_be_stored_is_refused(otto, run) -> None:
    with pytest.raises(Invalid) as refused:
        send_signal(otto, run.id, "go", {"text": "\0"})
    assert refused.value.errors[0]["loc"] == ["value", "text"]


@pytest.mark.parametrize("phase", ["completed", "cancelled"])
def test_an_ended_run_takes_none(otto, run, phase) -> None:
    Run.objects.filter(pk=run.pk).update(phase=phase)
    with pytest.raises(WrongState, match=phase):
        send_signal(otto, run.id, "go")


def test_a_run_keeps_only_so_many(otto, run, monkeypatch) -> None:
    monkeypatch.setattr(signals, "MOST_KEPT", 2)
    send_signal(otto, run.id, "go")
    send_signal(otto, run.id, "go")
    with pytest.raises(WrongState, match="already has 2 unreceived signals"):
        send_signal(otto, run.id, "go")


def test_operators_and_those_who_may_start_runs_may_send_signals(person, run) -> None:
    for name, role, error in (("vera", "viewer", NotAllowed), ("ana", "reviewer", NotAllowed), ("sam", None, NotFound)):
        with pytest.raises(error):
            send_signal(person(name, role), run.id, "go")
    assert send_signal(person("adam", "admin"), run.id, "go").by.username == "adam"


def test_the_same_key_sends_it_once(otto, run, wait) -> None:
    wait()
    first = send_signal(otto, run.id, "shipped", 7, key="k")
    assert send_signal(otto, run.id, "shipped", 7, key="k").pk == first.pk
    assert kinds(run) == ["signal.sent", "signal.received"]


def test_no_inbox_holds_it_no_one_is_told_and_no_one_answers_it(otto, person, wait) -> None:
    ana, waiting = person("ana", "reviewer"), wait()
    for viewer in (ana, otto):
        assert count_open(viewer) == 0
        counts = count_tabs(viewer)
        assert set(counts.values()) == {0}
        assert all(not read_inbox(viewer, tab).items for tab in TABS)
        with pytest.raises(NotAllowed, match="waits for a signal"):
            answer_request(viewer, waiting.id, 7, override=viewer is otto, reason="now")
        assert "Waiting for a signal" in read_request(viewer, waiting.id).refusal
    assert announce.announce_opened() == 1
    send_signal(otto, waiting.run_id, "shipped", 7)
    assert not read_inbox(otto, "answered").items
    assert count_tabs(otto)["answered"] == 0
    assert not Notice.objects.exists()


def test_a_deadline_that_passes_lets_the_run_fail_and_a_signal_still_reaches_the_step(otto, run, wait) -> None:
    from wfdash.actions.requests.deadlines import fire_alarms

    now = timezone.now()
    waiting = wait(due=now, alarm=now, policy={"due": 1.0, "on_timeout": "fail"})
    fire_alarms()
    run.refresh_from_db()
    assert (run.phase, run.error["type"]) == ("failed", "DeadlinePassed")
    assert run.error["message"] == "Signal 'shipped' was not received in time"
    assert send_signal(otto, run.id, "shipped", 7).taken == waiting.id
    retry_run(otto, run.id)
    assert Run.objects.get(pk=run.pk).phase == "ready"


@given(st.lists(st.sampled_from(["send a", "send b", "wait a", "wait b", "sweep"]), max_size=14))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_comes_first_each_is_received_once_and_in_order(person, actions_done) -> None:
    otto = person("otto", "operator") if not AuditEntry.objects.exists() else person("otto")
    run_id = f"r{Run.objects.count()}"
    run = Run.objects.create(id=run_id, family=run_id, workflow="w", phase="waiting", created=NOW, updated=NOW)
    sent, asked = ({"a": [], "b": []} for _ in range(2))
    for number, action in enumerate(actions_done):
        what, _, name = action.partition(" ")
        if what == "send":
            send_signal(otto, run.id, name, number)
            sent[name].append(number)
        elif what == "wait":
            facts = {"workflow": "w", "step": "s", "kind": "signal", "answer_schema": NUMBER, "created": timezone.now()}
            facts |= {"id": f"{run.id}-{number}", "key": f"signal:{name}:s-1.{number}"}
            asked[name].append(HumanRequest.objects.create(run=run, **facts).pk)
        else:
            signals.match_waiting()
    signals.match_waiting()
    for name, requests in asked.items():
        got = [Answer.objects.filter(request=one).values_list("value", flat=True).first() for one in requests]
        assert got == [*sent[name], *[None] * len(requests)][: len(requests)]
