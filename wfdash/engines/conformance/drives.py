"""What every drive promises: answers are used once, questions hold, runs see nothing of each other."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from checkpoints.conformance.worlds import checks_in, until
from checkpoints.events import EventKind
from checkpoints.records import Event, Json
from wfdash.contract import Failed, Finished, Waiting
from wfdash.engines.conformance.worlds import EngineWorld, RunUnderTest, needs

AT_ONCE = 20
"""Runs of one definition at the same time."""
FALSY: tuple[Json, ...] = (None, {}, [], False, 0, "", {"0" * 32: 1})
"""Answers that a careless engine takes for none."""


@needs("steps")
async def a_run_finishes_with_its_output(world: EngineWorld) -> None:
    assert world.samples.steps is not None
    run = await world.begin(world.samples.steps)
    outcome = await run.drive()
    assert isinstance(outcome, Finished), outcome
    assert outcome.output == run.expected
    assert await run.claim() is None, "a finished run is still due"


async def a_question_suspends_the_run_and_its_answer_continues_it(world: EngineWorld) -> None:
    run = await world.begin(world.samples.asks)
    outcome = await run.drive()
    assert isinstance(outcome, Waiting), outcome
    assert len(outcome.requests) == 1
    run.refuse_notes_but("before")
    assert await run.claim() is None, "a run that waits for people is due"
    await run.answer("yes")
    assert isinstance(await run.drive(), Finished)
    assert run.record.standing is not None
    assert run.record.standing.output == run.expected
    run.refuse_notes_but("before", "after")


async def a_drive_without_an_answer_asks_the_same_and_runs_nothing(world: EngineWorld) -> None:
    run = await world.begin(world.samples.asks)
    await run.drive()
    asked = (await run.head()).requests
    claim = await world.storage.take(run.id, worker="again", ttl=30, head=(await run.head()).id)
    outcome = await run.drive(claim)
    assert isinstance(outcome, Waiting), f"it did not wait for the answer: {outcome}"
    assert outcome.requests == asked, "the question is another one after a drive without an answer"
    run.refuse_notes_but("before")
    assert await run.finish("no") == run.expected


@needs("asks_two")
async def parallel_questions_are_answered_apart_and_in_any_order(world: EngineWorld) -> None:
    assert world.samples.asks_two is not None
    for place in (0, 1):
        run = await world.begin(world.samples.asks_two)
        outcome = await run.drive()
        assert isinstance(outcome, Waiting), outcome
        steps = [request.step for request in outcome.requests]
        assert len(set(steps)) == 2, f"two questions of different steps are open at once, not those of {steps}"
        kept = next(one for one in outcome.requests if one.step == steps[1 - place])
        await run.answer("first", step=steps[place])
        outcome = await run.drive()
        assert [one.key for one in outcome.requests] == [kept.key], "the other question stays open under its key"
        await run.answer("second", step=steps[1 - place])
        assert await run.finish() == run.expected


@needs("asks_two")
async def parallel_questions_are_answered_together(world: EngineWorld) -> None:
    assert world.samples.asks_two is not None
    run = await world.begin(world.samples.asks_two)
    assert await run.finish("one", "two", together=True) == run.expected
    assert len(run.given) == 2


@needs("asks_in_turn")
async def a_loop_asks_as_often_as_people_answer(world: EngineWorld) -> None:
    assert world.samples.asks_in_turn is not None
    run = await world.begin(world.samples.asks_in_turn)
    assert await run.finish(*(f"word{number}" for number in range(12)), "stop") == run.expected
    assert len(run.given) == len(set(run.record.opened)) == 13, "each round asks under a key of its own"


@needs("echoes")
async def any_answer_arrives_as_it_was_given(world: EngineWorld) -> None:
    assert world.samples.echoes is not None
    for value in FALSY:
        run = await world.begin(world.samples.echoes)
        output = await run.finish(value)
        assert output == value, f"the answer {value!r} arrived as {output!r}"
        assert type(output) is type(value), f"the answer {value!r} arrived as {output!r}"


@needs("asks_beside")
async def an_answer_that_comes_while_another_step_runs_is_used(world: EngineWorld) -> None:
    assert world.samples.asks_beside is not None
    run = await world.begin(world.samples.asks_beside)
    drive = asyncio.ensure_future(run.drive())
    try:
        await asyncio.wait_for(run.ledger.reached(), 10)
        await until(run.is_asking, seconds=10)
        await run.answer("yes")
    finally:
        run.ledger.release()
        await asyncio.wait([drive], timeout=10)
    drive.result()
    assert await run.finish() == run.expected
    assert len(run.given) == 1, "the answer was asked for twice"


@needs("fails")
async def a_failed_step_is_retried_with_the_answer_it_had(world: EngineWorld) -> None:
    assert world.samples.fails is not None
    run = await world.begin(world.samples.fails)
    run.ledger.failing = True
    await run.drive()
    await run.answer("yes")
    outcome = await run.drive()
    assert isinstance(outcome, Failed), outcome
    assert "out of paper" in outcome.error.message, outcome.error
    assert outcome.error.step, "the error of a failed step does not name the step"
    assert "OutOfPaper" in outcome.error.type, outcome.error
    run.ledger.failing = False
    claim = await world.storage.take(run.id, worker="retry", ttl=30, head=(await run.head()).id)
    outcome = await run.drive(claim)
    assert isinstance(outcome, Finished), outcome
    assert outcome.output == run.expected
    assert len(run.given) == 1, "the question was asked again after the failure"


@needs("unstorable")
async def a_value_that_cannot_be_stored_fails_the_run_with_a_message(world: EngineWorld) -> None:
    assert world.samples.unstorable is not None
    run = await world.begin(world.samples.unstorable)
    try:
        outcome = await run.drive()
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
    else:
        assert isinstance(outcome, Failed), f"a value that cannot be stored was stored: {outcome}"
        message = outcome.error.message
    assert "Unstorable" in message, f"the message does not name the value that cannot be stored: {message}"


async def many_runs_of_one_definition_see_nothing_of_each_other(world: EngineWorld) -> None:
    engine, definition = world.engine(), world.definition(world.samples.asks)
    shared = {"definition": definition, "engine": engine}
    runs = [await world.begin(world.samples.asks, f"text {number}", **shared) for number in range(AT_ONCE)]
    asked = await asyncio.gather(*(run.drive() for run in runs))
    assert all(len(outcome.requests) == 1 for outcome in asked), [outcome.requests for outcome in asked]
    for number, run in enumerate(runs):
        await run.answer(f"word {number}")
    ended = await asyncio.gather(*(run.drive() for run in reversed(runs)))
    assert [one.result() for one in ended] == [run.expected for run in reversed(runs)]


async def events_say_what_happened_in_order(world: EngineWorld) -> None:
    run = await world.begin(world.samples.asks)
    await run.finish()
    events = await run.events()
    kinds = [event.kind for event in events]
    assert kinds[-1] == EventKind.RUN_COMPLETED, kinds
    assert EventKind.RUN_WAITING in kinds, kinds
    assert [event.at for event in events] == sorted(event.at for event in events)
    for ended in (event for event in events if event.kind == EventKind.STEP_FINISHED):
        assert _start_of(ended, events), f"step {ended.step} finished without a start"
    (opened,) = await run.events(EventKind.REQUEST_OPENED)
    assert opened.data.get("key") == run.record.opened[0]
    assert opened.data.get("subject"), "request.opened has no subject"
    for kind in (EventKind.STEP_STARTED, EventKind.STEP_FINISHED):
        named = [event.data.get("activation") for event in events if event.kind == kind]
        assert all(named), f"{kind} without an activation"
        assert len(named) == len(set(named)), f"{kind} twice of one activation: {named}"


@needs("slow")
async def a_step_is_visible_while_it_runs_and_lasts_as_long_as_it_did(world: EngineWorld) -> None:
    assert world.samples.slow is not None
    run = await world.begin(world.samples.slow)
    drive = asyncio.ensure_future(run.drive())
    try:
        await asyncio.wait_for(run.ledger.reached(), 10)
        await until(lambda: _runs(run, "work"), seconds=world.visible_within)
    except TimeoutError:
        raise AssertionError(f"a step is not visible {world.visible_within} s after its start") from None
    else:
        await asyncio.sleep(0.05)
    finally:
        run.ledger.release()
        await asyncio.wait([drive], timeout=10)
    assert drive.result().result() == run.expected
    (ended,) = (event for event in await run.events(EventKind.STEP_FINISHED) if event.step == "work")
    took, held = ended.at - _start_of(ended, await run.events())[0].at, run.ledger.seconds
    assert held is not None
    wrong = abs(took - timedelta(seconds=held)).total_seconds()
    assert wrong <= world.tolerance, f"a step of {held:.3f} s is shown with {took.total_seconds():.3f} s"


def _start_of(ended: Event, events: list[Event]) -> list[Event]:
    began = [event for event in events if event.kind == EventKind.STEP_STARTED and event.seq < ended.seq]
    return [event for event in began if event.data.get("activation") == ended.data.get("activation")]


async def _runs(run: RunUnderTest, step: str) -> bool:
    return any(event.step == step for event in await run.events(EventKind.STEP_STARTED))


DRIVES = checks_in(globals())
