"""A workflow that says so many things a second for so many seconds, once the file ``gate`` exists."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from pydantic import BaseModel

from wfdash.workflow import Context, Workflow


class Beat(BaseModel):
    gate: str
    rate: int
    seconds: int


beating = Workflow("beating", title="So many events a second")


@beating.step(start=True, after="again")
async def beat(left: Beat, ctx: Context) -> Beat:
    """One second of it."""
    while not Path(left.gate).exists():
        await asyncio.sleep(0.01)
    began = time.monotonic()
    for number in range(left.rate):
        ctx.emit("beat", {"number": number, "words": "what a step says of itself now and then"})
        await asyncio.sleep(max(0.0, began + (number + 1) / left.rate - time.monotonic()))
    return left.model_copy(update={"seconds": left.seconds - 1})


@beating.step(after=beat, when=lambda left: left.seconds > 0)
async def again(left: Beat) -> Beat:
    """The next second."""
    return left
