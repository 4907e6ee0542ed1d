"""A workflow for the operators' stories: it fails for a reason that one can read, and asks before it charges much."""

from __future__ import annotations

from pydantic import BaseModel

from wfdash.workflow import Approval, Context, Workflow

RATES = {"EUR": 1.0, "USD": 0.9}


class UnknownCurrency(ValueError):
    """No one can be charged in it."""


class Bill(BaseModel):
    """What is to be charged."""

    customer: str
    amount: float
    currency: str


billing = Workflow("billing", title="Billing")


@billing.step(start=True)
async def convert(bill: Bill, ctx: Context) -> float:
    """Return the amount in EUR."""
    if bill.currency not in RATES:
        raise UnknownCurrency(f"{bill.currency} is no currency that {bill.customer} can be charged in")
    ctx.state["customer"] = bill.customer
    return bill.amount * RATES[bill.currency]


@billing.step(after=convert)
async def charge(amount: float, ctx: Context) -> str:
    """Charge it, much only after someone agreed."""
    if amount > 1000:
        await ctx.ask(Approval(subject=f"Charge {amount:g} EUR?"))
    return await ctx.call(pay, ctx.state["customer"], amount)


async def pay(customer: str, amount: float) -> str:
    return f"{customer} paid {amount:g} EUR"
