"""The table of event kinds: the name of each, its fields, who may read them, and how it is shown. Pure.

A new kind is written in two places: a row of ``EventKind`` and where it is emitted. Everything else derives from the
row: the sentence and icon on the pages, what is encrypted, who sees which field, the live lists and the statistics. A
stored row may be of a kind that is no longer emitted; then its fields are read by the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Flag, StrEnum, auto

from checkpoints.errors import InvalidValue
from checkpoints.records import EventDraft, Json, JsonObject

CLEAR = frozenset(
    {
        *("activation", "item", "attempt", "attempts", "at", "until", "ms", "by", "verdict", "key", "name"),
        *("request", "checkpoint", "n", "run", "worker", "epoch", "fraction"),
        *("model", "input_tokens", "output_tokens", "cost"),
    }
)
"""Metadata: visible to everyone who sees the run, and readable in the database, where pages look it up."""
QUERIED = frozenset({"names", "ended", "skipped"})
"""Readable in the database, where pages look it up; shown to people who may inspect values."""
SHOWN = frozenset(
    {
        *("subject", "how", "from", "to", "words", "version", "level", "logger", "fenced", "unsure", "after"),
        *("function", "where", "seconds", "title", "cut", "call", "provider"),
    }
)
"""Visible to everyone who sees the run; encrypted at rest."""
CONTENT = frozenset(
    {
        *("error", "text", "message", "parts", "answered", "patch", "patch_size", "patch_hash", "reason", "label"),
        *("add", "remove", "forced", "schedule", "schedule_name", "due", "need", "comment", "void", "people"),
        *("problem", "line_comments"),
    }
)
"""Shown to people who may inspect values; encrypted at rest."""
VALUES = frozenset({"input", "output", "value", "data"})
"""Content that is a value of the workflow: the workflow's secrets are masked in it for everyone."""
TRACES = frozenset({"stack"})
"""Shown to operators; encrypted at rest."""

FIELDS = CLEAR | QUERIED | SHOWN | CONTENT | VALUES | TRACES
"""Every field an event may have. A field has the same meaning and privacy in every kind."""
UNENCRYPTED = CLEAR | QUERIED
"""The fields that stay readable in the database when events are encrypted."""
VISIBLE = CLEAR | SHOWN
"""The fields for people who may see the run but not inspect its values."""

ACT = "activation item "
"""The fields of a step's events."""
ASKED = "request key subject "
"""The fields of a request's events."""


class Trait(Flag):
    """Further properties of a kind."""

    PERSON = auto()
    """It is listed among what people did in a run; ``by`` names the person."""
    COURSE = auto()
    """It is listed at the top of the run's page: it changed the run's course, or may."""
    MEASURED = auto()
    """It is counted in statistics."""
    REMARK = auto()
    """Only a report of a step: a restore does the same with it and without it."""
    UNSTORED = auto()
    """It is shown live, and not stored."""


