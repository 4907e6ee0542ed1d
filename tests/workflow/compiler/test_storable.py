"""A type that cannot be stored is an error that names the step, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from wfdash.testing import RunFailed, run_step
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


async def test_an_answer_of_such_a_type_fails_the_step_that_asks() -> None:
    flow = Workflow("flow")

    @flow.step(start=True)
    async def ask(n: int, ctx: Context) -> Any:
        return await ctx.ask("Which one?", answer=Connection)

    with pytest.raises(RunFailed, match=r"step 'ask': InvalidCall: .*Connection cannot be stored"):
        await run_step(ask, 1)
