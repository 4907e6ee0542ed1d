"""An answer: who gives it and for whom, what it does, and what it finds under its lock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.events import EventKind
from checkpoints.models import Answer, AuditEntry, Event, HumanRequest, Reply, Run
from tests.actions.requests.conftest import told
from wfdash.actions.common import append_request_event, find_request, lock_as_found
from wfdash.actions.requests.answer import answer_request, marks_of, undo_answer
from wfdash.actions.requests.collaboration import amend_request, ask_back, assign_request, comment_on
from wfdash.actions.requests.deadlines import extend_deadline
from wfdash.actions.runs.lifecycle import cancel_run
from wfdash.domain.errors import AlreadyAnswered, Invalid, NoLongerOpen, NotAllowed, NotFound
from wfdash.domain.hash_chain import fingerprint
from wfdash.engines import catalog
from wfdash.engines.native import NativeEngine
from wfdash.engines.published import Published, WorkerReply, published_engine
from wfdash.questions.cards import prepare
from wfdash.questions.choices import open_answer
from wfdash.workflow import ToolCall, Workflow

pytestmark = pytest.mark.django_db


def test_an_answer_is_kept_and_makes_the_waiting_run_due(person, ask, run) -> None:
    request = ask()
    answer = answer_request(person("ana", "reviewer"), request.id, {"action": "approve"})
    assert (answer.verdict, answer.value, answer.by.username) == ("approve", {"action": "approve"}, "ana")
    run.refresh_from_db()
    assert run.phase == "ready"
    event = Event.objects.get(run=run)
    assert (event.kind, event.seq, run.seq) == ("request.answered", 1, 1)
    assert event.data["by"] == "ana"


def test_an_answer_is_bound_to_its_row(person, ask) -> None:
    answer_request(person("ana", "reviewer"), ask().id, {"action": "approve", "amount": 1.5})
    kept = Answer.objects.get()
    digest = kept.digest
    assert len(digest) == 40
    assert kept.bound().digest == digest
    kept.value = {"action": "reject"}
    assert kept.bound().digest != digest


def test_a_value_that_does_not_fit_is_refused_at_its_field_and_the_request_stays_open(person, ask, run) -> None:
    request = ask()
    with pytest.raises(Invalid) as refused:
        answer_request(person("ana", "reviewer"), request.id, {"action": "approve", "amount": 9999})
    assert refused.value.errors == [{"loc": ["amount"], "msg": "Must be 500 or less"}]
    assert not Answer.objects.exists()
    assert Run.objects.get(pk=run.pk).phase == "waiting"
    answer_request(person("ben", "reviewer"), request.id, {"action": "approve", "amount": 5})


@pytest.mark.parametrize(("replies", "checked"), [(None, "by its schema alone"), ([], None)])
def test_the_audit_says_where_no_worker_could_run_the_authors_checks(
    person, ask, monkeypatch, replies: list[object] | None, checked: str | None
) -> None:
    definition = Workflow("expense")

    @definition.step(start=True)
    async def review(message: int) -> int:
        return message

    described = NativeEngine().describe(definition)
    published = Published(description=described, abilities=("check_answer",))
    reply = None if replies is None else WorkerReply(result=replies)
    engine = published_engine(published, described, lambda *given, required: reply)
    entry = catalog.Entry(name="expense", definition=described, engine=engine, description=described, source="a worker")
    monkeypatch.setattr(catalog, "find", lambda name: entry)
    answer_request(person("ana", "reviewer"), ask().id, {"action": "approve"})
    assert AuditEntry.objects.get(verb="answer").facts.get("checked") == checked


def test_the_second_is_told_who_was_first_and_what_they_said(person, ask) -> None:
    request = ask()
    answer_request(person("ana", "reviewer"), request.id, {"action": "reject"})
    with pytest.raises(AlreadyAnswered, match="Already answered by ana") as lost:
        answer_request(person("ben", "reviewer"), request.id, {"action": "approve"})
    assert lost.value.facts["verdict"] == "reject"
    assert lost.value.facts["value"] == {"action": "reject"}
    assert Answer.objects.get().by.username == "ana"


@pytest.mark.parametrize("phase", ["paused", "failed"])
def test_an_answer_to_a_run_that_stands_still_is_kept_and_wakes_nothing(person, ask, run, phase) -> None:
    Run.objects.filter(pk=run.pk).update(phase=phase)
    answer_request(person("ana", "reviewer"), ask().id, {"action": "approve"})
    assert Run.objects.get(pk=run.pk).phase == phase
    assert Answer.objects.count() == 1


def test_a_closed_request_takes_no_answer(person, ask) -> None:
    from tests.actions.conftest import NOW

    request = ask(closed=NOW, closed_as="superseded")
    with pytest.raises(NoLongerOpen, match="superseded"):
        answer_request(person("ana", "reviewer"), request.id, {"action": "approve"})


def test_a_stranger_does_not_find_the_request(person, ask) -> None:
    for name, role, workflow in [("sam", None, "*"), ("otto", "reviewer", "another")]:
        with pytest.raises(NotFound):
            answer_request(person(name, role, workflow), ask(key=name).id, {"action": "approve"})


def test_a_viewer_may_look_but_not_answer(person, ask) -> None:
    with pytest.raises(NotAllowed):
        answer_request(person("vera", "viewer"), ask().id, {"action": "approve"})


def test_a_request_to_others_is_refused(person, ask) -> None:
    with pytest.raises(NotAllowed, match=r"^Addressed to finance$"):
        answer_request(person("ana", "reviewer"), ask(by=["finance"]).id, {"action": "approve"})


def test_the_person_who_answered_first_cannot_be_the_second_person(person, ask) -> None:
    ana = person("ana", "reviewer")
    with pytest.raises(NotAllowed, match="second person"):
        answer_request(ana, ask(not_by=["ana"]).id, {"action": "approve"})


def test_an_unknown_request_is_not_found(person) -> None:
    with pytest.raises(NotFound):
        answer_request(person("ana", "reviewer"), "nope", {})


def test_a_text_that_reads_like_no_is_not_taken_silently_where_any_text_may_be_a_yes(person, ask) -> None:
    ana, request = person("ana", "reviewer"), ask(card={"subject": "Transfer?"}, answer_schema=open_answer())
    with pytest.raises(Invalid) as refused:
        answer_request(ana, request.id, "no")
    assert "Answer No (false) instead, or say as_text" in refused.value.errors[0]["msg"]
    assert not Answer.objects.exists()
    answer_request(ana, request.id, "no", as_text=True)
    assert Answer.objects.get().value == "no"


def test_no_itself_and_other_texts_are_taken_at_once(person, ask) -> None:
    ana = person("ana", "reviewer")
    for value in (False, "Only half of it"):
        request = ask(key=f"pay-{value}", card={"subject": "Transfer?"}, answer_schema=open_answer())
        assert answer_request(ana, request.id, value).value == value


def test_a_word_in_place_of_an_answer_is_told_what_to_give(person, ask) -> None:
    card = {"subject": "Pay?", "actions": [{"name": "approve"}, {"name": "reject"}]}
    with pytest.raises(Invalid) as refused:
        answer_request(person("ana", "reviewer"), ask(card=card).id, "aprove")
    assert refused.value.errors[0]["msg"].endswith(': give {"action": "approve"}, or another action: reject')


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
    counted = lock_as_found(found.run, wake=True)
    with pytest.raises(RuntimeError, match="another event"):
        append_request_event(found, EventKind.REQUEST_VOTED, counted=counted)


YES_OF_ANOTHER = {"action": "approve", "reason": "She said so on the phone"}


@pytest.fixture
def otto(person):
    person("ana", "reviewer")
    person("ben", "reviewer")
    return person("otto", "operator")


def test_an_operator_writes_down_what_someone_decided_and_the_record_names_both(otto, ask) -> None:
    request = ask(by=["ana"])
    reply = answer_request(otto, request.id, YES_OF_ANOTHER, on_behalf_of="ana")
    assert (reply.by.username, reply.acting_for) == ("otto", "ana")
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.actor, entry.facts["acting_for"]) == ("answer", "otto", "ana")
    assert entry.right == "operator, on behalf of ana: named: ana"
    assert (reply.stands, Answer.objects.get().verdict) == ("approved", "approve")


def test_it_needs_a_reason(otto, ask) -> None:
    with pytest.raises(Invalid) as refused:
        answer_request(otto, ask(by=["ana"]).id, {"action": "approve"}, on_behalf_of="ana")
    assert refused.value.errors[0]["loc"] == ["reason"]


@pytest.mark.parametrize("name", ["ben", "otto", "nobody"])
def test_only_for_someone_else_who_may_answer_it(otto, ask, name) -> None:
    with pytest.raises(Invalid) as refused:
        answer_request(otto, ask(by=["ana"]).id, YES_OF_ANOTHER, on_behalf_of=name)
    assert refused.value.errors[0]["loc"] == ["on_behalf_of"]


def test_anyone_who_has_it_may_be_spoken_for(otto, ask) -> None:
    request = ask(by=["ana"])
    assign_request(otto, request.id, "ben")
    assert answer_request(otto, request.id, YES_OF_ANOTHER, on_behalf_of="ben").acting_for == "ben"


def test_only_operators_may_and_no_one_who_is_excluded(otto, ask, person) -> None:
    with pytest.raises(NotAllowed):
        answer_request(person("ben"), ask(by=["ana"]).id, YES_OF_ANOTHER, on_behalf_of="ana")
    with pytest.raises(NotAllowed, match="second person"):
        answer_request(otto, ask("k2", by=["ana"], not_by=["otto"]).id, YES_OF_ANOTHER, on_behalf_of="ana")
    with pytest.raises(Invalid):
        answer_request(otto, ask("k3", not_by=["ana"]).id, YES_OF_ANOTHER, on_behalf_of="ana")


def test_it_counts_as_one_vote_of_that_person_who_has_no_second_one(otto, ask, person) -> None:
    request = ask(policy={"need": 2})
    answer_request(otto, request.id, YES_OF_ANOTHER, on_behalf_of="ana")
    with pytest.raises(AlreadyAnswered, match="otto already answered approve"):
        answer_request(person("ana"), request.id, YES_OF_ANOTHER)
    with pytest.raises(AlreadyAnswered):
        answer_request(otto, request.id, YES_OF_ANOTHER, on_behalf_of="ana")
    assert not Answer.objects.exists()
    answer_request(person("ben"), request.id, YES_OF_ANOTHER)
    assert Answer.objects.exists()
    assert Reply.objects.count() == 2


def test_no_one_is_spoken_for_who_has_spoken(otto, ask, person) -> None:
    request = ask(policy={"need": 2})
    answer_request(person("ana"), request.id, YES_OF_ANOTHER)
    with pytest.raises(AlreadyAnswered, match="ana already answered approve"):
        answer_request(otto, request.id, YES_OF_ANOTHER, on_behalf_of="ana")


ASKING = prepare(ToolCall(tool="refund", arguments={"order": "O-7", "amount": 12}), None)


@pytest.fixture
def call(ask) -> HumanRequest:
    return ask(card=ASKING.card, answer_schema=ASKING.schema, kind=ASKING.kind)


@pytest.mark.parametrize(
    ("value", "stands"),
    [
        ({"action": "approve"}, "approved"),
        ({"action": "edit", "arguments": {"order": "O-7", "amount": 5}}, "modified"),
        ({"action": "reject", "feedback": "not ours"}, "rejected"),
        ({"action": "respond", "response": "paid already"}, "answered"),
    ],
)
def test_the_record_says_how_a_tool_call_was_decided(value: dict[str, Any], stands: str, call, person) -> None:
    answer_request(person("ana", "reviewer"), call.id, value, verdict=value["action"])
    facts = AuditEntry.objects.get().facts
    assert (facts["stands"], facts["edited"]) == (stands, value.get("arguments"))
    assert facts["proposal"] == {"order": "O-7", "amount": 12}


def test_arguments_of_another_type_are_refused(call, person) -> None:
    wrong = {"action": "edit", "arguments": {"order": "O-7", "amount": "much"}}
    with pytest.raises(Invalid):
        answer_request(person("ana", "reviewer"), call.id, wrong)
    assert not Answer.objects.exists()


def test_two_rejections_are_the_same_whatever_their_feedback(ask, person) -> None:
    shown = {"card": ASKING.card, "answer_schema": ASKING.schema}
    request = ask(**shown, policy={"need": 2, "veto": False})
    for name, why in (("ana", "too much"), ("ben", "not ours")):
        answer_request(person(name, "reviewer"), request.id, {"action": "reject", "feedback": why})
    assert Answer.objects.get().verdict == "reject"
