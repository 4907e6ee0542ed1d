"""What happened and where a run stands, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wfdash.pages.timefmt import duration
from wfdash.queries import RunRow

EVENTS: dict[str, str] = {
    "run.queued": "Started by {by}",
    "run.started": "Run began",
    "run.recovered": "Taken over by {worker} after an interruption",
    "run.waiting": "Run is waiting",
    "run.sleeping": "Run sleeps until {until}",
    "run.completed": "Run completed",
    "run.failed": "Run failed",
    "run.cancelled": "Cancelled by {by}",
    "run.paused": "Paused by {by}",
    "run.resumed": "Resumed by {by}",
    "run.retried": "Tried again by {by}",
    "run.restored": "Restored from an earlier checkpoint by {by}: this is now checkpoint {n}",
    "run.forked": "Forked from checkpoint {n} by {by}",
    "step.started": "{step} started",
    "step.finished": "{step} finished",
    "step.failed": "{step} failed",
    "step.retrying": "{step} will be tried again: attempt {attempt} of {attempts}",
    "step.waiting": "{step} waits for an answer",
    "step.sleeping": "{step} sleeps until {until}",
    "request.opened": "Asked: {subject}",
    "request.answered": "{by} answered: {verdict}",
    "request.withdrawn": "Request withdrawn",
    "call.intended": "About to call {name}",
    "call.done": "Called {name}",
    "call.unknown": "Unknown whether {name} happened",
    "progress": "{text}",
    "custom": "{step}: {name}",
}

MARKS: dict[str, tuple[str, str]] = {
    "run.completed": ("check-circle", "is-completed"),
    "run.failed": ("x-circle", "is-failed"),
    "run.cancelled": ("no-symbol", "is-cancelled"),
    "run.paused": ("pause-circle", "is-paused"),
    "run.recovered": ("lifebuoy", "is-interrupted"),
    "run.restored": ("arrow-uturn-left", "is-interrupted"),
    "run.forked": ("share", "is-interrupted"),
    "run.waiting": ("user-circle", "is-waiting"),
    "run.sleeping": ("moon", "is-sleeping"),
    "step.finished": ("check-circle", "is-completed"),
    "step.failed": ("x-circle", "is-failed"),
    "step.retrying": ("arrow-path", "is-retrying"),
    "step.waiting": ("user-circle", "is-waiting"),
    "step.sleeping": ("moon", "is-sleeping"),
    "step.started": ("play-circle", "is-running"),
    "request.opened": ("question-mark-circle", "is-waiting"),
    "request.answered": ("user-circle", "is-completed"),
    "request.withdrawn": ("minus-circle", "is-cancelled"),
    "call.done": ("bolt", "is-completed"),
    "call.intended": ("bolt", "is-running"),
    "call.unknown": ("exclamation-triangle", "is-failed"),
    "progress": ("chart-bar", "is-running"),
    "custom": ("tag", "is-queued"),
}

REASONS: dict[str, str] = {
    "start": "Run began",
    "step": "Step finished",
    "pause": "Parked",
    "call": "Before or after a call",
    "failure": "Step failed",
    "end": "Run ended",
    "label": "Labelled",
    "restore": "Restored",
    "fork": "Forked",
    "migrate": "Migrated",
}

STANDING: dict[str, str] = {
    "queued": "Ready: a worker takes it in a moment",
    "running": "Running now",
    "waiting": "Waiting",
    "sleeping": "Sleeping",
    "retrying": "A step failed and will be tried again",
    "paused": "Paused",
    "interrupted": "Interrupted: its worker stopped answering, another takes over",
    "failed": "Failed: nothing more happens until somebody retries or restores it",
    "completed": "Completed",
    "cancelled": "Cancelled",
}


class _Known(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "…"


def describe(kind: str, step: str, data: Mapping[str, Any]) -> str:
    """Return an event in words; an unknown kind is its own name."""
    words = EVENTS.get(kind, kind).format_map(_Known({"step": step or "Run", **data}))
    if kind == "step.finished" and isinstance(data.get("ms"), int | float):
        words += f" in {duration(data['ms'] / 1000)}"
    if kind == "progress":
        words = _progress(data)
    item = data.get("item")
    return words if item is None else f"{words} (item {item})"


def _progress(data: Mapping[str, Any]) -> str:
    fraction, text = data.get("fraction"), str(data.get("text") or "Progress")
    return f"{text}: {fraction:.0%}" if isinstance(fraction, int | float) else text


def icon_of(kind: str) -> str:
    """Return the name of an event's icon."""
    return MARKS.get(kind, ("information-circle", ""))[0]


def tone_of(kind: str) -> str:
    """Return the tone class of an event."""
    return MARKS.get(kind, ("", "is-queued"))[1]


def standing(run: RunRow) -> str:
    """Return where a run stands and what it waits for, as one sentence."""
    words = STANDING[run.status.value]
    if run.status == "waiting" and run.waiting_for:
        more = len(run.waiting_for) - 1
        words = f"Waiting for an answer to “{run.waiting_for[0]}”" + (f" and {more} more" if more else "")
    if run.status in {"paused", "cancelled"} and run.acted_by:
        words = f"{words} by {run.acted_by}"
    return words
