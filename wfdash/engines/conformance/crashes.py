"""A drive that breaks at any of its commits: by a lost claim, a full disk, or the end of its process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from checkpoints.conformance.worlds import checks_in, until
from checkpoints.errors import ClaimLost
from checkpoints.records import Json
from wfdash.engines.conformance.worlds import WAYS, EngineWorld, Fault, RunUnderTest, Sample, needs

TOGETHER = 4
"""Runs that are broken at the same time."""
EXPECTED = object()
"""The output that the sample says."""


@needs("steps")
async def a_crash_at_any_commit_repeats_at_most_the_steps_that_ran(world: EngineWorld) -> None:
    assert world.samples.steps is not None
    whole = await _unbroken(world, world.samples.steps)
    order = list(dict.fromkeys(whole.ledger.notes))
    assert len(order) >= 4, "Samples.steps needs four steps that note their names"
    assert whole.ledger.notes == order, f"steps ran twice without a crash: {whole.ledger.notes}"
    for run in await _broken_at_each(world, world.samples.steps, whole):
        first = list(dict.fromkeys(run.ledger.notes))
        assert first == order, f"{_where(run)}: the steps ran in the order {run.ledger.notes}"
        repeated = len(run.ledger.notes) - len(order)
        assert repeated <= world.samples.steps.width, f"{_where(run)}: steps were repeated: {run.ledger.notes}"


async def a_crash_at_any_commit_keeps_a_question_and_its_answer(world: EngineWorld) -> None:
    await _asks_the_same(world, world.samples.asks, ("yes",))


@needs("asks_two")
async def a_crash_at_any_commit_keeps_parallel_questions(world: EngineWorld) -> None:
    assert world.samples.asks_two is not None
    await _asks_the_same(world, world.samples.asks_two, ("yes", "no"))


@needs("asks_in_turn")
async def a_crash_at_any_commit_keeps_the_round_of_a_loop(world: EngineWorld) -> None:
    assert world.samples.asks_in_turn is not None
    await _asks_the_same(world, world.samples.asks_in_turn, ("one", "stop"))


@needs("asks_beside")
async def a_crash_while_another_step_runs_keeps_the_question(world: EngineWorld) -> None:
    assert world.samples.asks_beside is not None
    run = await world.begin(world.samples.asks_beside)
    claim = await run.claim()
    assert claim is not None
    recorder, work = await run.prepare(claim)
    drive = asyncio.ensure_future(work)
    try:
        await asyncio.wait_for(run.ledger.reached(), 10)
        await until(run.is_asking, seconds=10)
    finally:
        drive.cancel()
        await asyncio.wait([drive], timeout=10)
    asked = (await run.head()).requests
    await world.storage.release(claim)
    run.refuse_flaws(recorder)
    await run.answer("yes")
    run.ledger.release()
    assert await run.finish() == run.expected
    assert run.record.opened == [request.key for request in asked], "a question was opened again after a crash"


@needs("slow")
async def a_drive_that_is_cancelled_ends_and_the_run_continues_later(world: EngineWorld) -> None:
    assert world.samples.slow is not None
    run = await world.begin(world.samples.slow)
    claim = await run.claim()
    assert claim is not None
    recorder, work = await run.prepare(claim)
    drive = asyncio.ensure_future(work)
    await asyncio.wait_for(run.ledger.reached(), 10)
    drive.cancel()
    await asyncio.wait([drive], timeout=10)
    assert drive.cancelled(), f"a drive that is cancelled, because its process ends, ended with {drive!r}"
    assert not recorder.ended, "a drive that is cancelled has ended the run"
    await world.storage.release(claim)
    run.ledger.release()
    assert await run.finish() == run.expected


@needs("steps")
async def a_worker_that_lost_its_claim_writes_and_runs_nothing_more(world: EngineWorld) -> None:
    sample = world.samples.steps
    assert sample is not None
    run = await world.begin(sample)
    claim = await run.claim()
    assert claim is not None
    recorder, work = await run.prepare(claim)
    recorder.stalls = asyncio.Event()
    stale = asyncio.ensure_future(work)
    try:
        while not recorder.record.commits:
            assert not stale.done(), stale
            await asyncio.sleep(0)
        await world.storage.renew(claim, ttl=0.001)
        run.record = type(run.record)()
        await run.drive(await until(run.claim))
        assert await run.finish() == run.expected
        done, head = len(run.ledger.notes), await run.head()
        recorder.stalls.set()
        await asyncio.wait([stale], timeout=10)
        assert stale.done(), "the drive whose claim was lost does not end"
        assert isinstance(stale.exception(), ClaimLost), f"it ended with {stale!r}"
        assert len(run.ledger.notes) - done <= sample.width, f"it ran more steps: {run.ledger.notes[done:]}"
        assert await run.head() == head
    finally:
        stale.cancel()


async def continues_after_any_crash(world: EngineWorld, sample: Sample, *, ways: Sequence[str] = WAYS) -> RunUnderTest:
    """Break a further definition in these ways at each of its commits, and return a run that was not broken.

    Its output must not depend on the order in which parallel questions are answered.
    """
    whole = await world.begin(sample)
    await whole.finish()
    for run in await _broken_at_each(world, sample, whole, right=whole.output, ways=ways):
        keys = run.record.opened
        assert len(keys) == len(whole.record.opened), f"{_where(run)}: questions were opened again: {keys}"
    return whole


# -- breaking


async def _unbroken(world: EngineWorld, sample: Sample, *words: Json) -> RunUnderTest:
    run = await world.begin(sample)
    assert await run.finish(*words) == run.expected
    return run


async def _broken_at_each(
    world: EngineWorld,
    sample: Sample,
    whole: RunUnderTest,
    *words: Json,
    right: Json = EXPECTED,
    ways: Sequence[str] = WAYS,
) -> Sequence[RunUnderTest]:
    """Return runs that were broken in every way at every commit, and continued to their end with the right output."""
    free = asyncio.Semaphore(TOGETHER)

    async def broken(way: str, at: int) -> RunUnderTest:
        async with free:
            run = await world.begin(sample)
            fault = run.broken_by = Fault(way=way, at=at)
            output = await run.finish(*words, fault=fault, together=at % 2 == 1)
            wanted = run.expected if right is EXPECTED else right
            assert output == wanted, f"{_where(run)}: the output is {output!r}, not {wanted!r}"
            return run

    return await asyncio.gather(*(broken(way, at) for at in range(whole.record.commits) for way in ways))


async def _asks_the_same(world: EngineWorld, sample: Sample, words: Sequence[Json]) -> None:
    whole = await _unbroken(world, sample, *words)
    asked = len(whole.record.opened)
    assert asked == len(set(whole.record.opened)) == len(whole.given), whole.record.opened
    for run in await _broken_at_each(world, sample, whole, *words):
        keys = run.record.opened
        assert len(keys) == len(set(keys)) == asked, f"{_where(run)}: questions were opened again: {keys}"


def _where(run: RunUnderTest) -> str:
    return f"broken at commit {run.broken_by.at} ({run.broken_by.way})" if run.broken_by is not None else "unbroken"


CRASHES = checks_in(globals())
