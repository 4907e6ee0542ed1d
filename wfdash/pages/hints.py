"""What usually helps when a run failed: by the class of its error, then for any. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HINTS: dict[str, str] = {
    "InvalidWorkflow": "The definition contradicts itself: the message names the steps. Correct the code, then retry.",
    "NotStorable": (
        "A value would not come back the same from the database. Return a type that can be stored (JSON, dataclass, "
        "pydantic model, datetime, Decimal), or declare how it is written. Then retry."
    ),
    "WrongType": (
        "A step returned, or an answer held, something that its declared type does not allow. Correct the step or its "
        "annotation and retry; if a value that is stored already is wrong, fork with edits."
    ),
    "StateConflict": (
        "Two steps that ran at the same time wrote the same key of the state. Declare a reducer for it, or let one "
        "step wait for the other, then retry."
    ),
    "ReplayMismatch": (
        "The code of the step does something else than was recorded when it began. Bring the old code back and retry, "
        "or restore a checkpoint from before the step."
    ),
    "StepTimeout": (
        "The step took longer than its timeout allows. Retry if what it waits for was slow; else raise the timeout "
        "or split the step."
    ),
    "Runaway": (
        "A loop went round very often without any person in between. If that is meant, raise max_steps; otherwise "
        "look at the condition that should end it, and restore a checkpoint from before the loop."
    ),
    "CallStopped": (
        "Nobody could say whether a call had happened, and a person stopped it. Look outside what is true; then fork "
        "with edits, or restore a checkpoint from before the call."
    ),
    "CallFailed": "A recorded call raised an exception whose class is gone. Bring it back, or restore before it.",
    "Damaged": "A checkpoint cannot be read whole. Restore an earlier checkpoint that is not marked as damaged.",
    "Locked": "What is stored is encrypted with a key this server lacks. Add it to WFDASH_ENCRYPTION_KEYS.",
    "Incompatible": "The graph changed in a way nothing declared covers. Migrate the run, or run the old code.",
    "ValidationError": (
        "A value does not fit its model: the message names the field. If the input is wrong, fork with an edited input."
    ),
    "KeyError": "Something was looked up that is not there: look at the input of the step, then fork with edits.",
    "ModuleNotFoundError": "The worker's environment lacks a package: install it where the worker runs, then retry.",
    "ImportError": "The worker's code could not be loaded whole: see the workflow's page, correct it, then retry.",
    "PermissionError": "The worker may not do this outside: correct its rights, then retry.",
    "MemoryError": "The worker ran out of memory: give it more, or let the step work in smaller pieces, then retry.",
}
TIMES = ("Timeout", "TimedOut")
NETWORK = ("Connection", "Connect", "SSL", "Network", "gaierror", "HTTPError", "Unreachable", "RemoteProtocol")
PASSING = (
    "What it talked to outside did not answer. Such failures usually pass: retry, and declare a Retry for the step."
)
ANY = (
    "Try again runs only the steps that failed or were cut off; calls that are recorded as done are not repeated. If "
    "the input or the state is wrong, fork with edits. If the code was changed, it must be loaded by the worker first."
)


def hint(error: Mapping[str, Any] | None) -> str:
    """Return what usually helps with an error, as one or two sentences; always something."""
    kind = str((error or {}).get("type") or "").rpartition(".")[2]
    if kind in HINTS:
        return HINTS[kind]
    if any(part in kind for part in (*TIMES, *NETWORK)):
        return PASSING
    return ANY
