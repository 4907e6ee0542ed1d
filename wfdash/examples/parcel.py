"""Tracks a parcel from packing to delivery, driven by signals of the carrier instead of decisions.

The carrier sends signals to ``POST /api/v1/runs/<id>/signals``; operators can send them from the run's page. Log
records of the steps are shown among the run's events.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from pydantic import BaseModel, Field

from wfdash.workflow import Context, Workflow

log = logging.getLogger(__name__)
LIMIT = 20.0
"""Kilograms that the carrier takes."""


class Item(BaseModel):
    name: str = Field(min_length=1, max_length=80)
    kilograms: float = Field(gt=0, le=LIMIT)


class Order(BaseModel):
    """What is to be sent, and where to."""

    to: str = Field("Vera Novak, Lisbon", min_length=1, max_length=200, title="To")
    items: list[Item] = Field(
        [Item(name="Book", kilograms=0.8), Item(name="Teapot", kilograms=1.9)], min_length=1, max_length=50
    )


class Box(BaseModel):
    to: str
    kilograms: float
    code: str = ""


class Shipped(BaseModel):
    """The carrier has it."""

    code: str = Field(min_length=3, max_length=40, title="Tracking code")


class Delivered(BaseModel):
    """It has arrived."""

    signed_by: str = Field(min_length=1, max_length=80, title="Signed by")


class Receipt(BaseModel):
    code: str
    signed_by: str


parcel = Workflow("parcel", title="Send a parcel", run_title="Parcel to {to}", doc=__doc__ or "")


@parcel.step(start=True)
def pack(order: Order) -> Box:
    """Pack the items into a box."""
    box = Box(to=order.to, kilograms=0.2)
    for number, item in enumerate(order.items, start=1):
        box.kilograms = round(box.kilograms + item.kilograms, 3)
        log.info("Item %d of %d: %s, the box weighs %.1f kg", number, len(order.items), item.name, box.kilograms)
    if box.kilograms > LIMIT:
        log.warning("%.1f kg exceeds the carrier’s limit of %.0f kg", box.kilograms, LIMIT)
    return box


@parcel.step(after=pack)
async def hand_over(box: Box, ctx: Context) -> Box:
    """Wait for the carrier to pick it up."""
    shipped = await ctx.receive("shipped", Shipped)
    log.info("On its way to %s as %s", box.to, shipped.code)
    return box.model_copy(update={"code": shipped.code})


@parcel.step(after=hand_over)
async def arrive(box: Box, ctx: Context) -> Receipt:
    """Wait for the signature; the run fails after 14 days without one."""
    delivered = await ctx.receive("delivered", Delivered, due=timedelta(days=14))
    return Receipt(code=box.code, signed_by=delivered.signed_by)
