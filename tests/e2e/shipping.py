"""A workflow for stories of the list of runs: it fails for as long as the warehouse is shut."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel

from wfdash.workflow import Context, Workflow

OPEN = Path(os.environ.get("WFDASH_DATA", ".")) / "warehouse-open"


class Order(BaseModel):
    """What is sent, and to whom."""

    customer: str
    amount: float


class WarehouseShut(Exception):
    """No one is there to pack it."""


shipping = Workflow("shipping", title="Ship an order")


@shipping.step(start=True)
async def pack(order: Order, ctx: Context) -> str:
    """Pack the order, if someone is there."""
    if not OPEN.exists():
        raise WarehouseShut(f"Gate {order.amount:.0f} of the warehouse is shut")
    return f"packed for {order.customer}"
