"""A workflow whose question needs two people of a group."""

from __future__ import annotations

from wfdash.workflow import Approval, Context, Policy, Workflow

agreement = Workflow("agreement", title="Agreement", run_title="Agree on {}", policy=Policy(by="finance", need=2))


@agreement.step(start=True)
async def agree(amount: int, ctx: Context) -> str:
    """Ask for two votes that say the same."""
    decision = await ctx.ask(Approval(subject=f"Agree on {amount}?"))
    return decision.action
