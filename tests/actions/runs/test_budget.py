"""A run that has reached its budget waits for a person before its next step; nothing is lost, nothing is done twice."""

from __future__ import annotations

from typing import Any

import pytest

from checkpoints.models import HumanRequest, Run
from checkpoints.rules import read_pairs
from tests import people
from tests.driving import drive, put
from wfdash.actions.checkpoints import restore_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import retry_run, start_run
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog
from wfdash.workflow import Context, Workflow, all_of

pytestmark = pytest.mark.django_db(transaction=True)
DONE: list[str] = []


@pytest.fixture
def research(monkeypatch, everybody, settings) -> None:
    settings.WFDASH_PRICES, settings.WFDASH_UNDO = {"m": ("1", "1")}, 0
    settings.WFDASH_BUDGETS = read_pairs("WFDASH_BUDGETS", "other=1, res*=2.5/9000000", 1)
    found, workflow = Catalog(), Workflow("research")
    monkeypatch.setattr(catalog, "load", lambda: found)
    DONE.clear()

    def spends(name: str) -> Any:
        async def step(n: int, ctx: Context) -> int:
            DONE.append(name)
            await ctx.call(lambda: ctx.usage(model="m", input=1_000_000), name="model")
            return n

        return step

    plan = workflow.step(start=True, name="plan")(spends("plan"))
    left = workflow.step(after=plan, name="left")(spends("left"))
    right = workflow.step(after=plan, name="right")(spends("right"))

    @workflow.step(after=all_of(left, right))
    async def write(got: list[int], ctx: Context) -> str:
        DONE.append("write")
        ctx.usage(model="m", input=2_500_000)
        return "written"

    @workflow.step(after=write)
    async def send(text: str) -> str:
        DONE.append("send")
        return text

    put(found, workflow)


def decide(run: Run, **answer: Any) -> HumanRequest:
    (asked,) = HumanRequest.objects.filter(run=run, closed=None, answered=None)
    answer_request(people.viewer("ana"), asked.pk, answer)
    return asked


@pytest.mark.parametrize("commits", [*range(1, 9), 99])
def test_whichever_commit_is_a_workers_last_it_is_held_before_its_next_step_and_asks_once(research, commits):
    run = start_run(people.viewer("otto"), "research", 1)
    drive(run, commits=commits)
    # A worker that looks again changes nothing.
    assert (drive(run), drive(run)) == ("waiting", "waiting")
    assert "write" not in DONE
    asked = decide(run, action="approve")
    assert asked.card["subject"] == "Continue beyond 2.5 USD or 9,000,000 tokens?"
    assert asked.card["proposal"]["tokens"] == 18_000_000
    assert asked.card["evidence"][0]["value"][0]["Model"] == "m"
    assert drive(run) == "waiting"
    assert DONE.count("write") == 1
    decide(run, action="edit", edited={"cost": "100", "tokens": None})
    assert drive(run) == "completed"
    assert DONE.count("write") == DONE.count("send") == 1


def test_rejection_fails_it_with_the_reason_and_a_retry_or_a_restored_run_asks_again(research, settings):
    run = start_run(people.viewer("otto"), "research", 1)
    assert drive(run) == "waiting"
    asked = decide(run, action="reject", reason="too expensive")
    assert drive(run) == "failed"
    assert Run.objects.get().error["message"] == "ana ended the run at its budget: too expensive"
    retry_run(people.viewer("otto"), run.pk)
    assert drive(run) == "waiting"
    restore_run(people.viewer("otto"), run.pk, run.checkpoints.get(n=1).pk)
    assert drive(run) == "waiting"
    found = HumanRequest.objects.filter(run=run).order_by("created")
    assert [one.closed_as for one in found] == ["taken", "superseded", ""]
    assert (asked.pk, len(DONE)) == (found[0].pk, 3)
    # Without a budget nothing holds it, not even an answer that was given before.
    decide(run, action="approve")
    settings.WFDASH_BUDGETS = {}
    assert drive(run) == "completed"
