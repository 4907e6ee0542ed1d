"""The next version: ``review`` is called ``approve``, the reminder is gone, an order has a currency."""

from pydantic import BaseModel

from wfdash.workflow import Approval, Context, Workflow
from wfdash.workflow.authoring import Migration


class Notes(BaseModel):
    item: str = ""
    currency: str = "EUR"


purchases = Workflow("purchases", title="Purchase", state=Notes)


@purchases.step(start=True)
async def approve(item: str, ctx: Context) -> str:
    ctx.state.item = item
    decision = await ctx.ask(Approval(subject=f"Buy {item}?"))
    return "ok" if decision.approved else "no"


@purchases.step(after=approve)
async def pay(verdict: str, ctx: Context) -> str:
    return f"{ctx.state.item}: {verdict} ({ctx.state.currency})"


@purchases.migrate(from_version="b00b0052c16fed05")
def rename_review(run: Migration) -> None:
    run.rename("review", "approve")  # what it asked and was answered stays with it
    run.move("remind", to="pay")  # a run that waits there continues with the new step; its question is withdrawn
    run.state["currency"] = "CHF"  # what older runs were made in
