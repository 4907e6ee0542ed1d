"""Workflows of every kind: broken at each commit, forked and restored at each checkpoint, they come to one output."""

# ruff: noqa: I002
from typing import Any, Never

import pytest

pytest.importorskip("agent_framework")
pytest.importorskip("agent_framework_orchestrations")

import pytest
from agent_framework import WorkflowBuilder, WorkflowContext, executor

from checkpoints.records import Json, Request
from tests.conformance.worlds import AnyWorld
from tests.engines.agent_framework import functions, orchestrations, samples
from tests.engines.agent_framework.promises import SAMPLES, Asker, noting
from wfdash.engines.agent_framework import AgentFrameworkEngine
from wfdash.engines.conformance import (
    CHECKS,
    DRIVES,
    Check,
    EngineWorld,
    Ledger,
    Sample,
    Samples,
    continues_after_any_crash,
    continues_from_every_checkpoint,
)

HOW = ("killed before",)
"""Killed after a commit, a run continues from where it would if killed before the next; the shared checks do it all."""
KINDS: dict[str, Any] = {
    "review": samples.review_workflow,
    "sub-workflow": samples.nested_review,
    "tools that need approval": samples.refunds,
    "agents in a row": lambda: orchestrations.sequential(asks=True),
    "plan": orchestrations.magentic,
    "function": lambda: functions.publish,
    "parallel tasks of a function": lambda: functions.both,
    "step that asks": lambda: functions.inner,
}


def reply(request: Request) -> Json:
    schema = request.answer_schema
    if "action" in schema.get("properties", {}):
        return {"action": "approve"}
    if "verdict" in schema.get("properties", {}):
        return {"verdict": "publish", "words": "good"}
    return {"boolean": True, "integer": 7, "string": "web"}[schema["type"]]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_crash_at_any_commit_changes_nothing(kind: str) -> None:
    sample = Sample(make=lambda ledger: KINDS[kind](), reply=reply, width=4)
    whole = await continues_after_any_crash(EngineWorld(AgentFrameworkEngine, SAMPLES), sample, ways=HOW)
    assert whole.record.opened
    assert whole.output


@pytest.mark.parametrize("kind", KINDS)
async def test_every_checkpoint_leads_to_the_same_output(kind: str) -> None:
    sample = Sample(make=lambda ledger: KINDS[kind](), reply=reply, width=4)
    run = await continues_from_every_checkpoint(EngineWorld(AgentFrameworkEngine, SAMPLES), sample)
    assert run.record.opened


def asking_beside(ledger: Ledger) -> Any:
    async def work(text: str, ctx: WorkflowContext[str]) -> None:
        await ledger.held()
        await ctx.send_message(text)

    async def join(texts: list[str], ctx: WorkflowContext[Never, str]) -> None:
        await ctx.yield_output(max(texts, key=len))

    start, quick = noting(ledger, "start", noted=False), noting(ledger, "quick", noted=False)
    ask, slow = Asker("ask"), executor(work, id="work")
    builder = WorkflowBuilder(start_executor=start, name="asking_beside").add_fan_out_edges(start, [ask, quick])
    return builder.add_edge(quick, slow).add_fan_in_edges([ask, slow], executor(join, id="join")).build()


@pytest.mark.parametrize("name", ["an_answer_that_comes_while_another_step_runs_is_used"])
async def test_a_question_of_an_earlier_superstep_is_answered_while_a_later_one_runs(name: str) -> None:
    (check,) = (check for check in DRIVES if check.__name__ == name)
    beside = Samples(asks=SAMPLES.asks, asks_beside=Sample(make=asking_beside, width=2))
    await check(EngineWorld(AgentFrameworkEngine, beside))


WORLD = EngineWorld(AgentFrameworkEngine, SAMPLES)
LACKS = {check.__name__: reason for check in CHECKS if (reason := WORLD.lacks(check))}
CHECKED = [check for check in CHECKS if not WORLD.lacks(check)]


@pytest.mark.parametrize("check", CHECKED, ids=lambda one: one.__name__)
async def test_the_engine_keeps_its_promises(check: Check, engine_place: AnyWorld):
    await check(EngineWorld(AgentFrameworkEngine, SAMPLES, engine_place, visible_within=5.0, tolerance=0.5))


@pytest.mark.alone
async def test_a_running_step_is_visible_within_300_ms_and_its_length_is_right_to_30_ms():
    (check,) = (check for check in CHECKED if check.__name__.startswith("a_step_is_visible_while_it_runs"))
    await check(WORLD)


def test_what_it_does_not_promise_is_known():
    abilities = ("LooksAhead", "TakesEdits")
    # The framework knows a question only at the end of a superstep: none is visible beside a step that runs.
    assert set(LACKS.values()) == {
        "Samples.asks_beside is not given",
        *(f"the engine is no {ability}" for ability in abilities),
    }
