"""Runs, their events and signals."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from wfdash.records.base import ApiRecord, Body, DescribedRecord, Page, ScannedPage


class BulkOrder(Body):
    """The action (retry, cancel, pause, resume, tag), and the runs: their ids, or with ``all`` what ``q`` finds."""

    verb: str
    runs: list[str] = []
    q: str = ""
    all: bool = False
    add: list[str] = []
    remove: list[str] = []
    dry_run: bool = False


class Unchanged(ApiRecord):
    """Why runs would be unchanged, and how many."""

    why: str
    count: int


class BulkRehearsal(ApiRecord):
    """A preview: how many runs would accept, and how many would be unchanged."""

    verb: str
    acts: int
    stays: list[Unchanged]
    runs: list[str]


class UnchangedRun(ApiRecord):
    """A run that stayed as it was, and why."""

    run: str
    title: str
    why: str


class BulkProgress(ApiRecord):
    """The progress. ``acted`` of ``done`` runs accepted; ``stayed`` names at most 200 that did not."""

    id: str
    verb: str
    runs: int
    done: int
    acted: int
    finished: bool
    stays: list[Unchanged]
    stayed: list[UnchangedRun]


# Parts of a run: the executions of its steps, its log, its values.


class ActivationRecord(DescribedRecord):
    """One execution of a step (of a map: of one item), retries included. ``label``: what its author calls the item."""

    id: str
    step: str
    state: str
    began: datetime
    ended: datetime | None
    attempts: int
    number: int = 1
    """Which execution of its step it is, from 1."""
    item: int | None = None
    label: str = ""


class StepPage(Page[ActivationRecord]):
    """A page of executions in the order in which they started; ``next`` is the cursor of the next page."""

    total: int


class LogLineRecord(ApiRecord):
    """A log record. ``text`` is null for people who may not see what steps log."""

    seq: int
    at: datetime
    step: str
    level: str
    logger: str
    text: str | None


class LogRecordPage(Page[LogLineRecord]):
    """Log records, oldest first; ``next`` is the cursor for what is logged later, also at the end."""


LogLevel: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
"""How serious a line of the log is, the least first."""
RunPart: TypeAlias = Literal["state", "input", "output", "inputs", "transcript", "transcript.md"]
"""A part of a run's values. ``inputs``: of the steps in progress; ``transcript``: the conversation with a model, as
messages or, ``.md``, as a text in Markdown.
"""


class ValueRecord(DescribedRecord):
    """A part of a run's values. ``problem``: why there is none."""

    part: str
    value: Any = None
    checkpoint: str | None = None
    """The checkpoint it is from."""
    problem: str = ""


class SetTags(Body):
    """Tags to add and to remove."""

    add: list[str] = []
    remove: list[str] = []


class TagList(ApiRecord):
    """The tags of a run."""

    tags: list[str]


class WaitingFor(DescribedRecord):
    """An open request of a run. ``key``: its name within the run, by which the code asked."""

    id: str
    key: str
    step: str
    kind: str
    subject: str
    signal: str = ""
    """The signal that it waits for; empty for a request to people."""


class RunSummary(DescribedRecord):
    """A run in a list."""

    id: str
    workflow: str
    title: str
    workflow_title: str
    status: str
    created: datetime
    updated: datetime
    finished: datetime | None
    created_by: str
    seq: int
    n: int
    waiting_for: tuple[str, ...]
    """The subjects of ``requests``."""
    requests: tuple[WaitingFor, ...] = ()
    """Its open requests, oldest first."""
    rests: bool = False
    """Whether it has ended, or cannot continue before a person or its own program acts: what ``wait`` waits for."""
    driver: Literal["workers", "program"] = "workers"
    """Who executes it. ``program``: the one that has begun it with the library; no worker takes it before it is resumed
    here.
    """
    progress: dict[str, Any]
    tags: tuple[str, ...] = ()
    failure: str = ""
    altered: str = ""
    pending: Literal["", "unserved", "version", "limit"] = ""
    """Why no worker takes it although it is due. ``unserved``: none that is running serves its workflow; ``version``:
    those that do have another version of it, and it is migrated or held soon; ``limit``: as many of its runs execute as
    may at once.
    """
    follows: str | None = None
    """The run that it follows up on."""
    thread: str | None = None
    """The first run of its thread; null where no run follows another."""
    input_tokens: int = 0
    output_tokens: int = 0
    """What its models have used so far."""
    cost: str | None = None
    """What that cost, a decimal number in the dashboard's currency; null where it is unknown."""
    unpriced: int = 0
    """The tokens whose cost is unknown, and not in ``cost``."""


