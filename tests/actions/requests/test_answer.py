from __future__ import annotations

import pytest

from checkpoints.models import Answer, AuditEntry, Event, Run
from wfdash.actions.requests.answer import answer_request
from wfdash.domain.errors import AlreadyAnswered, Invalid, NoLongerOpen, NotAllowed, NotFound
from wfdash.engines import catalog
from wfdash.engines.consultation import WorkerReply
from wfdash.engines.native import NativeEngine
from wfdash.engines.published import Published, published_engine
from wfdash.questions.choices import open_answer
from wfdash.workflow import Workflow

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
