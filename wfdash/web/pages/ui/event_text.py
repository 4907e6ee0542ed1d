"""Texts of events and of run statuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from checkpoints.events import KINDS, EventKind
from checkpoints.records import frozen
from checkpoints.rules import money_text, used_in
from wfdash.domain.labels import humanize, in_words, label_of_step, visible
from wfdash.engines import catalog
from wfdash.queries.runs.listing import RunRow
from wfdash.queries.runs.logs import LEVELS
from wfdash.questions.choices import name_in
from wfdash.records.runs import LogLineRecord
from wfdash.web.pages.ui.time_html import draw_moment, format_html
from wfdash.web.pages.ui.times import duration, exact, money, number

# A line of a log as HTML, with the hits of a search marked. In Python: no space may come between parts of its text.

MOST_MARKS = 100
"""Hits that are marked in one record."""
LINE = (
    '<li class="log-line {tone}" id="l{seq}"><a class="log-at" href="{events}?seq={seq}#e{seq}">{at}</a> '
    '<span class="log-level">{level}</span> <span class="log-step truncate" title="{where}">{step}</span> {text}</li>'
)


@frozen
class LogLine:
    """A record, and what is marked in its text. ``start``: of its run; ``events``: the address of the run's events.
    ``workflow``: for the titles of its steps."""

    record: LogLineRecord
    wanted: str
    start: datetime
    events: str
    workflow: str = ""

    @property
    def html(self) -> SafeString:
        """Return the line as HTML."""
        one = self.record
        return format_html(
            LINE,
            tone=f"level-{one.level.lower()}" if one.level in LEVELS else "",
            seq=one.seq,
            events=self.events,
            at=draw_moment(one.at, self.start),
            level=one.level or "–",
            where=f"{one.step} · {visible(one.logger)}",
            step=step_label(one.step, self.workflow),
            text=self._text,
        )

    @property
    def _text(self) -> SafeString:
        if self.record.text is None:
            return SafeString('<span class="log-text is-hidden">Text not shown</span>')
        parts = marked(self.record.text, self.wanted)
        return format_html('<span class="log-text">{}</span>', format_html_join("", "{}", _drawn(parts)))


def marked(text: str, wanted: str) -> tuple[tuple[str, bool], ...]:
    """Return a text in parts, the hits of a search apart, whatever their case; at most ``MOST_MARKS`` of them."""
    shown = visible(text)
    if not wanted:
        return ((shown, False),)
    parts = re.split(f"({re.escape(visible(wanted))})", shown, maxsplit=MOST_MARKS, flags=re.IGNORECASE)
    return tuple((part, n % 2 == 1) for n, part in enumerate(parts) if part)


def _drawn(parts: tuple[tuple[str, bool], ...]) -> Iterator[tuple[str]]:
    for text, hit in parts:
        yield (format_html("<mark>{}</mark>", text) if hit else text,)


REASONS: dict[str, str] = {
    "start": "Run started",
    "step": "Step finished",
    "pause": "Waiting",
    "call": "Call",
    "failure": "Step failed",
    "end": "Run ended",
    "label": "Labelled",
    "restore": "Restored",
    "fork": "Forked",
    "follow_up": "Followed up",
    "migrate": "Migrated",
    "edit": "Edited",
}

STATUS_TEXTS: dict[str, str] = {
    "queued": "Queued",
    "running": "Running",
    "waiting": "Waiting",
    "sleeping": "Sleeping",
    "retrying": "Retrying",
    "paused": "Paused",
    "held": "On hold: workflow changed, no migration defined",
    "interrupted": "Interrupted: moving to another worker",
    "failed": "Failed",
    "completed": "Completed",
    "cancelled": "Cancelled",
}


PAST: dict[str, str] = {
    "approve": "approved",
    "approve_similar": "approved with similar ones",
    "reject": "rejected",
    "edit": "edited and approved",
    "respond": "responded to",
    "submit": "answered",
    "send": "answered",
    "accept": "accepted",
    "decline": "declined",
    "retry": "chose to retry",
    "skip": "skipped",
    "received": "sent",
    "cancel": "cancelled",
}
MOST_ERROR = 160
MOST_WORDS = 500


class _Fields(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "…"


def describe(kind: str, step: str, data: Mapping[str, Any], workflow: str = "") -> str:
    """Return the text of an event, no character of it invisible; an unknown kind is its own name. ``workflow``: for the
    titles of its steps.
    """
    known = {
        **data,
        "step": step_label(step, workflow) if step else "The run",
        "past": past(str(data.get("verdict") or "")),
    }
    words = KINDS[kind].text.format_map(_Fields(known)) if kind in KINDS else kind
    if kind == EventKind.REQUEST_ASSIGNED and not data.get("to"):
        words = f"Unassigned by {data.get('by')}: {data.get('subject')}"
    if kind.startswith("request.") and not data.get("subject"):
        words = words.partition(":")[0]
    if kind == EventKind.REQUEST_OPENED and (signal := name_in(str(data.get("key") or ""))):
        words = f"{known['step']} waiting for signal {signal!r}"
    if kind == EventKind.PROGRESS:
        fraction, text = data.get("fraction"), str(data.get("text") or "Progress")
        words = f"{text}: {fraction:.0%}" if isinstance(fraction, int | float) else text
    if kind == EventKind.LOG and "message" not in data:
        words = f"{known['step']} wrote a log record. Your role cannot view it."
    words = words[:MOST_WORDS] + _added(kind, data, workflow)
    item = data.get("item")
    return visible(words if item is None else f"{words} (item {item})")


def step_label(step: str, workflow: str = "") -> str:
    """Return a step's name as shown to people: its title in that workflow, else its name as a label."""
    return catalog.step_title(workflow, step) or label_of_step(step)


