"""A workflow that asks twice, calls something outside, and keeps a state big enough for chunks."""

from __future__ import annotations

from wfdash.workflow import Approval, Context, Workflow

flow = Workflow("purchase", title="Purchase")

LINES = [f"line {n}: {n * 7919 % 1000} pieces of part {n * 104729 % 9973}" for n in range(200)]


def quote(amount: int) -> str:
    """Stand for a call to somewhere else."""
    return f"offer for {amount}"


@flow.step(start=True)
async def collect(amount: int, ctx: Context) -> int:
    """Fill the state."""
    ctx.state["lines"] = LINES
    return amount


@flow.step(after=collect)
async def review(amount: int, ctx: Context) -> str:
    """Ask twice, with a call in between."""
    first = await ctx.ask(Approval(subject=f"Buy for {amount}?"))
    offer = await ctx.call(quote, amount)
    second = await ctx.ask(Approval(subject=f"Take the {offer}?"))
    return f"{first.action} {offer} {second.action}"


@flow.step(after=review)
async def order(decision: str, ctx: Context) -> str:
    """End with all that was kept."""
    return f"{decision}: {len(ctx.state['lines'])} lines"
