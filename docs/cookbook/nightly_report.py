"""Every night: count yesterday's orders, and let someone look only if the numbers are unusual."""

from datetime import date

from pydantic import BaseModel, Field

from wfdash.workflow import Approval, Context, Policy, Workflow


class Wanted(BaseModel):
    shop: str = "Hamburg"
    usual: int = Field(100, title="Usual number of orders")


class Count(BaseModel):
    day: date
    orders: int
    usual: int


nightly_report = Workflow(
    "nightly_report",
    title="Nightly report",
    run_title="Report of {shop}",
    policy=Policy(by="shop", due="8h", on_timeout="approve"),
)


@nightly_report.step(start=True)
async def count(wanted: Wanted, ctx: Context) -> Count:
    day, orders = await ctx.call(orders_of_yesterday, wanted.shop)
    return Count(day=day, orders=orders, usual=wanted.usual)


@nightly_report.step(after=count, when=lambda found: not 0.5 <= found.orders / found.usual <= 2)
async def look(found: Count, ctx: Context) -> str:
    card = Approval(
        subject=f"{found.orders} orders on {found.day} instead of {found.usual}: send the report?",
        consequence={"approve": "The report is sent", "reject": "No report is sent today"},
    )
    decision = await ctx.ask(card)
    return f"sent: {found.orders}" if decision.approved else "not sent"


@nightly_report.step(after=count, otherwise=True)
async def send(found: Count) -> str:
    return f"sent: {found.orders}"


def orders_of_yesterday(shop: str) -> tuple[date, int]:
    """Read your shop's database here."""
    return date(2026, 11, 22), 104
