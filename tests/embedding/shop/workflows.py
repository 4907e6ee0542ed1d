"""What the shop asks people."""

from __future__ import annotations

from wfdash.workflow import Approval, Context, Decision, Workflow

refund = Workflow("refund")


@refund.step(start=True)
async def review(amount: int, ctx: Context) -> str:
    """Ask whether to pay it back."""
    decision: Decision = await ctx.ask(Approval(subject=f"Refund {amount} EUR?"))
    return decision.action
