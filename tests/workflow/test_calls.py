"""Recorded calls, sleeps, retries, timeouts and failures: what is repeated, what never is."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from checkpoints.errors import ClaimLost
from checkpoints.records import Answer, Phase, Reason
from tests.workflow.world import ListRecorder, PowerCut, answered, failed, finished, flow, handed_over
from wfdash.workflow import Context, Retry, Waiting, Workflow
from wfdash.workflow.errors import InvalidCall, ReplayMismatch
from wfdash.workflow.runtime import invoke


class Receipt(BaseModel):
    number: int


class Bank:
    """Counts what really happened outside."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.broken = False

    def pay(self, amount: int) -> Receipt:
        if self.broken:
            raise ConnectionError("no line")
        self.paid.append(amount)
        return Receipt(number=len(self.paid))


def paying(bank: Bank, *, once: bool, **options: Any) -> Workflow:
    async def pay(amount: int, ctx: Context) -> int:
        receipt = await ctx.call(bank.pay, amount, once=once)
        await ctx.ask("fine?")
        return receipt.number

    return flow(pay, **options)


@pytest.mark.parametrize("once", [False, True])
async def test_a_finished_call_is_not_repeated_after_a_resume(once: bool):
    bank = Bank()
    wf = paying(bank, once=once)
    outcome = await answered(wf, await wf.run(5), "yes")
    assert finished(outcome) == 1
    assert bank.paid == [5]


async def test_a_once_call_commits_its_intent_before_and_its_result_after():
    bank, recorder = Bank(), ListRecorder()
    await paying(bank, once=True).run(5, storage=recorder)
    states = [e.state for c in recorder.commits for e in c.effects]
    assert states == ["intended", "done"]
    assert [c.checkpoint.reason for c in recorder.commits][1:3] == [Reason.CALL, Reason.CALL]


async def cut_in_the_middle(bank: Bank) -> tuple[Workflow, Any]:
    """Die after the intent was committed and the money was paid, before the result is committed."""
    wf, recorder = paying(bank, once=True), ListRecorder(dies_after=2)
    with pytest.raises(PowerCut):
        await wf.run(5, storage=recorder)
    assert bank.paid == [5]
    return wf, await wf.run(checkpoint=recorder.latest)


@pytest.mark.parametrize(
    ("answer", "output", "paid"),
    [({"action": "happened", "result": {"number": 77}}, 77, [5]), ({"action": "again"}, 2, [5, 5])],
)
async def test_an_unknown_call_asks_a_person_and_does_as_told(answer: Any, output: int, paid: list[int]):
    bank = Bank()
    wf, outcome = await cut_in_the_middle(bank)
    request = outcome.requests[0]
    assert (request.kind, request.card["subject"]) == ("effect", "Did 'pay' succeed (amount 5)?")
    outcome = await answered(wf, outcome, answer)
    assert finished(await answered(wf, outcome, "yes")) == output
    assert bank.paid == paid


async def test_an_unknown_call_can_be_stopped_and_is_asked_about_again_on_retry():
    wf, outcome = await cut_in_the_middle(Bank())
    outcome = await answered(wf, outcome, {"action": "stop"})
    assert "CallStopped" in failed(outcome)
    outcome = await wf.run(checkpoint=handed_over(outcome.checkpoint))
    assert outcome.requests[0].kind == "effect"


async def test_a_call_without_once_is_simply_run_again_after_a_crash():
    bank, recorder = Bank(), ListRecorder(dies_after=1)
    wf = paying(bank, once=False)
    with pytest.raises(PowerCut):
        await wf.run(5, storage=recorder)
    outcome = await wf.run(checkpoint=recorder.latest)
    assert finished(await answered(wf, outcome, "yes")) == 2


async def test_a_once_call_that_raised_is_not_repeated_by_a_retry_but_asked_about():
    bank = Bank()
    bank.broken = True
    wf = paying(bank, once=True, retry=Retry(attempts=3, delay=0))
    outcome = await wf.run(5)
    assert "no line" in str(outcome.requests[0].card["evidence"])
    bank.broken = False
    outcome = await answered(wf, outcome, {"action": "again"})
    assert finished(await answered(wf, outcome, "yes")) == 1


async def test_effect_keys_are_stable_and_differ_per_call():
    wf, keys = Workflow("keys"), []

    @wf.step(start=True)
    async def step(ctx: Context) -> None:
        for _ in range(2):
            await ctx.call(lambda key: keys.append(key), ctx.effect_key)
        keys.append(ctx.effect_key)
        await ctx.ask("?")

    await answered(wf, await wf.run(None, run_id="r"), "x")
    assert keys == ["r:step.1:0", "r:step.1:1", "r:step.1:2", "r:step.1:2"]


