"""No dashboard: a program of your own that keeps its place in one file and continues after a crash.

    python plain_library.py           # start, or continue
    python plain_library.py approve   # answer what it asked

Kill it whenever you like: what was delivered is not delivered again.
"""

import asyncio
import sys
from pathlib import Path

from checkpoints.file import FileStorage
from checkpoints.ids import RunId
from checkpoints.manager import CheckpointConfig, CheckpointManager
from wfdash.workflow import Approval, Context, Failed, Finished, Waiting, Workflow

ADDRESSES = ["ana@example.org", "ben@example.org", "cem@example.org", "dora@example.org"]
RUN = RunId("may")
newsletter = Workflow("newsletter")


@newsletter.step(start=True)
async def deliver_first(addresses: list[str], ctx: Context) -> list[str]:
    await ctx.call(deliver, addresses[0])
    return addresses[1:]


@newsletter.step(after=deliver_first)
async def ask(addresses: list[str], ctx: Context) -> list[str]:
    decision = await ctx.ask(Approval(subject=f"It looks good. Send it to the other {len(addresses)}?"))
    return addresses if decision.approved else []


@newsletter.step(after=ask)
async def deliver_rest(addresses: list[str], ctx: Context) -> int:
    for address in addresses:
        await ctx.call(deliver, address)
    return len(addresses)


def deliver(address: str) -> None:
    """Send a mail here."""
    with Path("outbox.txt").open("a") as outbox:
        outbox.write(f"{address}\n")


async def advance(action: str | None = None) -> Finished | Waiting | Failed:
    """Start the run, or continue it: the storage knows how far it is."""
    async with FileStorage("newsletter.sqlite3") as file:
        storage = CheckpointManager(file, CheckpointConfig(keep=5))
        latest = await storage.get_latest(RUN)
        if latest is None:
            return await newsletter.run(message=ADDRESSES, storage=storage, run_id=RUN)
        answers = {request.key: {"action": action} for request in latest.requests} if action else None
        return await newsletter.run(storage=storage, run_id=RUN, answers=answers)


if __name__ == "__main__":
    outcome = asyncio.run(advance(*sys.argv[1:]))
    match outcome:
        case Waiting():
            print(outcome.requests[0].card["subject"])
        case Failed():
            sys.exit(outcome.error.message)
        case Finished():
            print(f"Done: {outcome.output} more")
