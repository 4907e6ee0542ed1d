"""The past of a run and the change of its definition: restoring, forking, versions, follow-ups."""

from __future__ import annotations

import asyncio

from checkpoints.conformance.worlds import checks_in
from checkpoints.errors import Incompatible
from checkpoints.events import EventKind
from checkpoints.ids import new_checkpoint_id
from checkpoints.records import Commit, Phase, Reason, Standing
from wfdash.contract import Carried, Continues, Migrates, Waiting
from wfdash.engines.conformance.worlds import WAYS, EngineWorld, Fault, RunUnderTest, Sample, needs


async def a_restored_question_is_asked_again_and_can_be_answered_otherwise(world: EngineWorld) -> None:
    run = await world.begin(world.samples.asks)
    await run.finish("yes")
    first, asking, done = run.expected, await run.asking(), list(run.ledger.notes)
    await run.restore(asking)
    outcome = await run.drive()
    assert isinstance(outcome, Waiting), outcome
    assert [one.key for one in outcome.requests] == [one.key for one in asking.requests]
    assert run.ledger.notes == done, f"restoring ran steps again: {run.ledger.notes}"
    await run.answer("no")
    assert await run.finish() == run.expected != first


async def a_restored_question_can_be_answered_before_anything_runs(world: EngineWorld) -> None:
    run = await world.begin(world.samples.asks)
    await run.finish("yes")
    await run.restore(await run.asking())
    await run.answer("no")
    assert await run.finish() == run.expected
    assert len(run.given) == 1


@needs("asks_two")
async def restoring_opens_questions_that_were_answered_since(world: EngineWorld) -> None:
    assert world.samples.asks_two is not None
    run = await world.begin(world.samples.asks_two)
    await run.finish("one", "two")
    asking = next(one for one in await run.checkpoints() if len(one.requests) == 2)
    await run.restore(asking)
    assert await run.finish("three", "four") == run.expected
    assert len(run.given) == 2, "a question that was open at the restored checkpoint was not asked again"


@needs("asks_two")
async def a_restored_checkpoint_keeps_the_answers_that_it_had(world: EngineWorld) -> None:
    assert world.samples.asks_two is not None
    run = await world.begin(world.samples.asks_two)
    await run.finish("kept", "replaced")
    half = [one for one in await run.checkpoints() if len(one.requests) == 1][-1]
    kept = [(step, word) for step, word in run.given if word == "kept"]
    await run.restore(half)
    run.given += kept
    assert await run.finish("new") == run.expected
    assert [word for _, word in run.given] == ["kept", "new"]


async def a_fork_is_a_run_of_its_own(world: EngineWorld) -> None:
    run = await world.begin(world.samples.asks)
    await run.finish("yes")
    head, done = await run.head(), list(run.ledger.notes)
    fork = await run.fork(await run.asking())
    outcome = await fork.drive()
    assert isinstance(outcome, Waiting), outcome
    assert outcome.checkpoint.run == fork.id
    assert fork.ledger.notes == [], f"forking ran steps again: {fork.ledger.notes}"
    await fork.answer("third")
    assert await fork.finish() == fork.expected
    assert (await run.head(), run.ledger.notes) == (head, done), "a fork changed the run that it came from"


@needs("steps")
async def every_checkpoint_leads_to_the_same_output(world: EngineWorld) -> None:
    assert world.samples.steps is not None
    run = await world.begin(world.samples.steps)
    output = await run.finish()
    reasons = [checkpoint.reason for checkpoint in await run.checkpoints()]
    assert Reason.STEP in reasons, f"no checkpoint is the end of a step, where a run can be paused: {reasons}"
    forks = [await run.fork(one) for one in await run.checkpoints() if one.reason is not Reason.END]
    assert forks, "a run of several steps has no checkpoint but its last one"
    outputs = await asyncio.gather(*(fork.finish() for fork in forks))
    assert outputs == [output] * len(forks), outputs


async def many_forks_continue_at_the_same_time(world: EngineWorld) -> None:
    shared = {"definition": world.definition(world.samples.asks), "engine": world.engine()}
    run = await world.begin(world.samples.asks, **shared)
    await run.drive()
    forks = [await run.fork(await run.asking(), **shared) for _ in range(8)]
    await asyncio.gather(*(fork.drive() for fork in forks))
    for number, fork in enumerate(forks):
        await fork.answer(f"word {number}")
    await asyncio.gather(*(fork.finish() for fork in forks))
    assert [fork.record.standing.output for fork in forks if fork.record.standing] == [one.expected for one in forks]
    assert len(await run.unanswered()) == 1