async def test_a_changed_step_is_a_named_mismatch():
    wf, version = Workflow("changed"), [1]

    @wf.step(start=True)
    async def step(ctx: Context) -> None:
        await ctx.call(lambda: 1, name="first" if version[0] == 1 else "other")
        await ctx.ask("?")

    outcome = await wf.run(None)
    version[0] = 2
    message = failed(await answered(wf, outcome, "x"))
    assert message == "ReplayMismatch: step 'step', number 1: recorded call 'first', the code now does call 'other'"


async def test_a_long_sleep_parks_and_a_short_one_does_not():
    async def sleep(seconds: float, ctx: Context) -> str:
        await ctx.sleep(timedelta(seconds=seconds))
        return "awake"

    wf = flow(sleep)
    assert finished(await wf.run(0.01)) == "awake"
    recorder = ListRecorder()
    outcome = await wf.run(0.05, storage=recorder, park_after=0.01)
    assert isinstance(outcome, Waiting)
    assert recorder.commits[-1].standing.phase is Phase.SLEEPING
    assert recorder.commits[-1].standing.wake_at == outcome.until
    early = await wf.run(checkpoint=handed_over(outcome.checkpoint), park_after=0.0)
    assert early.until == outcome.until
    assert finished(await wf.run(checkpoint=early.checkpoint)) == "awake"


async def test_a_failed_step_is_retried_with_its_writes_discarded():
    tries = []

    async def shaky(ctx: Context) -> int:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        tries.append(ctx.attempt)
        if len(tries) < 3:
            raise RuntimeError("not yet")
        return ctx.state["n"]

    recorder = ListRecorder()
    assert finished(await flow(shaky, retry=Retry(attempts=3, delay=0.001)).run(None, storage=recorder)) == 1
    assert tries == [1, 2, 3]
    assert recorder.kinds.count("step.retrying") == 2


async def test_a_long_backoff_parks_the_run_as_retrying():
    async def shaky(kind: str) -> None:
        raise {"key": KeyError, "other": RuntimeError}[kind]("no")

    wf = flow(shaky, retry=Retry(attempts=2, delay=60, never=(KeyError,)))
    recorder = ListRecorder()
    await wf.run("other", storage=recorder)
    standing = recorder.commits[-1].standing
    assert (standing.phase, standing.attempt, standing.attempts) == (Phase.RETRYING, 2, 2)
    assert "KeyError" in failed(await wf.run("key"))


async def test_a_failed_run_goes_on_from_its_checkpoint_with_its_siblings():
    wf, broken, seen = Workflow("fails"), [True], []

    @wf.step(start=True)
    async def bad() -> str:
        await asyncio.sleep(0.005)
        if broken[0]:
            raise ValueError("broken")
        return "good"

    @wf.step(start=True)
    async def slow() -> str:
        seen.append("slow")
        await asyncio.sleep(60 if broken[0] else 0)
        return "slow"

    @wf.step(start=True)
    async def done() -> str:
        seen.append("done")
        return "done"

    recorder = ListRecorder()
    outcome = await wf.run(None, storage=recorder)
    assert failed(outcome) == "ValueError: broken"
    assert "broken" in outcome.error.traceback
    assert recorder.commits[-1].checkpoint.reason is Reason.FAILURE
    assert recorder.commits[-1].standing.phase is Phase.FAILED
    broken[0] = False
    assert sorted(finished(await wf.run(checkpoint=handed_over(outcome.checkpoint)))) == ["done", "good", "slow"]
    assert sorted(seen) == ["done", "slow", "slow"]


async def test_a_once_call_in_flight_is_let_finish_when_a_sibling_fails():
    wf, paid = Workflow("grace"), []

    async def pay() -> int:
        await asyncio.sleep(0.03)
        paid.append(1)
        return 1

    @wf.step(start=True)
    async def good(ctx: Context) -> int:
        return int(await ctx.call(pay, once=True))

    @wf.step(start=True)
    async def bad() -> None:
        await asyncio.sleep(0.01)
        if not paid:
            raise ValueError("broken")

    outcome = await wf.run(None)
    assert failed(outcome) == "ValueError: broken"
    assert sorted(map(str, finished(await wf.run(checkpoint=handed_over(outcome.checkpoint))))) == ["1", "None"]
    assert paid == [1]


