"""Who changed what is to be approved does not approve it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pydantic import BaseModel

from checkpoints.database.runs import read_row
from checkpoints.models import Absence, Answer, Checkpoint, HumanRequest, Run, Schedule
from tests.driving import drive, pending, put
from wfdash.actions.checkpoints import fork_run, restore_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.deadlines import extend_deadline
from wfdash.actions.runs.bulk import delete_run
from wfdash.actions.runs.lifecycle import cancel_run, start_run
from wfdash.actions.schedules import (
    SchedulePlan,
    create_schedule,
    fire_schedules,
    pause_schedule,
    resume_schedule,
    run_now,
)
from wfdash.contract import Edits
from wfdash.domain.errors import Invalid, NotAllowed
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog
from wfdash.examples.expense_batch import expense_batch
from wfdash.queries.checkpoints.preview import read_preview
from wfdash.workflow import Approval, Context, Decision, Policy, Workflow

pytestmark = pytest.mark.django_db(transaction=True)

YES = {"action": "approve"}


class Payment(BaseModel):
    to: str
    amount: int


def payments(policy: Policy) -> Workflow:
    wf = Workflow("payments", policy=policy)

    @wf.step(start=True)
    async def review(payment: Payment, ctx: Context) -> Payment:
        decision: Decision = await ctx.ask(Approval(subject=f"Pay {payment.to}", proposal=payment))
        return payment if decision.approved else Payment(to="nobody", amount=0)

    @wf.step(after=review)
    async def pay(payment: Payment) -> str:
        return f"paid {payment.amount} to {payment.to}"

    return wf


@pytest.fixture
def olga(person, monkeypatch):
    """Give an operator who is of finance, beside one who is not."""
    found = Catalog()
    monkeypatch.setattr(catalog, "load", lambda: found)
    put(found, payments(Policy(by="finance", not_by="requester")))
    person("oto", "operator")
    person("ana", "reviewer", "finance")
    return person("olga", "operator", "finance")


def head(run: Run) -> Checkpoint:
    return Checkpoint.objects.filter(run=run).latest("n")


def edits_at(checkpoint: Checkpoint, to: str) -> Edits:
    (act,) = read_row(checkpoint).body["position"]["live"]
    return Edits(messages={act: {"to": to, "amount": 999}}, reason="a mistake")


def only(run: Run):
    (request,) = pending(run).values()
    return request


def test_one_operator_cannot_edit_a_run_and_approve_it(person, olga) -> None:
    run = start_run(person("oto"), "payments", {"to": "Supplier", "amount": 10})
    drive(run)
    restore_run(olga, run.pk, head(run).pk, edits=edits_at(head(run), "olga"))
    drive(run)
    assert only(run).card["proposal"]["to"] == "olga"
    for how in ({}, {"override": True}, {"on_behalf_of": "ana"}):
        with pytest.raises(NotAllowed, match="second person"):
            answer_request(olga, only(run).pk, YES, reason="mine", **how)
    answer_request(person("ana"), only(run).pk, YES)
    assert drive(run) == "completed"


def test_the_editor_is_bound_in_forks_and_in_their_forks(person, olga) -> None:
    run = start_run(person("oto"), "payments", {"to": "Supplier", "amount": 10})
    drive(run)
    first = fork_run(olga, run.pk, head(run).pk, edits=edits_at(head(run), "olga"))
    drive(first)
    second = fork_run(person("oto"), first.pk, head(first).pk)
    drive(second)
    for fork in (first, second):
        with pytest.raises(NotAllowed, match="second person"):
            answer_request(olga, only(fork).pk, YES)
    answer_request(olga, only(run).pk, YES)


def test_the_one_who_answers_by_an_edit_does_not_answer_what_is_asked_later(person, olga) -> None:
    run = start_run(person("oto"), "payments", {"to": "Supplier", "amount": 10})
    drive(run)
    fork = fork_run(olga, run.pk, head(run).pk, edits=Edits(answers={only(run).key: YES}))
    assert Answer.objects.get(request__run=fork).by == olga.user
    fork.refresh_from_db()
    assert fork.requesters == ["olga"]


def test_who_restores_a_run_as_it_was_may_still_approve_it(person, olga) -> None:
    run = start_run(person("oto"), "payments", {"to": "Supplier", "amount": 10})
    drive(run)
    restore_run(olga, run.pk, head(run).pk)
    drive(run)
    answer_request(olga, only(run).pk, YES)
    assert drive(run) == "completed"


def test_the_author_of_a_schedule_stays_bound_when_another_resumes_it(person, olga) -> None:
    message = {"to": "olga", "amount": 999}
    schedule = create_schedule(olga, "payments", SchedulePlan(name="Monthly", cron="* * * * *", message=message))
    pause_schedule(person("oto"), schedule.pk)
    resume_schedule(person("oto"), schedule.pk)
    Schedule.objects.update(next_at=timezone.now() - timedelta(seconds=1))
    assert fire_schedules() == 1
    by_time, by_hand = Run.objects.get(), run_now(person("oto"), schedule.pk)
    for run in (by_time, by_hand):
        drive(run)
        assert run.created_by.username == "oto"
        with pytest.raises(NotAllowed, match="second person"):
            answer_request(olga, only(run).pk, YES)
        answer_request(person("ana"), only(run).pk, YES)


def approved(person, olga) -> Run:
    """Give a run whose payment ana approved, before it is made."""
    run = start_run(person("oto"), "payments", {"to": "Supplier", "amount": 10})
    drive(run)
    answer_request(person("ana"), only(run).pk, YES)
    assert drive(run, commits=1) == "ready"
    return run


@pytest.mark.parametrize("verb", [restore_run, fork_run])
def test_what_was_approved_is_not_edited_afterwards(person, olga, verb) -> None:
    run = approved(person, olga)
    waiting = Checkpoint.objects.filter(run=run, waiting=1).latest("n")
    edits, runs = edits_at(head(run), "olga"), Run.objects.count()
    with pytest.raises(Invalid) as refused:
        verb(olga, run.pk, head(run).pk, edits=edits)
    said = refused.value.errors[0]["msg"]
    assert "answered by ana before this and requires a second person" in said
    assert f"Change them at checkpoint {waiting.n} to ask again" in said
    assert Run.objects.count() == runs
    assert drive(run) == "completed"
    assert Run.objects.get(pk=run.pk).output == "paid 10 to Supplier"


def test_a_fork_is_no_way_to_edit_what_was_approved_before_it(person, olga) -> None:
    run = approved(person, olga)
    fork = fork_run(olga, run.pk, head(run).pk)
    for _ in range(2):
        with pytest.raises(Invalid) as refused:
            restore_run(olga, fork.pk, head(fork).pk, edits=edits_at(head(fork), "olga"))
        assert "requires a second person" in refused.value.errors[0]["msg"]
        # Also where the checkpoint it was forked from is not kept any more.
        Checkpoint.objects.filter(run=run).delete()


def test_deleting_what_was_approved_is_no_way_to_edit_its_forks(person, olga) -> None:
    run = approved(person, olga)
    first = fork_run(olga, run.pk, head(run).pk)
    second = fork_run(olga, first.pk, head(first).pk)
    for gone in (run, first):
        cancel_run(olga, gone.pk)
        delete_run(olga, gone.pk)
    with pytest.raises(Invalid) as refused:
        restore_run(olga, second.pk, head(second).pk, edits=edits_at(head(second), "olga"))
    assert "was deleted with what was answered there" in refused.value.errors[0]["msg"]
    restore_run(olga, second.pk, head(second).pk)
    assert drive(second) == "completed"
    assert Run.objects.get(pk=second.pk).output == "paid 10 to Supplier"


@pytest.mark.parametrize("verb", ["restore", "fork"])
def test_a_preview_says_that_what_was_approved_is_not_edited(person, olga, verb) -> None:
    run = approved(person, olga)
    with pytest.raises(Invalid) as refused:
        read_preview(olga, run.pk, head(run).pk, verb=verb, edits=edits_at(head(run), "olga"))
    assert "requires a second person" in refused.value.errors[0]["msg"]
    assert not read_preview(olga, run.pk, head(run).pk, verb=verb).problem


def test_who_was_stood_in_for_is_no_second_person_either(person, olga) -> None:
    put(catalog.load(), expense_batch)
    now = timezone.now()
    absence = {"since": now, "until": now + timedelta(days=1)}
    Absence.objects.create(user=person("ana").user, delegate=person("rex", "reviewer").user, **absence)
    limits = {"ask_above": 4000, "ask_two_above": 4000}
    run = start_run(person("oto"), "expense_batch", limits)
    drive(run)
    request = next(iter(pending(run).values()))
    assert answer_request(person("rex"), request.pk, {"action": "approve", "reason": "ok"}).acting_for == "ana"
    drive(run)
    (second,) = [one for one in pending(run).values() if one.not_by]
    assert second.not_by == ["ana", "rex"]
    with pytest.raises(NotAllowed, match="second person"):
        answer_request(person("ana"), second.pk, {"action": "approve", "reason": "ok"})


def waiting_for_default(person, policy: Policy) -> HumanRequest:
    """Give a request that is approved in four hours if no one answers, of a run that oto started."""
    put(catalog.load(), payments(policy))
    run = start_run(person("oto"), "payments", {"to": "oto", "amount": 999})
    drive(run)
    return only(run)


def test_the_requester_does_not_bring_the_default_answer_forward(person, olga) -> None:
    policy = Policy(by="finance", not_by="requester", due="4h", on_timeout="approve")
    request = waiting_for_default(person, policy)
    soon, later = timezone.now() + timedelta(seconds=5), timezone.now() + timedelta(hours=9)
    with pytest.raises(NotAllowed, match="second person"):
        extend_deadline(person("oto"), request.pk, soon)
    extend_deadline(person("oto"), request.pk, later)
    extend_deadline(olga, request.pk, soon)


def test_where_no_one_may_override_no_operator_brings_the_default_answer_forward(person, olga) -> None:
    policy = Policy(by="finance", due="4h", on_timeout="approve", override=False)
    request = waiting_for_default(person, policy)
    with pytest.raises(NotAllowed, match="does not allow override"):
        extend_deadline(person("oto"), request.pk, timezone.now() + timedelta(seconds=5))
    extend_deadline(olga, request.pk, timezone.now() + timedelta(seconds=5))


def test_where_it_was_asked_values_can_be_edited_and_it_is_asked_again(person, olga) -> None:
    run = approved(person, olga)
    waiting = Checkpoint.objects.filter(run=run, waiting=1).latest("n")
    restore_run(olga, run.pk, waiting.pk, edits=edits_at(waiting, "Other"))
    assert drive(run) == "waiting"
    assert only(run).card["proposal"]["to"] == "Other"


def test_an_answer_of_another_branch_is_none_of_this_one(person, olga) -> None:
    run = approved(person, olga)
    waiting = Checkpoint.objects.filter(run=run, waiting=1).latest("n")
    restore_run(person("oto"), run.pk, waiting.pk)
    restore_run(olga, run.pk, head(run).pk, edits=edits_at(head(run), "Other"))
    assert drive(run) == "waiting"


def test_what_an_operator_could_override_is_edited_with_a_reason(person, olga, monkeypatch) -> None:
    found = Catalog()
    monkeypatch.setattr(catalog, "load", lambda: found)
    put(found, payments(Policy(by="finance")))
    run = approved(person, olga)
    edits = edits_at(head(run), "olga")
    with pytest.raises(Invalid) as refused:
        restore_run(olga, run.pk, head(run).pk, edits=edits.model_copy(update={"reason": " "}))
    assert refused.value.errors[0]["loc"] == ["reason"]
    restore_run(olga, run.pk, head(run).pk, edits=edits)
    assert drive(run) == "completed"
