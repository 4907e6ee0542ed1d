"""``once`` calls of unknown outcome: made again only with the arguments that people saw when they decided so."""

from __future__ import annotations

import json

from wfdash.values.fingerprints import MOST_AGAIN
from wfdash.workflow.errors import ReplayMismatch
from wfdash.workflow.reducer.ticks import CallDiffers
from wfdash.workflow.runtime.step.step_ops import StepOps
from wfdash.workflow.stored.position import CallIntent, JournalEntry


async def await_decision(ops: StepOps, index: int, now: JournalEntry) -> JournalEntry:
    """Return a call's journal entry once its outcome is decided. ``now``: what the code passes this time.

    People are asked again where that is not what they were shown; ``ReplayMismatch`` if it differs each time.
    """
    entry = ops.begin(index)
    while True:
        if "unknown" in entry:
            entry = await ops.wait(index, people=True)
        if not _differs(entry, now):
            return entry
        if entry.get("differed", 0) >= MOST_AGAIN:
            raise ReplayMismatch(
                f"step {ops.node.name!r} passed other arguments to {entry['name']!r} each time it ran: get what"
                " changes through ctx.call, so that it is recorded"
            )
        ops.reopen(index)
        at = ops.host.now()
        intent: CallIntent = {"args": now["args"], "at": now["at"]}
        ops.host.post(CallDiffers(at=at, activation=ops.activation, index=index, intent=intent))
        entry = await ops.wait(index, people=True)


def _differs(entry: JournalEntry, now: JournalEntry) -> bool:
    """Say whether a call is to be made again that is not the one that was shown; older ones showed no arguments."""
    if not entry.get("again") or "args" not in entry:
        return False
    return json.dumps(entry["args"], sort_keys=True) != json.dumps(now.get("args"), sort_keys=True)
