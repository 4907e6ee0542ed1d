from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.models import AuditEntry, Event, IdempotencyKey, Reply
from wfdash.access.viewer import EVERY, RIGHTS, TokenScope, Viewer
from wfdash.actions.pacing import forget_keys, idempotent
from wfdash.actions.requests.answer import answer_request, undo_answer
from wfdash.actions.runs.lifecycle import cancel_run, pause_run, resume_run
from wfdash.domain.errors import KeyReused, NotFound, WrongState, status_for

pytestmark = pytest.mark.django_db

YES = {"action": "approve"}


def test_the_same_command_with_the_same_key_is_done_once(person, run) -> None:
    otto = person("otto", "operator")
    first = pause_run(otto, run.id, key="k")
    again = pause_run(otto, run.id, key="k")
    assert (again.pk, again.phase) == (first.pk, "paused")
    assert Event.objects.filter(kind="run.paused").count() == AuditEntry.objects.count() == 1


def test_a_key_stands_for_one_command_whatever_became_of_the_run(person, run) -> None:
    otto = person("otto", "operator")
    pause_run(otto, run.id, key="k")
    resume_run(otto, run.id, key="l")
    assert pause_run(otto, run.id, key="k").phase == "ready"


def test_a_key_that_came_with_another_command_is_a_conflict_and_nothing_happens(person, run) -> None:
    otto = person("otto", "operator")
    pause_run(otto, run.id, key="k")
    with pytest.raises(KeyReused, match="use a new key") as refused:
        cancel_run(otto, run.id, key="k")
    assert status_for(refused.value) == 409
    assert not Event.objects.filter(kind="run.cancelled").exists()


def test_another_person_may_use_the_same_key(person, run) -> None:
    pause_run(person("otto", "operator"), run.id, key="k")
    resume_run(person("adam", "admin"), run.id, key="k")
    assert IdempotencyKey.objects.count() == 2


def test_another_token_of_the_same_person_may_use_the_same_key_and_learns_nothing(person, run) -> None:
    otto = person("otto", "operator")
    scope = TokenScope(rights=RIGHTS["operator"], workflows=frozenset({EVERY}))
    deploy, monitor = (otto.with_token(name, scope) for name in ("deploy", "monitor"))
    pause_run(deploy, run.id, key="k")
    assert pause_run(deploy, run.id, key="k").phase == "paused"
    for other in (monitor, otto):
        with pytest.raises(WrongState):
            pause_run(other, run.id, key="k")


def test_a_refused_command_leaves_its_key_free(person, run) -> None:
    otto = person("otto", "operator")
    with pytest.raises(WrongState):
        resume_run(otto, run.id, key="k")
    assert not IdempotencyKey.objects.exists()
    assert pause_run(otto, run.id, key="k").phase == "paused"


def test_a_repeated_command_shows_nothing_to_those_who_lost_their_right(person, run) -> None:
    pause_run(person("otto", "operator"), run.id, key="k")
    with pytest.raises(NotFound):
        pause_run(Viewer(user=None, name="otto"), run.id, key="k")


def test_a_repeated_answer_is_the_same_reply(person, ask) -> None:
    ana, request = person("ana", "reviewer"), ask()
    first = answer_request(ana, request.id, YES, key="k")
    assert answer_request(ana, request.id, dict(YES), key="k").id == first.id
    with pytest.raises(KeyReused):
        answer_request(ana, request.id, {"action": "reject"}, key="k")
    assert Reply.objects.count() == 1


def test_without_a_key_nothing_is_kept(person, run) -> None:
    pause_run(person("otto", "operator"), run.id)
    resume_run(person("otto"), run.id, key="")
    assert not IdempotencyKey.objects.exists()


def test_keys_are_forgotten_after_a_week(person, run) -> None:
    otto = person("otto", "operator")
    pause_run(otto, run.id, key="old")
    IdempotencyKey.objects.update(at=timezone.now() - timedelta(days=7, seconds=1))
    resume_run(otto, run.id, key="new")
    assert (forget_keys(), forget_keys()) == (1, 0)
    assert IdempotencyKey.objects.get().verb == "resume"


def test_the_row_holds_neither_key_nor_values(person, ask) -> None:
    answer_request(person("ana", "reviewer"), ask().id, {**YES, "amount": 77}, key="sesame")
    row = IdempotencyKey.objects.get()
    told = f"{row.key} {row.digest} {row.result}"
    assert "sesame" not in told
    assert "77.0" not in told


def test_a_command_is_the_same_in_any_order_of_its_fields_and_by_any_key(person) -> None:
    key, otto = "\ud800 half a character", person("otto")
    with write(), idempotent(otto, key, "start", {"a": 1, "b": None}) as call:
        call.record(run="r1")
    with write(), idempotent(otto, key, "start", {"b": None, "a": 1}) as call:
        assert call.previous_result == {"run": "r1"}
    for verb, command in (("start", {"a": 1, "b": 0}), ("fork", {"a": 1, "b": None})):
        with pytest.raises(KeyReused), write(), idempotent(otto, key, verb, command):
            pass


def test_what_was_kept_comes_back(person) -> None:
    otto = person("otto")
    for expected in (None, {"run": "r1"}):
        with write(), idempotent(otto, "k", "fork", ["r0"]) as call:
            assert call.previous_result == expected
            if call.previous_result is None:
                call.record(run="r1")


def test_an_answer_that_was_taken_back_is_not_given_again_by_the_same_key(person, ask) -> None:
    ana, request = person("ana", "reviewer"), ask(policy={"need": 2})
    answer_request(ana, request.id, YES, key="k")
    undo_answer(ana, request.id, key="l")
    undo_answer(ana, request.id, key="l")
    with pytest.raises(KeyReused, match="was undone"):
        answer_request(ana, request.id, YES, key="k")
    answer_request(ana, request.id, YES, key="m")
    assert Reply.objects.filter(undone=None).count() == 1
