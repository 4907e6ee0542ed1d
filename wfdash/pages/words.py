"""What happened and where a run stands, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from wfdash.pages.forms.spec import humanize
from wfdash.pages.timefmt import duration, exact
from wfdash.queries import RunRow

EVENTS: dict[str, str] = {
    "run.queued": "Started by {by}",
    "run.started": "A worker took the run",
    "run.recovered": "Taken over by {worker} after an interruption",
    "run.waiting": "The run is parked until what it waits for has come",
    "run.sleeping": "Run sleeps",
    "run.completed": "Run completed",
    "run.failed": "Run failed",
    "run.cancelled": "Cancelled by {by}",
    "run.ending": "{by} asked that it end as soon as the step that runs has ended",
    "run.paused": "Paused by {by}",
    "run.resumed": "Resumed by {by}",
    "run.retried": "Tried again by {by}",
    "run.tagged": "Tags changed by {by}",
    "run.restored": "Restored from an earlier checkpoint by {by}: this is now checkpoint {n}",
    "run.forked": "Forked from checkpoint {n} by {by}",
    "run.edited": "Edited by {by}: this is checkpoint {n}",
    "run.labelled": "Checkpoint {n} labelled by {by}",
    "run.held": "Held: the workflow has changed since the run began",
    "run.released": "Goes on: its code, or a way to the present one, is here",
    "run.migrated": "Migrated to the present graph",
    "run.overridden": "Goes on under the present graph as it stood, says {by}",
    "step.started": "{step} started",
    "step.finished": "{step} finished",
    "step.failed": "{step} failed",
    "step.retrying": "{step} will be tried again: attempt {attempt} of {attempts}",
    "step.waiting": "{step} waits",
    "step.sleeping": "{step} sleeps",
    "request.opened": "{step} asked: {subject}",
    "request.answered": "{by} {past}: {subject}",
    "request.withdrawn": "Request withdrawn",
    "request.voted": "{by} {past}: {subject}",
    "request.answering": "{by} {past}, it takes effect in a moment: {subject}",
    "request.undone": "{by} took it back: {subject}",
    "request.assigned": "{by} assigned it to {to}: {subject}",
    "request.commented": "{by} commented: {subject}",
    "request.asked": "{by} asked back: {subject}",
    "request.replied": "{by} replied: {subject}",
    "request.amended": "{by} added to what is shown: {subject}",
    "request.extended": "{by} moved the deadline: {subject}",
    "request.reminded": "Reminder sent: {subject}",
    "request.escalated": "Escalated: {subject}",
    "signal.sent": "{by} sent the signal {name}",
    "signal.received": "{step} received the signal {name} of {by}",
    "signal.refused": "The signal {name} of {by} does not fit what {step} waits for and was put aside",
    "log": "{message}",
    "call.intended": "About to call {name}",
    "call.done": "Called {name}",
    "call.unknown": "Unknown whether {name} happened",
    "progress": "{text}",
    "custom": "{step} says {name}",
}

MARKS: dict[str, tuple[str, str]] = {
    "run.completed": ("check-circle", "is-completed"),
    "run.failed": ("x-circle", "is-failed"),
    "run.cancelled": ("no-symbol", "is-cancelled"),
    "run.ending": ("no-symbol", "is-paused"),
    "run.paused": ("pause-circle", "is-paused"),
    "run.recovered": ("lifebuoy", "is-interrupted"),
    "run.tagged": ("tag", "is-queued"),
    "run.restored": ("arrow-uturn-left", "is-interrupted"),
    "run.forked": ("share", "is-interrupted"),
    "run.edited": ("pencil-square", "is-interrupted"),
    "run.labelled": ("tag", "is-queued"),
    "run.held": ("arrows-right-left", "is-paused"),
    "run.released": ("play", "is-running"),
    "run.migrated": ("arrows-right-left", "is-interrupted"),
    "run.overridden": ("forward", "is-interrupted"),
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
    "request.voted": ("user-circle", "is-running"),
    "request.answering": ("clock", "is-running"),
    "request.undone": ("arrow-uturn-left", "is-interrupted"),
    "request.assigned": ("user-plus", "is-waiting"),
    "request.commented": ("chat-bubble-left", "is-queued"),
    "request.asked": ("question-mark-circle", "is-waiting"),
    "request.replied": ("chat-bubble-left-right", "is-queued"),
    "request.amended": ("pencil-square", "is-interrupted"),
    "request.extended": ("clock", "is-waiting"),
    "request.reminded": ("bell-alert", "is-waiting"),
    "request.escalated": ("arrow-trending-up", "is-retrying"),
    "signal.sent": ("paper-airplane", "is-queued"),
    "signal.received": ("inbox-arrow-down", "is-completed"),
    "signal.refused": ("exclamation-triangle", "is-failed"),
    "log": ("document-text", "is-queued"),
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
    "call": "Around a call",
    "failure": "Step failed",
    "end": "Run ended",
    "label": "Labelled",
    "restore": "Restored",
    "fork": "Forked",
    "migrate": "Migrated",
    "edit": "Edited",
}

STANDING: dict[str, str] = {
    "queued": "Ready: a worker takes it in a moment",
    "running": "Running now",
    "waiting": "Waiting",
    "sleeping": "Sleeping",
    "retrying": "A step failed and will be tried again",
    "paused": "Paused",
    "held": "Held: its workflow has changed, and nothing declared says how it goes on",
    "interrupted": "Interrupted: its worker stopped answering, another takes over",
    "failed": "Failed: nothing more happens until somebody retries or restores it",
    "completed": "Completed",
    "cancelled": "Cancelled",
}


PAST: dict[str, str] = {
    "approve": "approved",
    "reject": "rejected",
    "edit": "edited and approved",
    "respond": "responded to",
    "submit": "answered",
    "send": "answered",
    "accept": "accepted",
    "decline": "declined",
    "retry": "chose to try again",
    "skip": "skipped",
    "received": "sent",
    "cancel": "cancelled",
}
SIGNAL = "Waits for the signal "
MOST_ERROR = 160
MOST_WORDS = 500


class _Known(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "…"


def describe(kind: str, step: str, data: Mapping[str, Any]) -> str:
    """Return an event in words; an unknown kind is its own name."""
    known = {**data, "step": called(step) if step else "The run", "past": past(str(data.get("verdict") or ""))}
    words = EVENTS[kind].format_map(_Known(known)) if kind in EVENTS else kind
    if kind == "request.assigned" and not data.get("to"):
        words = words.replace("assigned it to ", "took the assignment back")
    if kind.startswith("request.") and not data.get("subject"):
        words = words.partition(":")[0]
    if kind == "request.opened" and str(data.get("subject") or "").startswith(SIGNAL):
        words = f"{known['step']} waits {data['subject'].removeprefix('Waits ')}"
    if kind == "progress":
        words = _progress(data)
    words = words[:MOST_WORDS] + _added(kind, data)
    item = data.get("item")
    return words if item is None else f"{words} (item {item})"


def called(step: str) -> str:
    """Return a step as people read it: ``part/try_out`` -> ``Try out``."""
    return humanize(step.replace("/", ".").rpartition(".")[2] or step)


def past(verdict: str) -> str:
    """Return what somebody did: ``approve`` -> ``approved``, a verdict without a verb -> ``answered``."""
    if verdict in {"", "answered"}:
        return "answered"
    return PAST.get(verdict, f"chose {humanize(verdict).lower()}")


def _added(kind: str, data: Mapping[str, Any]) -> str:
    """Return what an event adds to its sentence: how long it took, why it failed, until when it sleeps."""
    if kind == "step.finished" and isinstance(data.get("ms"), int | float) and data["ms"] >= 1:
        return f" in {duration(data['ms'] / 1000)}"
    if kind in {"step.failed", "run.failed"} and isinstance(data.get("error"), Mapping):
        error = data["error"]
        told = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
        return f": {told[:MOST_ERROR]}{'…' if len(told) > MOST_ERROR else ''}" if told else ""
    if kind == "run.cancelled":
        return _cut_off(data)
    if kind == "run.queued" and data.get("schedule"):
        return f", by schedule {data.get('schedule_name') or data['schedule']}"
    if kind == "run.migrated" and data.get("by"):
        return f" by {data['by']}"
    if kind == "request.voted" and data.get("need"):
        return f" ({data['need']} are needed)"
    if kind == "request.escalated" and data.get("to"):
        return f", now also for {', '.join(map(str, data['to']))}"
    if kind in {"step.sleeping", "run.sleeping"} and data.get("until"):
        return f" until {_moment(str(data['until']))}"
    return ""


def cancelled(data: Mapping[str, Any]) -> str:
    """Return what cancelling a run did to what was under way, for whoever did it."""
    return f"Cancelled{_cut_off(data)}. Its open requests are closed."


def _cut_off(data: Mapping[str, Any]) -> str:
    steps = [f"“{called(str(step))}”" for step in data.get("fenced") or ()]
    calls = [f"“{name}”" for name in data.get("unsure") or ()]
    parts = []
    if data.get("after"):
        parts.append(f"“{called(str(data['after']))}” was let end, and no other step began")
    if steps:
        parts.append(f"{_listed(steps)} ran and was cut off, so what it did outside may have happened")
    if calls:
        parts.append(f"nobody knows whether {_listed(calls)} happened: look outside")
    return f": {'; '.join(parts)}" if parts else ""


def _listed(names: list[str]) -> str:
    """Return at most five names as people say them."""
    shown = names[:5] + ([f"{len(names) - 5} more"] if len(names) > 5 else [])
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]


def _moment(text: str) -> str:
    try:
        return exact(datetime.fromisoformat(text))
    except ValueError:
        return text


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
        first = run.waiting_for[0]
        what = f"an answer to “{first}”" if not first.startswith(SIGNAL) else first.removeprefix("Waits for ")
        words = f"Waiting for {what}" + (f" and {more} more" if more else "")
    if run.status in {"paused", "cancelled"} and run.acted_by:
        words = f"{words} by {run.acted_by}"
    return words