PERSON, COURSE, MEASURED, REMARK, UNSTORED = Trait
NONE = Trait(0)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: see ``EventKind``."""

    name: str
    text: str
    icon: str
    tone: str
    fields: str = ""
    traits: Trait = NONE

    def __post_init__(self) -> None:
        if unknown := set(self.fields.split()) - FIELDS:
            raise InvalidValue(f"event kind {self.name}: say in FIELDS how private its {sorted(unknown)} are")


class EventKind(StrEnum):
    """The kinds of events. As text, a kind is the stored name of its events.

    ``text``: a sentence, with ``{field}``, ``{step}``, or ``{past}`` (the verdict as a verb). ``icon``: its name in
    Heroicons. ``tone``: the run status whose colour it has. ``fields``: the possible fields of ``data``.
    """

    text: str
    icon: str
    tone: str
    fields: frozenset[str]
    traits: Trait

    def __new__(cls, row: Row) -> EventKind:
        """Return the member of a row."""
        kind = str.__new__(cls, row.name)
        kind._value_ = row.name
        kind.text, kind.icon, kind.tone, kind.traits = row.text, row.icon, row.tone, row.traits
        kind.fields = frozenset(row.fields.split())
        return kind

    # fmt: off
    RUN_QUEUED = Row("run.queued", "Started by {by}",
        "information-circle", "queued", "by run schedule schedule_name due", PERSON)
    RUN_STARTED = Row("run.started", "Picked up by a worker",
        "information-circle", "queued", "", MEASURED)
    RUN_RECOVERED = Row("run.recovered", "Resumed on {worker} after an interruption",
        "lifebuoy", "interrupted", "worker epoch", MEASURED)
    RUN_WAITING = Row("run.waiting", "Waiting",
        "user-circle", "waiting", "until")
    RUN_SLEEPING = Row("run.sleeping", "Run sleeping",
        "moon", "sleeping", "until")
    RUN_COMPLETED = Row("run.completed", "Run completed",
        "check-circle", "completed", "output", MEASURED)
    RUN_FAILED = Row("run.failed", "Run failed",
        "x-circle", "failed", "error", COURSE | MEASURED)
    RUN_CANCELLED = Row("run.cancelled", "Cancelled by {by}",
        "no-symbol", "cancelled", "by after fenced unsure", PERSON | COURSE | MEASURED)
    RUN_ENDING = Row("run.ending", "{by} requested cancellation after the current step",
        "no-symbol", "paused", "by", PERSON | COURSE)
    RUN_PAUSING = Row("run.pausing", "{by} requested a pause after the running steps",
        "pause-circle", "paused", "by", PERSON | COURSE)
    RUN_PAUSED = Row("run.paused", "Paused by {by}",
        "pause-circle", "paused", "by after fenced", PERSON | COURSE)
    RUN_RESUMED = Row("run.resumed", "Resumed by {by}",
        "information-circle", "queued", "by forced", PERSON | COURSE)
    RUN_RETRIED = Row("run.retried", "Retried by {by}",
        "information-circle", "queued", "by", PERSON)
    RUN_TITLED = Row("run.titled", "Titled: {title}",
        "information-circle", "queued", ACT + "title", REMARK)
    RUN_TAGGED = Row("run.tagged", "Tags changed by {by}",
        "tag", "queued", "by add remove")
    RUN_RESTORED = Row("run.restored", "Restored from an earlier checkpoint by {by}: this is now checkpoint {n}",
        "arrow-uturn-left", "interrupted", "by checkpoint n", PERSON | COURSE)
    RUN_FORKED = Row("run.forked", "Forked from checkpoint {n} by {by}",
        "share", "interrupted", "by run checkpoint n", PERSON | COURSE | MEASURED)
    RUN_FOLLOWED_UP = Row("run.followed_up", "Followed up by {by} with another run",
        "chat-bubble-left-right", "queued", "by run", PERSON)
    RUN_EDITED = Row("run.edited", "Edited by {by}: this is checkpoint {n}",
        "pencil-square", "interrupted",
        "by checkpoint n words answered reason patch patch_size patch_hash", PERSON | COURSE)
    RUN_LABELLED = Row("run.labelled", "Checkpoint {n} labelled by {by}",
        "tag", "queued", "by checkpoint n label", PERSON)
    RUN_HELD = Row("run.held", "On hold: the workflow changed since the run started",
        "arrows-right-left", "paused", "from to words")
    RUN_RELEASED = Row("run.released", "Resumed: compatible code available",
        "play", "running", "version")
    RUN_MIGRATED = Row("run.migrated", "Migrated to the current version",
        "arrows-right-left", "interrupted", "by how from to words names ended", PERSON | COURSE)
    RUN_OVERRIDDEN = Row("run.overridden", "Continued on the current version by {by}",
        "forward", "interrupted", "by how from to words names ended", PERSON | COURSE)
    STEP_STARTED = Row("step.started", "{step} started",
        "play-circle", "running", ACT + "label input")
    STEP_FINISHED = Row("step.finished", "{step} finished",
        "check-circle", "completed", ACT + "ms output skipped", MEASURED)
    STEP_FAILED = Row("step.failed", "{step} failed",
        "x-circle", "failed", ACT + "error attempt", MEASURED)
    STEP_RETRYING = Row("step.retrying", "Retry {attempt} of {attempts} of {step} scheduled",
        "arrow-path", "retrying", ACT + "at attempt attempts", MEASURED)
    STEP_BLOCKING = Row("step.blocking",
        "{step} is blocking its worker: other runs there cannot continue ({function}, {where})",
        "exclamation-triangle", "failed", ACT + "function where seconds stack worker", COURSE)
    STEP_BLOCKED = Row("step.blocked",
        "{step} blocked the worker for {seconds} s ({function}, {where}): make it a plain def, or use "
        "ctx.call or asyncio.to_thread",
        "exclamation-triangle", "retrying", ACT + "function where seconds worker", COURSE)
    STEP_WAITING = Row("step.waiting", "{step} waiting",
        "user-circle", "waiting", ACT)
    STEP_SLEEPING = Row("step.sleeping", "{step} sleeping",
        "moon", "sleeping", ACT + "until")
    REQUEST_OPENED = Row("request.opened", "Request opened by {step}: {subject}",
        "question-mark-circle", "waiting", ACT + ASKED)
    REQUEST_ANSWERED = Row("request.answered", "{by} {past}: {subject}",
        "user-circle", "completed", ASKED + "by verdict line_comments", PERSON | MEASURED)
    REQUEST_WITHDRAWN = Row("request.withdrawn", "Request closed",
        "minus-circle", "cancelled", ACT + ASKED + "by")
    REQUEST_REPLACED = Row("request.replaced", "{step} replaced its request with a different question",
        "arrow-path", "interrupted", ACT + "key parts answered")
    REQUEST_DRIFTED = Row("request.drifted", "Background of the request of {step} changed",
        "information-circle", "queued", ACT + "key parts")
    REQUEST_VOTED = Row("request.voted", "{by} {past}: {subject}",
        "user-circle", "running", ASKED + "by verdict need line_comments", PERSON)
    REQUEST_UNANSWERABLE = Row("request.unanswerable", "{subject}: {words}",
        "exclamation-triangle", "failed", ASKED + "problem words")
    REQUEST_ANSWERING = Row("request.answering", "{by} {past} (can be undone): {subject}",
        "clock", "running", ASKED + "by verdict until")
    REQUEST_UNDONE = Row("request.undone", "Undone by {by}: {subject}",
        "arrow-uturn-left", "interrupted", ASKED + "by verdict", PERSON)
    REQUEST_ASSIGNED = Row("request.assigned", "Assigned to {to} by {by}: {subject}",
        "user-plus", "waiting", ASKED + "by to", PERSON)
    REQUEST_COMMENTED = Row("request.commented", "{by} commented: {subject}",
        "chat-bubble-left", "queued", ASKED + "by comment", PERSON)
    REQUEST_ASKED = Row("request.asked", "{by} asked for information: {subject}",
        "question-mark-circle", "waiting", ASKED + "by comment", PERSON)
    REQUEST_REPLIED = Row("request.replied", "{by} replied: {subject}",
        "chat-bubble-left-right", "queued", ASKED + "by comment", PERSON)
    REQUEST_AMENDED = Row("request.amended", "{by} added information: {subject}",
        "pencil-square", "interrupted", ASKED + "by void", PERSON)
    REQUEST_EXTENDED = Row("request.extended", "{by} changed the due date: {subject}",
        "clock", "waiting", ASKED + "by due", PERSON)
    REQUEST_REMINDED = Row("request.reminded", "Reminder sent: {subject}",
        "bell-alert", "waiting", ASKED + "people")
    REQUEST_ESCALATED = Row("request.escalated", "Escalated: {subject}",
        "arrow-trending-up", "retrying", ASKED + "to")
    SIGNAL_SENT = Row("signal.sent", "Signal {name} sent by {by}",
        "paper-airplane", "queued", "by name value", PERSON)
    SIGNAL_RECEIVED = Row("signal.received", "Signal {name} of {by} received by {step}",
        "inbox-arrow-down", "completed", "by name key")
    SIGNAL_REFUSED = Row("signal.refused",
        "Signal {name} of {by} refused: it does not match what {step} expects",
        "exclamation-triangle", "failed", "by name problem")
    LOG = Row("log", "{message}",
        "document-text", "queued", ACT + "level logger message", REMARK)
    CALL_INTENDED = Row("call.intended", "Calling {name}",
        "bolt", "running", ACT + "name key")
    CALL_DONE = Row("call.done", "Called {name}",
        "bolt", "completed", ACT + "name key ms call")
    CALL_UNKNOWN = Row("call.unknown", "Outcome of {name} unknown",
        "exclamation-triangle", "failed", ACT + "name key")
    USAGE = Row("usage", "{step} used {model}",
        "cpu-chip", "queued", ACT + "model provider input_tokens output_tokens cost ms", REMARK | MEASURED)
    PROGRESS = Row("progress", "{text}",
        "chart-bar", "running", ACT + "fraction text", REMARK)
    CUSTOM = Row("custom", "{step}: {name}",
        "tag", "queued", ACT + "name data", REMARK)
    STREAM = Row("stream", "{text}",
        "bars-3-bottom-left", "running", "text cut", REMARK | UNSTORED)
    # fmt: on

    @property
    def noun(self) -> str:
        """Return what it happens to: ``run``, ``step``, ``request``, ``call`` or ``signal``; else its own name."""
        return self._value_.partition(".")[0]

    def check(self, data: Mapping[str, Json]) -> None:
        """Raise ``InvalidValue`` for a field that events of this kind do not have."""
        if not self.fields.issuperset(data):
            unknown = ", ".join(sorted(data.keys() - self.fields))
            raise InvalidValue(f"events of kind {self} have no field {unknown}: see checkpoints.events", field="data")

    def draft(self, step: str | None = None, /, **data: Json) -> EventDraft:
        """Return an event of this kind, for a commit. ``InvalidValue`` for a field that the kind does not have."""
        return self.draft_of(step, data)

    def draft_of(self, step: str | None, data: JsonObject, at: datetime | None = None) -> EventDraft:
        """Return an event of this kind with these fields. ``InvalidValue`` for one that the kind does not have."""
        if not self.fields.issuperset(data):
            self.check(data)
        if at is None and (step is None or type(step) is str):
            return EventDraft.trusted(kind=self._value_, step=step, data=data)
        return EventDraft(kind=self._value_, step=step, data=data, at=at)


KINDS: Mapping[str, EventKind] = {kind.value: kind for kind in EventKind}
"""Kind by name."""
STORED: Mapping[str, EventKind] = {name: kind for name, kind in KINDS.items() if UNSTORED not in kind.traits}
"""Those of events that are stored."""


def topics_of(kind: str) -> tuple[str, ...]:
    """Return the live lists that change with an event of this kind."""
    known = KINDS.get(kind)
    return ("runs", "inbox") if known and (known.noun == "request" or known is EventKind.RUN_TITLED) else ("runs",)


def kinds_with(trait: Trait) -> frozenset[str]:
    """Return the names of the kinds that have a trait."""
    return frozenset(name for name, kind in KINDS.items() if trait in kind.traits)


def check_event(event: EventDraft) -> EventKind:
    """Return the kind of an event to be stored. ``InvalidValue`` for one that is not in the table."""
    kind = STORED.get(event.kind)
    if kind is None:
        text = (
            f"there is no event kind {event.kind!r}: see checkpoints.events; your own are named events of kind custom"
        )
        raise InvalidValue(text, field="event kind")
    if not kind.fields.issuperset(event.data):
        kind.check(event.data)
    return kind
