"""Which steps are drawn with a person: those that ask through their context, and those that say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.workflow.world import failed, finished
from wfdash.workflow import Context, Workflow
from wfdash.workflow.describe import describe
from wfdash.workflow.errors import InvalidWorkflow


class Model:
    """A client with a method of the same name."""

    def ask(self, question: str) -> str:
        return question.upper()


llm = Model()


def think(question: str) -> str:
    return llm.ask(question)


async def think_on(question: str, ctx: Context) -> str:
    return llm.ask(question) + ctx.step


async def ask(question: str, ctx: Context) -> str:
    return str(await ctx.ask(question))


async def ask_late(question: str, run: Context) -> str:
    async def later() -> Any:
        return await run.ask(question)

    return str(await later())


async def by_helper(question: str, ctx: Context) -> str:
    return await ask(question, ctx)


def made_at_run_time() -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec("async def step(question, ctx): return await ctx.ask(question)", names)
    return names["step"]  # type: ignore[no-any-return]


def drawn(function: Callable[..., Any], **options: Any) -> bool:
    wf = Workflow("drawing")
    wf.step(start=True, name="only", **options)(function)
    return describe(wf).steps[0].person


@pytest.mark.parametrize(
    ("function", "person"),
    [
        (ask, True),
        (ask_late, True),
        (think, False),
        (think_on, False),
        (by_helper, False),
        (made_at_run_time(), False),
        (lambda question, ctx: ctx.ask(question), True),
        (Model().ask, False),
    ],
)
def test_a_step_is_drawn_with_a_person_if_it_asks_through_its_context(function: Callable[..., Any], person: bool):
    assert drawn(function) is person


def test_a_step_that_asks_through_a_helper_says_so():
    assert drawn(by_helper, people=True)


def test_saying_that_a_step_asks_people_is_no_other_version():
    plain, marked = Workflow("drawing"), Workflow("drawing")
    plain.step(start=True)(by_helper)
    marked.step(start=True, people=True)(by_helper)
    assert plain.version == marked.version


async def test_a_plain_function_may_call_something_else_named_ask():
    wf = Workflow("thinking")
    wf.step(start=True)(think)
    assert finished(await wf.run("why")) == "WHY"


async def test_a_plain_function_that_asks_people_fails_with_the_remedy():
    wf = Workflow("asking")

    @wf.step(start=True)
    def b(question: str, ctx: Context) -> None:
        ctx.ask(question)

    assert failed(await wf.run("why")) == "InvalidCall: step 'b' is a plain function: make it 'async def' to ask"


@pytest.mark.parametrize("limit", [0, -1, True, "3", 1.5])
def test_a_limit_is_a_number_of_runs(limit: Any) -> None:
    with pytest.raises(InvalidWorkflow, match=r"limit .*: give how many"):
        Workflow("any", limit=limit)


def test_queue_and_limit_are_described_and_no_part_of_the_version() -> None:
    plain, placed = (Workflow("any", **facts) for facts in ({}, {"queue": "gpu", "limit": 3}))
    for workflow in (plain, placed):
        workflow.step(start=True)(think)
    described = describe(placed)
    assert (described.queue, described.limit, described.version) == ("gpu", 3, describe(plain).version)


@pytest.mark.parametrize("name", ["", "two words", "a,b", "x" * 61, None])
def test_a_queue_has_a_name_that_a_command_line_can_list(name: Any) -> None:
    with pytest.raises(InvalidWorkflow, match=r"queue .*: give up to 60 letters"):
        Workflow("any", queue=name)
