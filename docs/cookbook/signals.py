"""An order waits for messages from other systems: the payment, then the carrier. People are asked if none comes."""

from decimal import Decimal

from pydantic import BaseModel

from wfdash.workflow import Choice, Context, Workflow


class Order(BaseModel):
    number: str
    total: Decimal


class Paid(BaseModel):
    amount: Decimal


class Shipped(BaseModel):
    tracking: str


orders = Workflow("orders", title="Order", run_title="Order {number}")


@orders.step(start=True)
async def wait_for_payment(order: Order, ctx: Context) -> Order:
    paid = Decimal(0)
    while paid < order.total:
        paid += (await ctx.receive("paid", Paid, due="7d")).amount
        ctx.progress(min(1.0, float(paid / order.total)), f"{paid} of {order.total} paid")
    if paid > order.total:
        options = {"refund": "Pay the rest back", "keep": "Keep it as credit"}
        ctx.state["rest"] = await ctx.ask(Choice(subject=f"{paid - order.total} too much was paid", options=options))
    return order


@orders.step(after=wait_for_payment)
async def wait_for_carrier(order: Order, ctx: Context) -> str:
    shipped = await ctx.receive("shipped", Shipped, due="14d")
    return f"{order.number} is on its way: {shipped.tracking}"