async def test_a_timeout_counts_work_but_not_waiting_for_people():
    async def step(kind: str, ctx: Context) -> str:
        if kind == "ask":
            await ctx.ask("?")
            return "answered"
        await asyncio.sleep(5)
        return "never"

    wf = flow(step, timeout=0.05)
    assert "StepTimeout: step 'step' took longer than 0.05 s" in failed(await wf.run("work"))
    keep = Workflow("keep_alive")
    sub = keep.sub("part", wf, start=True)
    gone_on = asyncio.Event()

    @keep.step(start=True)
    async def other(kind: str) -> None:
        await gone_on.wait()

    keep.step(after=sub, name="end")(lambda got: (gone_on.set(), got)[1])
    recorder = ListRecorder()
    run = asyncio.create_task(keep.run("ask", storage=recorder))
    await recorder.until(lambda r: any(c.opened for c in r.commits))
    await asyncio.sleep(0.1)
    recorder.answered.put_nowait(Answer(key=recorder.latest.requests[0].key, value="x"))
    assert "answered" in finished(await run)


async def test_a_timeout_counts_no_commit_however_long_it_takes():
    async def step(ctx: Context) -> int:
        for n in range(3):
            await ctx.call(asyncio.sleep, 0, once=True, name=f"call {n}")
        await ctx.checkpoint("here")
        return 1

    assert finished(await flow(step, timeout=0.3).run(None, storage=ListRecorder(latency=0.31))) == 1


async def test_a_timeout_counts_no_pause_between_two_attempts_of_a_call():
    tried = []

    def flaky() -> int:
        tried.append(1)
        if len(tried) < 3:
            raise ConnectionError
        return len(tried)

    async def step(ctx: Context) -> int:
        return await ctx.call(flaky, retry=Retry(delay=0.3))

    assert finished(await flow(step, timeout=0.4).run(None)) == 3


async def test_a_timeout_counts_no_renewal_that_a_call_waits_for():
    class Unsure(ListRecorder):
        """Takes its time to say that the run is still this process's own."""

        async def confirm(self) -> None:
            await asyncio.sleep(0.3)

    async def step(ctx: Context) -> int:
        return await ctx.call(lambda: 1, name="one")

    assert finished(await flow(step, timeout=0.2).run(None, storage=Unsure())) == 1


async def test_a_timeout_begins_when_a_plain_function_has_a_thread(monkeypatch: pytest.MonkeyPatch):
    wf, entered, may_end = Workflow("crowd"), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max_workers=1) as single:
        monkeypatch.setattr(invoke, "THREADS", single)

        @wf.step(start=True)
        def first() -> str:
            loop.call_soon_threadsafe(entered.set)
            assert may_end.wait(60)
            return "first"

        @wf.step(start=True, timeout=0.2)
        def second() -> str:
            return "second"

        @wf.step(start=True, timeout=0.2)
        async def third(ctx: Context) -> str:
            return await ctx.call(lambda: "third", name="third")

        run = asyncio.create_task(wf.run(None))
        await entered.wait()
        await asyncio.sleep(0.3)  # Longer than the limits.
        may_end.set()
        assert sorted(finished(await run)) == ["first", "second", "third"]


async def test_a_timeout_counts_a_call_that_runs_beside_a_question():
    async def step(ctx: Context) -> None:
        await asyncio.gather(ctx.ask("?"), ctx.call(asyncio.sleep, 60))

    async with asyncio.timeout(30):
        assert "StepTimeout" in failed(await flow(step, timeout=0.05).run(None))


async def test_a_timeout_still_counts_the_work_between_two_commits():
    async def step(ctx: Context) -> None:
        await ctx.call(lambda: 1, once=True, name="one")
        await asyncio.sleep(60)

    async with asyncio.timeout(30):
        assert "StepTimeout" in failed(await flow(step, timeout=0.2).run(None, storage=ListRecorder(latency=0.3)))


async def test_events_of_a_long_step_are_committed_while_it_runs():
    may_end = asyncio.Event()

    async def long(ctx: Context) -> None:
        ctx.emit("found", {"n": 1})
        ctx.progress(0.5, "half")
        ctx.stream("word")
        await asyncio.wait_for(may_end.wait(), 60)

    recorder = ListRecorder()
    run = asyncio.create_task(flow(long).run(None, storage=recorder))
    await recorder.until(lambda r: "progress" in r.kinds)
    assert recorder.commits[-1].checkpoint is None
    assert recorder.streamed == [("long", "word")]
    may_end.set()
    await run
    assert recorder.kinds == ["run.started", "step.started", "custom", "progress", "step.finished", "run.completed"]


class Odd(BaseException):
    """Not an Exception."""


async def test_whatever_a_step_raises_fails_the_run_visibly():
    async def step() -> None:
        raise Odd("strange")

    assert failed(await flow(step).run(None)) == "Odd: strange"


