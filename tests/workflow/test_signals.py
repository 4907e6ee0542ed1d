"""Steps that wait for signals: parked and replayed as questions are, but asked of no one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from tests.workflow.world import answered, failed, finished
from wfdash.contract import InvalidInput
from wfdash.questions.choices import key_prefix, name_in
from wfdash.questions.policy import Policy
from wfdash.workflow import Context, Workflow


class Parcel(BaseModel):
    code: str
    grams: int = 0


def plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, Parcel) else value


def receiving(*waits: tuple[Any, ...], parallel: bool = False, **options: Any) -> tuple[Workflow, list[str]]:
    wf, seen = Workflow("receiving"), []

    @wf.step(start=True)
    async def wait(ctx: Context) -> Any:
        seen.append("top")
        if parallel:
            return list(await asyncio.gather(*(ctx.receive(*one, **options) for one in waits)))
        return [plain(await ctx.receive(*one, **options)) for one in waits]

    return wf, seen


async def test_a_step_parks_until_the_signal_is_there_and_gets_it_as_its_type():
    wf, seen = receiving(("shipped", Parcel))
    outcome = await wf.run(None)
    (request,) = outcome.requests
    assert (request.kind, request.card["subject"]) == ("signal", "Waits for the signal 'shipped'")
    assert name_in(request.key) == "shipped"
    assert request.key.startswith(key_prefix("shipped"))
    assert request.answer_schema["required"] == ["code"]
    outcome = await answered(wf, outcome, {"code": "x1"})
    assert finished(outcome) == [{"code": "x1", "grams": 0}]
    assert len(seen) == 2


async def test_signals_in_sequence_replay_what_came():
    wf, seen = receiving(("item", str), ("item", str), ("end",))
    outcome = await wf.run(None)
    for value in ("a", "b", {"any": [1]}):
        outcome = await answered(wf, outcome, value)
    assert finished(outcome) == ["a", "b", {"any": [1]}]
    assert len(seen) == 4


async def test_several_are_waited_for_at_once():
    wf, _ = receiving(("paid", int), ("shipped", int), parallel=True)
    outcome = await wf.run(None)
    assert {name_in(request.key) for request in outcome.requests} == {"paid", "shipped"}
    outcome = await answered(wf, outcome, lambda request: len(name_in(request.key)))
    assert finished(outcome) == [4, 7]


async def test_what_does_not_fit_is_refused_and_the_run_still_waits():
    wf, _ = receiving(("shipped", Parcel))
    outcome = await wf.run(None)
    with pytest.raises(InvalidInput):
        await answered(wf, outcome, {"grams": 3})
    assert finished(await answered(wf, outcome, {"code": "x"})) == [{"code": "x", "grams": 0}]


async def test_the_workflow_s_policy_for_people_does_not_concern_signals():
    wf = Workflow("addressed", policy=Policy(by="finance", need=2))

    @wf.step(start=True)
    async def wait(ctx: Context) -> Any:
        return await ctx.receive("go", bool)

    (request,) = (await wf.run(None)).requests
    assert (request.by, request.policy) == ((), {})


@pytest.mark.parametrize("due", ["2h", timedelta(hours=2), None], ids=["text", "duration", "moment"])
async def test_with_a_deadline_the_run_fails_once_it_has_passed(due):
    wf, _ = receiving(("go", bool), due=due or datetime.now(UTC) + timedelta(hours=2))
    (request,) = (await wf.run(None)).requests
    assert request.due == request.alarm
    assert abs(request.due - datetime.now(UTC) - timedelta(hours=2)) < timedelta(minutes=1)
    assert request.policy["on_timeout"] == "fail"


@pytest.mark.parametrize("name", ["", "a b", "a:b", "x" * 101, 3, None])
async def test_a_name_that_is_none_is_refused(name):
    wf, _ = receiving((name,))
    assert failed(await wf.run(None)).startswith("InvalidCall: ctx.receive needs a name of")
