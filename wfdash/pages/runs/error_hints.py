"""Hints for a failed run: by the class of its error, or general ones. Pure."""

from __future__ import annotations

from wfdash.records.runs import RunError

HINTS: dict[str, str] = {
    "InvalidWorkflow": "The workflow is inconsistent; the message names the steps. Fix the code, then retry.",
    "NotStorable": (
        "A value cannot be stored without loss. Return a storable type (JSON, dataclass, pydantic model, "
        "datetime, Decimal) or declare how to store it, then retry."
    ),
    "WrongType": (
        "A step or an answer returned a value its type does not allow. Fix the step or its annotation and "
        "retry; if a stored value is wrong, fork with edits."
    ),
    "StateConflict": (
        "Two parallel steps wrote the same state key. Declare a reducer for it or make one step wait for the "
        "other, then retry."
    ),
    "ReplayMismatch": (
        "The step's code no longer matches what it recorded. Restore the old code and retry, or restore a "
        "checkpoint from before the step."
    ),
    "StepTimeout": (
        "The step exceeded its timeout. Retry if the delay was temporary; otherwise raise the timeout or "
        "split the step."
    ),
    "Runaway": (
        "A loop ran many times without an answer from a person. If intended, raise max_steps; otherwise fix "
        "its exit condition and restore a checkpoint from before the loop."
    ),
    "CallStopped": (
        "The outcome of a call was unknown and a person stopped the run. Check the external system, then "
        "fork with edits or restore a checkpoint from before the call."
    ),
    "CallFailed": "A recorded call raised an exception whose class no longer exists. Restore the class, or restore a "
    "checkpoint from before the call.",
    "Damaged": "A checkpoint is damaged. Restore an earlier checkpoint that is not marked as damaged.",
    "Locked": "Stored data is encrypted with a key this server does not have. Add it to WFDASH_ENCRYPTION_KEYS.",
    "NotEncrypted": (
        "Stored data was not written with your keys. If it predates encryption, add plain to "
        "WFDASH_ENCRYPTION_KEYS, run rotate_keys and remove plain again; otherwise restore it from a backup."
    ),
    "Incompatible": "The workflow changed and no migration is defined. Migrate the run or run the old code.",
    "ValidationError": (
        "A value does not match its model; the message names the field. If the input is wrong, fork with an "
        "edited input."
    ),
    "KeyError": "A lookup failed. Check the input of the step, then fork with edits.",
    "ModuleNotFoundError": "A package is missing. Install it in the worker's environment, then retry.",
    "ImportError": "The workflow's code could not be loaded. See the workflow's page, fix it, then retry.",
    "PermissionError": "The worker lacks permission. Fix its permissions, then retry.",
    "MemoryError": "The worker ran out of memory. Add memory or split the work into smaller pieces, then retry.",
}
SECTIONS: dict[str, tuple[str, str]] = {
    "NotStorable": ("workflows", "what-can-be-stored"),
    "ReplayMismatch": ("workflows", "when-a-question-changes"),
    "Incompatible": ("versions", "a-run-that-is-held"),
    "Damaged": ("checkpointing", "recovery"),
    "Locked": ("encryption", "keys"),
    "NotEncrypted": ("encryption", "keys"),
    "ImportError": ("workflows", "while-you-write"),
    "ModuleNotFoundError": ("workflows", "while-you-write"),
}
"""Page and section of the documentation about an error."""
ERRORS = ("workflows", "what-can-go-wrong")
TIMEOUTS = ("Timeout", "TimedOut")
NETWORK = ("Connection", "Connect", "SSL", "Network", "gaierror", "HTTPError", "Unreachable", "RemoteProtocol")
TRANSIENT = "The external service did not respond. Retry; consider a Retry policy for this step."
ANY = (
    "Retry runs only failed and interrupted steps; recorded calls are not repeated. If the input or state is "
    "wrong, fork with edits. "
)
CHANGED = "If you changed the code, restart the worker first."
SAVED = "If the code is wrong, save the file, then retry."
"""Where files are read again when they change."""


def hint(error: RunError | None, *, reloads: bool = False) -> str:
    """Return what usually helps with an error, as one or two sentences; never empty. ``reloads``: whether the process
    that executes the run reads files again when they change.
    """
    kind = _class_of(error)
    if kind in HINTS:
        return HINTS[kind]
    if any(part in kind for part in (*TIMEOUTS, *NETWORK)):
        return TRANSIENT
    return ANY + (SAVED if reloads else CHANGED)


def section_about(error: RunError | None) -> tuple[str, str]:
    """Return page and section of the documentation that an error is explained in."""
    return SECTIONS.get(_class_of(error), ERRORS)


def _class_of(error: RunError | None) -> str:
    return error.type.rpartition(".")[2] if error else ""