@pytest.mark.parametrize("way", ["a plain step", "a plain function that is called"])
async def test_a_plain_function_that_raises_stop_iteration_fails_the_run_as_a_coroutine_does(way: str):
    wf = Workflow("ended")

    def first() -> int:
        return next(iter(()))

    async def call(ctx: Context) -> int:
        return await ctx.call(first)

    wf.step(start=True)(first if way == "a plain step" else call)
    outcome = await asyncio.wait_for(wf.run(None), 30)
    assert failed(outcome) == "RuntimeError: plain function raised StopIteration"
    assert "next(iter(()))" in outcome.error.traceback


async def test_a_task_left_behind_cannot_write_into_a_later_attempt():
    left, went = [], asyncio.Event()

    async def late(ctx: Context) -> None:
        await went.wait()
        await ctx.call(lambda: 1)

    async def step(ctx: Context) -> str:
        if ctx.attempt == 1:
            left.append(asyncio.create_task(late(ctx)))
            raise RuntimeError("first")
        went.set()
        with pytest.raises(InvalidCall, match="has ended"):
            await left[0]
        return "clean"

    assert finished(await flow(step, retry=Retry(attempts=2, delay=0)).run(None)) == "clean"


class LosingRecorder(ListRecorder):
    """Loses its claim while it listens for answers."""

    async def answers(self) -> Any:
        raise ClaimLost


async def test_a_claim_lost_while_listening_ends_the_drive():
    wf = Workflow("lost")

    @wf.step(start=True)
    async def ask(ctx: Context) -> None:
        await ctx.ask("?")

    @wf.step(start=True)
    async def long() -> None:
        await asyncio.sleep(30)

    with pytest.raises(ClaimLost):
        await wf.run(None, storage=LosingRecorder())


class AnsweredWhenLost(ListRecorder):
    """Loses its claim before the third step begins, in the moment in which an answer is found."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.listens, self.lost = 0, asyncio.Event(), asyncio.Event()

    async def confirm(self) -> None:
        self.begun += 1
        if self.begun == 3:
            self.lost.set()
            await asyncio.sleep(0)
            raise ClaimLost

    async def answers(self) -> Any:
        self.listens.set()
        await self.lost.wait()
        return {}


async def test_a_claim_lost_in_the_moment_of_an_answer_ends_the_drive():
    wf, recorder = Workflow("lost"), AnsweredWhenLost()

    @wf.step(start=True)
    async def ask(ctx: Context) -> None:
        await ctx.ask("?")

    @wf.step(start=True)
    async def listen() -> None:
        await recorder.listens.wait()

    @wf.step(after=listen)
    async def last() -> None:
        raise AssertionError("it does not begin")

    with pytest.raises(ClaimLost):
        await asyncio.wait_for(wf.run(None, storage=recorder), 5)


@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.parametrize("what", ["ask", "receive"])
async def test_a_call_that_waits_for_people_is_refused_so_no_run_works_while_it_waits(what: str, handled: bool):
    async def go(n: int, ctx: Context) -> str:
        async def waits() -> str:
            try:
                return str(await getattr(ctx, what)("fine?"))
            except Exception:
                if not handled:
                    raise
                return "handled"

        return await ctx.call(waits)

    said = f"InvalidCall: ctx.{what} inside of the call 'waits': a recorded call cannot wait for people"
    assert failed(await flow(go).run(1)).startswith(said)


async def test_what_is_asked_beside_a_call_waits_as_ever_and_so_does_a_run_inside_of_one():
    inner, wf = Workflow("inner"), Workflow("beside")

    @inner.step(start=True)
    async def ask(n: int, ctx: Context) -> str:
        return str(await ctx.ask("inside?"))

    async def run_inner() -> str:
        return type(await inner.run(1)).__name__

    @wf.step(start=True)
    async def go(n: int, ctx: Context) -> list[str]:
        said, got = await asyncio.gather(ctx.ask("fine?"), ctx.call(run_inner))
        return [str(said), got]

    assert finished(await answered(wf, await wf.run(1), "yes")) == ["yes", "Waiting"]


async def test_code_that_handles_a_mismatch_with_its_record_does_nothing_more():
    calls: list[str] = []
    wf = Workflow("drifting")

    async def pay() -> None:
        calls.append("pay")

    @wf.step(start=True)
    async def go(n: int, ctx: Context) -> str:
        try:
            await ctx.call(pay, name="pay" if not calls else "other")
        except ReplayMismatch:
            await ctx.call(pay)
        return str(await ctx.ask("fine?"))

    waiting = await wf.run(1)
    assert failed(await answered(wf, waiting, "yes")).startswith("ReplayMismatch: step 'go', number 1: recorded call")
    assert calls == ["pay"]
