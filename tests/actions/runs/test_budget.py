"""A run that has reached its budget waits for a person before its next step; nothing is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from checkpoints.database.storage import DatabaseStorage
from checkpoints.errors import Conflict
from checkpoints.models import HumanRequest, Run
from checkpoints.rules import NANOS, read_pairs
from tests import people
from tests.driving import drive, put
from tests.worker.graphs import chat
from wfdash.access.viewer import viewer_for
from wfdash.actions.checkpoints import restore_run
from wfdash.actions.people.accounts import create_service_account
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import RunBudget, budget_of, follow_up, retry_run, start_run
from wfdash.domain.errors import NotAllowed
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


def test_a_program_does_not_answer_for_the_cost_of_its_own_runs(research):
    robot = create_service_account(people.viewer("adam"), "robot", roles=[("operator", "*"), ("reviewer", "*")])
    run = start_run(viewer_for(robot), "research", 1)
    assert drive(run) == "waiting"
    with pytest.raises(NotAllowed):
        answer_request(viewer_for(robot), HumanRequest.objects.get().pk, {"action": "approve"})
    decide(run, action="approve")


def test_a_limit_counts_as_it_is_written_and_what_is_proposed_lets_the_run_go_on(settings):
    settings.WFDASH_BUDGETS = {"third": (0.1 + 0.2, None), "much": ("5000000", "2.0"), "none": (0, 0)}
    assert [str(budget_of(name)) for name in settings.WFDASH_BUDGETS] == [
        "0.3 USD",
        "5000000 USD or 2 tokens",
        "0 USD or 0 tokens",
    ]
    run = Run(input_tokens=7, cost=3 * NANOS)
    for limit in (RunBudget(cost=3, tokens=7), RunBudget(cost=0, tokens=0)):
        for by in (RunBudget(), RunBudget(cost=0, tokens=0)):
            assert limit.is_reached(run)
            assert not limit.raised(run, by).is_reached(run)
    assert not RunBudget(cost=0, tokens=0).raised(Run(), RunBudget()).is_reached(Run())


def test_a_follow_up_that_is_restored_to_its_message_is_held_before_it_is_given_it(research, settings):
    put(catalog.load(), chat())
    settings.WFDASH_BUDGETS = {"chat": (None, 10)}
    otto = people.viewer("otto")
    first = start_run(otto, "chat", {"text": "one"})
    assert drive(first) == "completed"
    run = follow_up(otto, first.pk, "two")
    Run.objects.filter(pk=run.pk).update(input_tokens=10)
    assert drive(run) == "waiting"
    decide(run, action="approve")
    assert drive(run) == "completed"
    run.refresh_from_db()
    assert "two" in str(run.output)


@pytest.mark.parametrize("answer", [None, {"action": "reject", "reason": "no"}])
def test_no_program_takes_a_run_past_its_budget(research, answer):
    run = start_run(people.viewer("otto"), "research", 1)
    assert drive(run) == "waiting"
    if answer:
        decide(run, **answer)

    async def take_over() -> None:
        async with DatabaseStorage() as storage:
            await catalog.load().entries["research"].definition.run(storage=storage, run_id=run.pk)

    with pytest.raises(Conflict, match="waits at its budget"):
        asyncio.run(take_over())
    assert "write" not in DONE