@needs("changed")
async def another_graph_is_another_version(world: EngineWorld) -> None:
    assert world.samples.changed is not None
    engine = world.engine()
    old = engine.describe(world.definition(world.samples.asks))
    assert old == world.engine().describe(world.definition(world.samples.asks)), "the same graph, described twice"
    new = engine.describe(world.definition(world.samples.changed))
    assert old.version != new.version
    assert old.workflow == new.workflow, "Samples.changed is not the workflow of Samples.asks: give it the same name"


@needs("changed", Migrates)
async def a_waiting_run_continues_in_a_changed_graph_only_where_it_can(world: EngineWorld) -> None:
    changed = world.samples.changed
    assert changed is not None
    run = await world.begin(world.samples.asks)
    await run.drive()
    head, engine, definition = await run.head(), world.engine(), world.definition(changed)
    assert isinstance(engine, Migrates)
    old = run.description()
    try:
        carried = engine.carry(definition, head, old)
    except Incompatible as error:
        reason = str(error)
        assert reason, "a run is held without a reason"
        carried = engine.carry(definition, head, old, override=True)
    assert await run.head() == head, "carry() changed the run"
    await _carry_over(run, carried, engine.describe(definition).version)
    run.sample = changed
    assert await run.finish("yes") == run.expected


async def _carry_over(run: RunUnderTest, carried: Carried, version: str) -> None:
    """Commit a migrated checkpoint, as the dashboard does."""
    head = await run.head()
    changes = {"id": new_checkpoint_id(), "n": head.n + 1, "parent": head.id, "reason": Reason.MIGRATE}
    content = {"version": version, "body": carried.body, "requests": carried.requests}
    was = {request.key for request in head.requests}
    commit = Commit(
        run=run.id,
        checkpoint=head.model_copy(update={**changes, **content}),
        events=carried.events,
        opened=tuple(request for request in carried.requests if request.key not in was),
        closed=carried.closed,
        standing=Standing(phase=Phase.READY),
    )
    claim = await run.world.storage.take(run.id, worker="person", ttl=30, head=head.id, stopped=True)
    await run.world.storage.commit(commit, claim=claim)


@needs("chats", Continues)
async def a_finished_run_takes_a_follow_up_and_remembers_what_was_said(world: EngineWorld) -> None:
    sample = world.samples.chats
    assert sample is not None
    run = await world.begin(sample, "first")
    assert await run.finish() == run.expected
    last, engine, definition = await run.head(), world.engine(), world.definition(sample)
    assert isinstance(engine, Continues)
    assert engine.describe(definition).follow_up_schema is not None
    message = engine.check_follow_up(definition, last, sample.message("second"))
    for way in WAYS:
        later = await run.fork(last)
        later.follows, later.text = message, "first second"
        output = await later.finish(fault=Fault(way=way, at=0))
        assert output == later.expected, f"the answer to a follow-up is {output!r} (first commit: {way})"
        assert len(await later.events(EventKind.RUN_COMPLETED)) == 1
    assert (await run.head()) == last, "a follow-up changed the run that it follows"


async def continues_from_every_checkpoint(world: EngineWorld, sample: Sample) -> RunUnderTest:
    """Fork a run of a further definition at each of its checkpoints, then restore it to each, and return it.

    The output must be the same each time. It must not depend on the order in which parallel questions are answered.
    """
    run = await world.begin(sample)
    right = await run.finish()
    past = [checkpoint for checkpoint in await run.checkpoints() if checkpoint.reason is not Reason.END]
    assert past, "a run has no checkpoint but its last one"
    for checkpoint in past:
        fork = await run.fork(checkpoint)
        output = await fork.finish()
        assert output == right, f"a fork of checkpoint {checkpoint.n} ends with {output!r}, not {right!r}"
    for checkpoint in past:
        await run.restore(checkpoint)
        output = await run.finish()
        assert output == right, f"restored to checkpoint {checkpoint.n} it ends with {output!r}, not {right!r}"
    return run


HISTORY = checks_in(globals())
