"""Workflows that are functions: steps, questions, answers over restarts."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("agent_framework")

from checkpoints.errors import ClaimLost
from checkpoints.records import Reason
from tests.engines.agent_framework import functions
from tests.engines.agent_framework.desk import Desk
from wfdash.contract import Failed


@pytest.fixture(autouse=True)
def _uncounted():
    functions.CALLS.clear()
    yield
    functions.CALLS.clear()


async def test_a_function_asks_and_its_steps_are_not_repeated():
    desk = Desk(functions.publish)
    await desk.start("spring")
    (request,) = desk.requests
    assert (request.step, request.card["subject"]) == ("publish", "Publish SPRING?")
    first = desk.head
    await desk.answer(True)
    assert desk.requests[0].card["subject"] == "Where?"
    await desk.answer("web")
    assert desk.output == "SPRING on web: True"
    assert functions.CALLS == ["upper spring", "send SPRING"]
    assert desk.kinds("publish") == ["started", "waiting", "finished"]
    assert desk.kinds("upper") == ["started", "finished"]
    written = [commit.checkpoint.reason for commit in desk.recorder.commits if commit.checkpoint]
    assert written == [Reason.STEP, Reason.PAUSE, Reason.PAUSE, Reason.STEP, Reason.END]
    await desk.resume({request.key: False}, at=first)
    assert desk.output == "SPRING stays", "restoring the first question forgets the later answers"


async def test_parallel_steps_are_saved_one_after_the_other():
    desk = Desk(functions.pair)
    desk.recorder.latency = 0.02
    await desk.start("spring")
    saved = [commit.checkpoint for commit in desk.recorder.commits if commit.checkpoint]
    assert [one.n for one in saved] == [1, 2, 3]
    assert [one.parent for one in saved] == [None, *(one.id for one in saved[:-1])]


async def test_questions_of_parallel_tasks_are_asked_one_after_the_other_as_the_framework_does():
    desk = Desk(functions.both)
    await desk.start("x")
    assert [one.key for one in desk.requests] == ["left"]
    await desk.resume({"left": 1})
    assert [one.key for one in desk.requests] == ["right"]
    await desk.resume({"right": 2})
    assert desk.output == [1, 2]


async def test_a_question_inside_of_a_step_lets_the_step_wait():
    desk = Desk(functions.inner)
    await desk.start("x")
    assert desk.kinds("review") == ["started", "waiting"]
    await desk.answer("good")
    assert desk.output == "x is good"
    assert desk.kinds("review") == ["started", "waiting", "finished"]


async def test_a_function_that_catches_everything_is_stopped_when_a_save_fails(monkeypatch: pytest.MonkeyPatch):
    desk = Desk(functions.stubborn)

    async def refused(commit):
        raise ClaimLost

    monkeypatch.setattr(desk.recorder, "commit", refused)
    with pytest.raises(ClaimLost):
        await desk.start("x")
    assert functions.CALLS == ["upper x"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_an_error_in_a_step_fails_the_run_in_that_step():
    desk = Desk(functions.broken)
    await desk.start("x")
    assert isinstance(desk.outcome, Failed)
    assert (desk.outcome.error.step, desk.error) == ("tear", "torn")


async def test_the_words_of_an_error_are_cut_and_can_be_stored(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(functions, "TORN", "half \ud800 " + "x" * 1_000_000)
    desk = Desk(functions.broken)
    await desk.start("x")
    assert desk.error.startswith("half \\ud800 xxx")
    assert len(desk.outcome.model_dump_json()) < 1_000_000


async def test_a_hundred_questions_of_a_function_are_answered_in_turn():
    desk = Desk(functions.survey)
    await desk.start("x")
    for number in range(100):
        await desk.answer(number)
    assert desk.output == sum(range(100))


def test_it_is_drawn_with_its_steps():
    desk = Desk(functions.publish)
    found = desk.engine.describe(desk.served)
    assert [(one.name, one.person) for one in found.steps] == [("publish", True), ("send", False), ("upper", False)]
    assert found.input_schema == {"type": "string"}
    assert found.doc == "Publish an article."


def test_a_function_without_a_message_says_what_to_add():
    desk = Desk(functions.speechless)
    with pytest.raises(ValueError, match="speechless takes no message, and Agent Framework runs no workflow without"):
        desk.engine.describe(desk.served)