class RemovalRecord(ApiRecord):
    """When retention removes a run that has ended.

    ``at``: when it is old enough; null where its workflow's runs are always kept. ``days``: for how long they are kept.
    ``kept_by``: what keeps it however old it is: its tag ``keep``, an open run of its family (a fork, a follow-up);
    once it is old also a worker that has it, statistics or webhooks that have not read its end, a notification that
    is still to be sent.
    """

    at: datetime | None
    days: float | None
    kept_by: tuple[Literal["tag", "family", "claim", "unread", "unsent"], ...] = ()


class RunError(DescribedRecord):
    """Why a run failed. ``message`` and ``traceback`` are empty for people who may not read them."""

    type: str = ""
    """The exception's class, with its module where it is not Python's own."""
    message: str = ""
    step: str | None = None
    traceback: str = ""
    retryable: bool = True
    unreadable: str = ""
    """Why what is stored of it cannot be read."""


class RunDetail(RunSummary):
    """A run. Values are null for people who may not inspect them."""

    version: str
    engine: str
    input: Any = None
    output: Any = None
    error: RunError | None = None
    origin_run: str | None = None
    origin_checkpoint: str | None = None
    takes_follow_up: bool = False
    """Whether you may follow up on it now."""
    worked: float = 0.0
    waited: float = 0.0
    idle: float = 0.0
    """The seconds from its creation to its latest change in which a step ran; in which all waited for people, a time or
    a retry; the rest: in a queue, failed or paused.
    """
    removal: RemovalRecord | None = None
    """When it will be removed, or what keeps it; null while it is open, and where no run is ever removed."""


class RunPage(ScannedPage[RunSummary]):
    """A page of the list; ``next`` is the cursor of the next page, empty at the end.

    ``reached``: no index covers the filter, and only runs newer than this were scanned yet.
    """


class GraphChange(ApiRecord):
    """How a run's graph differs from the loaded one, and what migrating the run would do. Empty: it does not."""

    old: str = ""
    new: str = ""
    held: bool = False
    changes: list[str] = []
    how: str
    words: list[str]
    refusal: str
    before: Any = None
    after: Any = None
    steps_before: list[str]
    steps_after: list[str]
    closes: list[str]


class Callback(Body):
    """Where a program hears what becomes of the run: signed as webhooks are, with its own secret.

    ``secret``: ``whsec_`` and base64. ``events``: such as ``run.completed``; empty: answers and how the run ends.
    ``values``: with answers, output and error, for who may inspect them.
    """

    url: str
    secret: str
    events: list[str] = []
    values: bool = True


class StartRun(Body):
    """Start a run; the same ``key`` starts it once."""

    workflow: str
    message: Any = None
    key: str | None = None
    callback: Callback | None = None


class SendFollowUp(Body):
    """The next message to a completed run, by the workflow's ``follow_up_schema``."""

    message: Any = None


class EventRecord(ApiRecord):
    """One event; ``seq`` has no gaps per run."""

    seq: int
    kind: str
    step: str | None
    data: dict[str, Any]
    at: datetime


class RunEvents(ApiRecord):
    """Some of a run's events, in order.

    ``next``: the cursor (``after``) of those that follow. ``ended``: the run had ended with the last of these, so that
    no more follow unless someone continues it.
    """

    items: list[EventRecord]
    next: int
    ended: bool


class WorkflowEvent(EventRecord):
    """An event of some run of a workflow.

    ``cursor``: the place behind it. Keep it once you are done with the event, and continue there.
    """

    run: str
    cursor: str


class WorkflowEvents(Page[WorkflowEvent]):
    """Some of the events of a workflow's runs, in one order.

    ``next``: the cursor (``after``) of those that follow. ``more``: there may be some already, also where a page is
    empty: one page looks at so many events only, those of other workflows included.
    """

    more: bool


class SendSignal(Body):
    """A message to a run."""

    name: str
    value: Any = None


class SentSignal(ApiRecord):
    """A signal that was sent. ``request``: what it answered; null while it is stored for a later step."""

    id: str
    name: str
    request: str | None


class AwaitedSignal(ApiRecord):
    """A step that waits for a signal."""

    request: str
    name: str
    step: str
    since: datetime
    due: datetime | None
    answer_schema: dict[str, Any]


class KeptSignal(ApiRecord):
    """A signal that no step has received yet."""

    id: str
    name: str
    by: str
    at: datetime
    value: Any = None


class SignalList(ApiRecord):
    """Signal waits and stored signals, oldest first."""

    waits: tuple[AwaitedSignal, ...]
    kept: tuple[KeptSignal, ...]
