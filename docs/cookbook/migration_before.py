"""The version that is in production: one person reviews each order."""

from wfdash.workflow import Approval, Context, Workflow

purchases = Workflow("purchases", title="Purchase")


@purchases.step(start=True)
async def review(item: str, ctx: Context) -> str:
    ctx.state["item"] = item
    decision = await ctx.ask(Approval(subject=f"Buy {item}?"))
    return "ok" if decision.approved else "no"


@purchases.step(after=review)
async def remind(verdict: str, ctx: Context) -> str:
    await ctx.ask("Has it arrived?")
    return verdict