def past(verdict: str) -> str:
    """Return a verdict in the past tense: ``approve`` -> ``approved``, one that is not a verb -> ``answered``."""
    if verdict in {"", "answered"}:
        return "answered"
    return PAST.get(verdict, f"chose {humanize(verdict).lower()}")


def _added(kind: str, data: Mapping[str, Any], workflow: str) -> str:
    """Return what an event adds to its sentence: its duration, why it failed, until when it sleeps."""
    if kind == EventKind.STEP_FINISHED and isinstance(data.get("ms"), int | float) and data["ms"] >= 1:
        return f" in {duration(data['ms'] / 1000)}"
    if kind in {EventKind.STEP_FAILED, EventKind.RUN_FAILED} and isinstance(data.get("error"), Mapping):
        error = data["error"]
        message = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
        return f": {message[:MOST_ERROR]}{'…' if len(message) > MOST_ERROR else ''}" if message else ""
    if kind == EventKind.USAGE and "model" in data:
        got, gave, nanos, _ = used_in(data)
        cost = f", {money(money_text(nanos), settings.WFDASH_CURRENCY)}" if "cost" in data else ""
        return f": {number(got)} tokens in, {number(gave)} out{cost}"
    if kind == EventKind.RUN_CANCELLED:
        return _cut_off(data, workflow)
    if kind == EventKind.RUN_QUEUED and data.get("schedule"):
        return f", by schedule {data.get('schedule_name') or data['schedule']}"
    if kind == EventKind.RUN_MIGRATED and data.get("by"):
        return f" by {data['by']}"
    if kind == EventKind.REQUEST_VOTED and data.get("need"):
        return f" ({data['need']} needed)"
    if kind == EventKind.REQUEST_ESCALATED and data.get("to"):
        return f", now also for {', '.join(map(str, data['to']))}"
    if kind in {EventKind.STEP_SLEEPING, EventKind.RUN_SLEEPING} and data.get("until"):
        return f" until {_parse_time(str(data['until']))}"
    return ""


def cancelled(data: Mapping[str, Any], workflow: str = "") -> str:
    """Return what cancelling a run did to the steps in progress, as a sentence."""
    return f"Cancelled{_cut_off(data, workflow)}. Its open requests are closed."


def _cut_off(data: Mapping[str, Any], workflow: str) -> str:
    steps = [f"“{step_label(str(step), workflow)}”" for step in data.get("fenced") or ()]
    calls = [f"“{name}”" for name in data.get("unsure") or ()]
    parts = []
    if data.get("after"):
        parts.append(f"“{step_label(str(data['after']), workflow)}” finished, no other step started")
    if steps:
        parts.append(f"{in_words(steps, most=5)} interrupted; external effects possible")
    if calls:
        parts.append(f"outcome of {in_words(calls, most=5)} unknown: check externally")
    return f": {'; '.join(parts)}" if parts else ""


def _parse_time(text: str) -> str:
    try:
        return exact(datetime.fromisoformat(text))
    except ValueError:
        return text


def icon_of(kind: str) -> str:
    """Return the name of an event's icon."""
    return KINDS[kind].icon if kind in KINDS else "information-circle"


def tone_of(kind: str) -> str:
    """Return the tone class of an event."""
    return f"is-{KINDS[kind].tone}" if kind in KINDS else "is-queued"


def status_sentence(run: RunRow) -> str:
    """Return a run's status and what it waits for, as one sentence."""
    words = STATUS_TEXTS[run.status.value]
    if run.status == "waiting" and run.waiting_for:
        more = len(run.waiting_for) - 1
        first = run.waiting_for[0]
        what = f"the signal {run.signal!r}" if run.signal else f"an answer to “{first}”"
        words = f"Waiting for {what}" + (f" and {more} more" if more else "")
    if run.status in {"paused", "cancelled"} and run.acted_by:
        words = f"{words} by {run.acted_by}"
    return words
