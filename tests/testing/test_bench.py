"""The bench keeps the dashboard's promises: every rule here is enforced by the actions, not by the bench."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone
from pydantic import BaseModel

from wfdash.contract import Edits
from wfdash.engines import catalog
from wfdash.testing import (
    AlreadyAnswered,
    Bench,
    Invalid,
    NotAllowed,
    NotFound,
    RunFailed,
    StillWaiting,
    VoteCount,
    WrongState,
    bench,
)
from wfdash.workflow import Approval, Context, Policy, Retry, Workflow


class Contract(BaseModel):
    customer: str
    amount: int


def charge(amount: int) -> str:
    return f"R-{amount}"


def workflow(policy: Policy | None = None, *, once: bool = False) -> Workflow:
    """Return one that asks, sleeps a day and charges."""
    made = Workflow("contracts")

    @made.step(start=True)
    async def review(contract: Contract, ctx: Context) -> str:
        decision = await ctx.ask(Approval(subject=f"Sign {contract.customer}?"), policy=policy)
        if not decision.approved:
            return f"rejected by {decision.by or 'no one'}: {decision.reason}"
        await ctx.sleep(timedelta(days=1))
        return await ctx.call(charge, contract.amount, once=once)

    return made


JANA = {"customer": "Jana", "amount": 80}


async def test_a_bench_serves_a_project_whose_runs_have_a_database_of_their_own(settings: Any) -> None:
    settings.WFDASH_DATABASE_ALIAS = "workflows"
    settings.DATABASE_ROUTERS = ["checkpoints.database.router.Router"]
    async with bench(workflow(), people=["ana"]) as t:
        run = await t.start(Contract(customer="Jana", amount=80))
        await t.answer(run, "approve", by="ana")
        await t.advance("1d")
        assert run.output == "R-80"
        assert await get_user_model().objects.using("default").filter(username="ana").aexists()


async def test_a_run_goes_from_a_question_through_a_sleep_to_its_output() -> None:
    async with bench(workflow(), people=["ana"]) as t:
        run = await t.start(Contract(customer="Jana", amount=80))
        assert (run.status, run.request.subject) == ("waiting", "Sign Jana?")
        with pytest.raises(StillWaiting, match="Sign Jana"):
            run.result()
        assert await t.answer(run, "approve", by="ana") == VoteCount(votes=1, need=1, decided=True)
        assert (run.status, run.requests) == ("sleeping", ())
        await t.advance("23h")
        assert run.status == "sleeping"
        await t.advance("1h")
        assert (run.status, run.result()) == ("completed", "R-80")
        assert [call.args for call in t.calls] == [(80,)]
        assert run.kinds[0] == "run.queued"
        assert run.kinds[-1] == "run.completed"


async def test_who_is_not_addressed_or_unknown_is_refused_and_the_request_stays_open() -> None:
    policy = Policy(by="legal", not_by="requester")
    people = {"ana": ["legal"], "ben": [], "rita": "legal"}
    async with bench(workflow(policy), people=people, roles={"rita": "operator", "vera": "viewer"}) as t:
        run = await t.start(JANA, by="rita")
        for name in ("ben", "rita"):
            with pytest.raises(NotAllowed):
                await t.answer(run, "approve", by=name)
        with pytest.raises(NotAllowed):
            await t.answer(run, "approve", by="vera")
        with pytest.raises(ValueError, match="Did you mean 'ana'"):
            await t.answer(run, "approve", by="anna")
        with pytest.raises(NotAllowed):
            await t.start(JANA, by="ben")
        assert run.status == "waiting"
        await t.answer(run, "reject", by="ana", reason="too dear")
        assert run.output == "rejected by ana: too dear"


async def test_a_value_that_does_not_fit_is_refused_with_its_field() -> None:
    async with bench(workflow(), people=["ana"]) as t:
        run = await t.start(JANA)
        with pytest.raises(Invalid) as refused:
            await t.answer(run, "aprove", by="ana")
        assert refused.value.errors[0]["loc"] == ["action"]
        assert "Must be one of" in refused.value.__notes__[0]
        with pytest.raises(Invalid):
            await t.start({"customer": "Jana"})
        assert len(t.runs) == 1


async def test_votes_are_counted_once_per_person_and_one_rejection_decides() -> None:
    async with bench(workflow(Policy(need=2)), people=["ana", "ben", "cleo"]) as t:
        run = await t.start(JANA)
        assert await t.answer(run, "approve", by="ana") == VoteCount(votes=1, need=2, decided=False)
        assert run.request.votes == {"ana": "approve"}
        with pytest.raises(AlreadyAnswered):
            await t.answer(run, "approve", by="ana")
        await t.undo(run, by="ana")
        await t.answer(run, "approve", by="ben")
        assert run.status == "waiting"
        assert (await t.answer(run, "approve", by="cleo")).decided
        assert run.status == "sleeping"
        other = await t.start(JANA)
        assert (await t.answer(other, "reject", by="cleo", reason="no")).decided
        assert other.output == "rejected by cleo: no"


async def test_reminder_escalation_and_default_answer_come_at_their_own_times() -> None:
    policy = Policy(by="legal", due="4h", remind="1h", escalate="boss", on_timeout="reject")
    async with bench(workflow(policy), people={"ana": ["legal"], "carl": ["boss"]}) as t:
        run = await t.start(JANA)
        began = t.now
        with pytest.raises(NotAllowed):
            await t.answer(run, "approve", by="carl")
        await t.advance("5h")
        assert run.request.by == ("legal", "boss")
        await t.advance("20h")
        at = {event.kind: event.at - began for event in run.events}
        hours = [round(at[f"request.{what}"] / timedelta(hours=1), 2) for what in ("reminded", "escalated", "answered")]
        assert hours == [3, 4, 8]
        assert run.output == "rejected by no one: Not answered in time."


async def test_the_people_a_request_is_escalated_to_may_answer() -> None:
    policy = Policy(by="legal", due="4h", escalate="boss", on_timeout="reject")
    async with bench(workflow(policy), people={"ana": ["legal"], "carl": ["boss"]}) as t:
        run = await t.start(JANA)
        await t.advance("4h")
        await t.answer(run, "approve", by="carl")
        assert run.status == "sleeping"


async def test_an_answer_that_may_be_undone_takes_effect_after_that_time() -> None:
    async with bench(workflow(Policy(undo="30s")), people=["ana"]) as t:
        run = await t.start(JANA)
        asked = run.request
        await t.answer(run, "approve", by="ana", undo=True)
        assert run.requests == ()
        await t.undo(asked, by="ana")
        await t.answer(run, "approve", by="ana", undo=True)
        await t.advance(29)
        assert run.status == "waiting"
        await t.advance(1)
        assert run.status == "sleeping"


async def test_an_operator_overrides_with_a_reason() -> None:
    async with bench(workflow(Policy(by="legal")), people={"ana": ["legal"]}, roles={"otto": "operator"}) as t:
        run = await t.start(JANA)
        with pytest.raises(Invalid):
            await t.answer(run, "approve", by="otto", override=True)
        await t.answer(run, "approve", by="otto", override=True, reason="Ana is ill")
        assert run.status == "sleeping"


async def test_calls_are_replaced_by_name_and_may_fail() -> None:
    def declined(amount: int) -> str:
        raise ConnectionError(f"{amount} was declined")

    async with bench(workflow(), people=["ana"]) as t:
        t.replace("charge", declined)
        run = await t.start(JANA)
        await t.answer(run, "approve", by="ana")
        await t.advance("1d")
        with pytest.raises(RunFailed, match=r"step 'review': ConnectionError: 80 was declined"):
            run.result()
        t.replace("charge", lambda amount: "fake")
        await t.retry(run)
        assert run.result() == "fake"
        assert len(t.calls) == 2


async def test_a_recorded_call_is_not_repeated_after_a_crash_and_an_unrecorded_one_is() -> None:
    async with bench(workflow(), people=["ana"]) as t:
        first, second = await t.start(JANA), await t.start({"customer": "Ben", "amount": 7})
        for run in (first, second):
            await t.answer(run, "approve", by="ana")
        t.crash_after("charge")
        await t.advance("1d")
        assert (first.output, second.output) == ("R-80", "R-7")
        assert len(t.calls) == 2
        assert "run.recovered" in first.kinds + second.kinds
        t.crash_after("charge", recorded=False)
        third = await t.start({"customer": "Cleo", "amount": 3})
        await t.answer(third, "approve", by="ana")
        await t.advance("1d")
        assert third.output == "R-3"
        assert [call.args for call in t.calls][2:] == [(3,), (3,)]


async def test_whether_a_call_that_must_happen_once_did_is_asked_after_a_crash() -> None:
    async with bench(workflow(once=True), people=["ana"]) as t:
        run = await t.start(JANA)
        await t.answer(run, "approve", by="ana")
        t.crash_after("charge", recorded=False)
        await t.advance("1d")
        assert "charge" in run.request.subject
        await t.answer(run, "happened", by="ana", result="R-80")
        assert (run.output, len(t.calls)) == ("R-80", 1)


async def test_signals_reach_their_step_and_state_and_title_are_seen() -> None:
    parcels = Workflow("parcels", run_title="Parcel {}")

    @parcels.step(start=True)
    async def hand_over(order: str, ctx: Context) -> str:
        ctx.state["order"] = order
        return str(await ctx.receive("shipped", str, due="3d"))

    async with bench(parcels) as t:
        run, late = await t.start("O-1"), await t.start("O-2")
        assert run.title == "Parcel O-1"
        with pytest.raises(Invalid):
            await t.signal(run, "shipped", 7)
        await t.signal(run, "shipped", "RR-1")
        assert (run.output, run.state) == ("RR-1", {"order": "O-1"})
        with pytest.raises(WrongState):
            await t.signal(run, "shipped", "RR-1")
        await t.advance("3d")
        with pytest.raises(RunFailed, match="not received in time"):
            late.result()


async def test_a_run_is_restored_forked_and_edited() -> None:
    counting = Workflow("counting")

    @counting.step(start=True)
    async def first(n: int, ctx: Context) -> int:
        ctx.state["n"] = n
        return n + 1

    @counting.step(after=first)
    async def second(n: int, ctx: Context) -> int:
        return n + int(await ctx.ask("How much more?", answer=int)) + int(ctx.state["n"])

    async with bench(counting, people=["ana"]) as t:
        run = await t.start(1)
        await t.answer(run, 10, by="ana")
        assert run.output == 13
        asked = run.checkpoint("first")
        with pytest.raises(LookupError, match="there are: first, second"):
            run.checkpoint("third")
        await t.restore(run, asked)
        await t.answer(run, 20, by="ana")
        fork = await t.fork(run, asked, edits=Edits(state={"n": 100}))
        await t.answer(fork, 30, by="ana")
        assert (run.output, fork.output, len(t.runs)) == (23, 132, 2)


async def test_schedules_fire_for_each_of_their_times_and_retries_after_their_delays() -> None:
    tries: list[int] = []
    nightly = Workflow("nightly")

    @nightly.step(start=True, retry=Retry(attempts=3, delay=3600, longest=7200))
    async def back_up() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("disk full")
        return "done"

    async with bench(nightly, roles={"otto": "operator"}) as t:
        await t.schedule("0 3 * * *", by="otto")
        await t.advance("2d 1h")
        assert len(t.runs) in (2, 3)
        assert {run.status for run in t.runs} == {"completed"}
        assert all(run.events[0].at.hour == 3 for run in t.runs)
        delay = t.runs[0].events[-1].at - t.runs[0].events[0].at
        assert timedelta(hours=1) <= delay < timedelta(hours=1, minutes=1)


async def test_a_bench_leaves_time_catalogue_and_database_as_they_were() -> None:
    usual = timezone.now, catalog.load
    async with bench(workflow(), people=["ana"]) as t:
        await t.advance("400d")
        assert timezone.now() - datetime.now(UTC) > timedelta(days=399)
        assert list(catalog.load().entries) == ["contracts"]
        with pytest.raises(RuntimeError, match="Another bench is open"):
            bench(workflow()).open()
    assert (timezone.now, catalog.load) == usual
    async with bench(workflow(), people=["ana"]) as t:
        assert (t.runs, t.now - datetime.now(UTC) < timedelta(seconds=1)) == ([], True)


async def test_a_cancelled_or_paused_run_does_not_go_on() -> None:
    other_one = Workflow("other")

    @other_one.step(start=True)
    async def only() -> None: ...

    async with bench(workflow(), other_one, people=["ana"]) as t:
        with pytest.raises(ValueError, match="say which with workflow="):
            await t.start(JANA)
        with pytest.raises(NotFound):
            await t.start(JANA, workflow="third")
        run, other = await t.start(JANA, workflow="contracts"), await t.start(JANA, workflow="contracts")
        await t.cancel(run)
        await t.answer(other, "approve", by="ana")
        await t.pause(other)
        await t.advance("3d")
        assert (run.status, other.status) == ("cancelled", "paused")
        await t.resume(other)
        assert other.output == "R-80"


async def test_a_crash_at_a_call_that_never_happens_is_a_mistake_in_the_test() -> None:
    with pytest.raises(LookupError, match=r"crash_after\('chrage'\): .* calls: charge"):
        async with bench(workflow(), people=["ana"]) as t:
            t.crash_after("chrage")
            run = await t.start(JANA)
            await t.answer(run, "approve", by="ana")
            await t.advance("1d")


@pytest.mark.django_db
def test_the_project_s_own_database_is_neither_seen_nor_touched() -> None:
    users = get_user_model().objects
    users.create(username="project")
    listing = Workflow("listing")

    @listing.step(start=True)
    def all_names() -> list[str]:
        get_user_model().objects.create(username="made by a step")
        return sorted(get_user_model().objects.values_list("username", flat=True))

    async def story() -> list[str]:
        async with bench(listing, people=["ana"]) as t:
            return list((await t.start()).result())

    assert asyncio.run(story()) == ["ana", "bench", "made by a step"]
    assert list(users.values_list("username", flat=True)) == ["project"]


def test_the_plugin_opens_benches_that_end_with_the_test(wfdash_bench: Callable[..., Bench]) -> None:
    async def story() -> None:
        t = wfdash_bench(workflow(), people=["ana"])
        run = await t.start(JANA)
        assert run.status == "waiting"

    asyncio.run(story())
