"""A type that cannot be stored is an error that names the step, before anything runs."""

from __future__ import annotations

import sys
import typing
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from typing_extensions import TypedDict

from tests.workflow.world import finished
from wfdash.testing import RunFailed, run_step
from wfdash.values.codec import can_carry
from wfdash.workflow import Context, Workflow
from wfdash.workflow.errors import InvalidWorkflow


class Connection:
    """Lives in this process only."""


@dataclass
class Order:
    number: int
    connection: Connection


def test_all_steps_with_such_a_type_are_named_at_once() -> None:
    flow = Workflow("flow")

    @flow.step(start=True)
    async def open_it(n: int) -> Connection:
        return Connection()

    @flow.step(after=open_it)
    async def use(connection: Connection) -> list[Order]:
        return []

    with pytest.raises(InvalidWorkflow) as refused:
        _ = flow.graph
    remedy = "which cannot be stored: use JSON types, a dataclass or a pydantic model"
    assert refused.value.facts["problems"] == [
        f"step 'open_it' returns Connection, {remedy}",
        f"step 'use' takes Connection, {remedy}",
        f"step 'use' returns Connection (in list), {remedy}",
    ]


class Amount(TypedDict):
    euros: int


class Other(TypedDict):
    name: str


class Plain(typing.TypedDict):
    euros: int


async def test_a_typed_dict_passes_between_steps() -> None:
    flow = Workflow("flow")

    @flow.step(start=True)
    async def make(n: int) -> Amount:
        return {"euros": n}

    @flow.step(after=make)
    async def keep(amount: Amount | None) -> dict[str, Any]:
        return dict(amount or {})

    @flow.step(after=keep)
    async def end(amount: Amount) -> int:
        return amount["euros"]

    assert finished(await flow.run(5)) == 5


@pytest.mark.parametrize(
    ("gives", "takes", "fits"),
    [(Amount, Other, True), (dict, Amount, True), (Amount, int, False), (list[Amount], Amount, False)],
)
def test_a_typed_dict_is_a_dict_to_the_graph(gives: Any, takes: Any, fits: bool) -> None:
    assert can_carry(gives, takes) is fits


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="what pydantic refuses before Python 3.12")
def test_a_typed_dict_that_pydantic_refuses_is_told_before_a_run() -> None:
    flow = Workflow("flow")

    @flow.step(start=True)
    def make(n: int) -> Plain:
        return {"euros": n}

    with pytest.raises(
        InvalidWorkflow, match=r"returns Plain \(on Python 3.11 take TypedDict from typing_extensions\)"
    ):
        _ = flow.graph


class Shape(Protocol):
    """Cannot be compared to a type."""


def test_a_protocol_is_refused_as_a_type_that_cannot_be_stored() -> None:
    flow = Workflow("flow")

    @flow.step(start=True)
    async def make(n: int) -> Shape:
        raise AssertionError

    @flow.step(after=make)
    async def use(shape: Shape) -> None:
        raise AssertionError

    with pytest.raises(InvalidWorkflow, match="step 'make' returns Shape, which cannot be stored"):
        _ = flow.graph


async def test_an_answer_of_such_a_type_fails_the_step_that_asks() -> None:
    flow = Workflow("flow")

    @flow.step(start=True)
    async def ask(n: int, ctx: Context) -> Any:
        return await ctx.ask("Which one?", answer=Connection)

    with pytest.raises(RunFailed, match=r"step 'ask': InvalidCall: .*Connection cannot be stored"):
        await run_step(ask, 1)
