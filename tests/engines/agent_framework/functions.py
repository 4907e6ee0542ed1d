"""Functions of Agent Framework as authors write them."""

# ruff: noqa: I002
import asyncio
import warnings

import pytest

pytest.importorskip("agent_framework")

from agent_framework import RunContext, step, workflow

with warnings.catch_warnings():
    # The framework warns once in a process that functions are experimental.
    warnings.simplefilter("ignore")
    step(asyncio.sleep)

CALLS: list[str] = []
"""What the steps have done."""
TORN = "torn"
"""What a step that fails says."""


@step
async def upper(text: str) -> str:
    CALLS.append(f"upper {text}")
    return text.upper()


@step
async def send(text: str) -> str:
    CALLS.append(f"send {text}")
    return text


@workflow
async def publish(title: str, ctx: RunContext) -> str:
    """Publish an article."""
    text = await upper(title)
    wanted = await ctx.request_info(f"Publish {text}?", bool)
    if not wanted:
        return f"{text} stays"
    where = await ctx.request_info({"question": "Where?"}, str)
    await send(text)
    return f"{text} on {where}: {wanted}"


@workflow
async def pair(text: str) -> list:
    return list(await asyncio.gather(upper(text), send(text)))


@workflow
async def both(text: str, ctx: RunContext) -> list:
    return list(
        await asyncio.gather(
            ctx.request_info("Left?", int, request_id="left"), ctx.request_info("Right?", int, request_id="right")
        )
    )


@step
async def review(text: str, ctx: RunContext) -> str:
    return await ctx.request_info(f"How is {text}?", str)


@workflow
async def inner(text: str) -> str:
    return f"{text} is {await review(text)}"


@workflow
async def stubborn(text: str) -> str:
    for _ in range(3):
        try:
            await upper(text)
            await asyncio.sleep(0)
        except BaseException:
            continue
    return "done"


@step
async def tear(text: str) -> str:
    raise ValueError(TORN)


@workflow
async def broken(text: str) -> str:
    await upper(text)
    return await tear(text)


@workflow
async def survey(text: str, ctx: RunContext) -> int:
    return sum([await ctx.request_info("How many?", int) for _ in range(100)])


@workflow
async def speechless(ctx: RunContext) -> str:
    return "nothing"
