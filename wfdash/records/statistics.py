"""Statistics of a time range, and what needs attention now."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from wfdash.records.base import ApiRecord, Body, DescribedRecord
from wfdash.records.runs import RunSummary


class DurationSummary(ApiRecord):
    """A summary of durations, in seconds. ``p50``: half of them took no longer; null: none was measured."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None
    mean: float | None = None


class TimeSlot(ApiRecord):
    """An hour or a day in UTC: from when (inclusive) until when (exclusive)."""

    since: datetime
    until: datetime


class TimingRecord(DescribedRecord):
    """How long the completed runs of a workflow took, or the executions of a step."""

    workflow: str
    step: str
    """Empty for runs."""
    count: int
    spread: DurationSummary
    failed: int
    retried: int


class GateRecord(DescribedRecord):
    """The decisions of one gate: the step that asks."""

    workflow: str
    step: str
    counts: dict[str, tuple[int, ...]]
    """Outcome (``reversed``: a restore went back before it) -> decisions by slot."""
    spread: DurationSummary
    """How long people took."""
    times: tuple[DurationSummary, ...]
    """The same by slot."""

    def total(self, name: str) -> int:
        """Return how many decisions had this outcome."""
        return sum(self.counts[name])

    @property
    def decided(self) -> int:
        """Return how many decisions there were."""
        return sum(self.total(name) for name in self.counts if name != "reversed")


class DecisionStatistics(DescribedRecord):
    """How requests were decided: by gate, by who was asked (user and group names), and by slot."""

    gates: tuple[GateRecord, ...]
    asked: dict[str, DurationSummary]
    times: tuple[DurationSummary, ...]
    more: bool
    """There were more decisions than the latest that were counted."""


class ErrorGroupRecord(ApiRecord):
    """Failed runs of a workflow with the same class of error, empty where unknown. ``example``: the latest of them.

    ``first_at``, ``first_version``: when and in which version it was first seen, null and empty where that is not
    known. ``new``: within the last 24 hours; ``regressed``: it came back then, after a week without it.
    """

    workflow: str
    error: str
    count: int
    since: datetime
    last: datetime
    example: RunSummary | None
    first_at: datetime | None = None
    first_version: str = ""
    new: bool = False
    regressed: bool = False
    assignee: str = ""


class MutedErrorRecord(ApiRecord):
    """An error that is muted: until it happens at or after ``until``, or in another version than ``version``."""

    workflow: str
    error: str
    last: datetime
    until: datetime | None
    version: str


class TriageError(Body):
    """What to do about an error of a workflow. Null: nothing is changed.

    ``assignee``: a person who may operate the workflow, empty for no one. ``mute``: until it happens again after a day
    or a week, or in another version; empty: no longer.
    """

    workflow: str
    error: str
    assignee: str | None = None
    mute: Literal["", "day", "week", "version"] | None = None


class WaitingRequestRecord(ApiRecord):
    """A request that waits for people. ``stuck``: why no one can decide it, as a code; empty where someone can."""

    id: str
    subject: str
    workflow: str
    step: str
    created: datetime
    due: datetime | None
    by: tuple[str, ...]
    stuck: str


class LateScheduleRecord(ApiRecord):
    """A schedule that should have started a run by now."""

    name: str
    workflow: str
    next_at: datetime


class UsageRecord(DescribedRecord):
    """What models used: one model, those of one workflow, or all of them.

    ``uses``: turns, or how often code reported them. ``cost``: a decimal number, null where it is unknown;
    ``unpriced``: the tokens whose cost is unknown, and not in it.
    """

    name: str
    uses: int
    input_tokens: int
    output_tokens: int
    cost: str | None
    unpriced: int


class UsageStatistics(DescribedRecord):
    """What models used: in all, by model and by workflow, the most expensive first, and by slot."""

    currency: str
    total: UsageRecord
    models: tuple[UsageRecord, ...]
    workflows: tuple[UsageRecord, ...]
    times: tuple[UsageRecord, ...]


class StatisticsRecord(DescribedRecord):
    """Statistics of the last days, and current counts. Lists by slot are in the order of ``slots``, oldest first."""

    workflow: str
    """The workflow that was asked for, empty for all."""
    workflows: tuple[str, ...]
    """Those that one may ask for."""
    slots: tuple[TimeSlot, ...]
    hourly: bool
    """Slots are hours, not days."""
    states: dict[str, int]
    """Status -> runs that have it now."""
    flow: dict[str, tuple[int, ...]]
    """``started``, ``completed``, ``failed`` and ``cancelled`` runs by slot."""
    courses: dict[str, tuple[DurationSummary, ...]]
    """Durations of each ``run``, ``step`` and ``decision`` by slot."""
    runs: tuple[TimingRecord, ...]
    """The workflows whose runs took longest."""
    steps: tuple[TimingRecord, ...]
    """The slowest steps by the 95th percentile."""
    decisions: DecisionStatistics
    usage: UsageStatistics
    queue: DurationSummary
    """How long runs waited for a worker."""
    failures: tuple[ErrorGroupRecord, ...]
    oldest: tuple[WaitingRequestRecord, ...]
    """The open requests that have waited longest."""
    waiting: int
    """How many requests are open."""
    late: tuple[LateScheduleRecord, ...]


class SilentRun(ApiRecord):
    """A run whose step has been silent far longer than steps of its workflow usually take.

    ``usual``: their 95th percentile in seconds, null where none was measured.
    """

    run: RunSummary
    quiet_since: datetime
    usual: float | None


class WorkerRecord(ApiRecord):
    """A worker with runs: how many, and the latest commit of the one that has been silent for the longest time."""

    name: str
    runs: int
    quiet_since: datetime


class BacklogRecord(ApiRecord):
    """Runs that no worker has taken, the oldest since when, and the delay of those that were taken today."""

    count: int
    since: datetime | None
    delay: DurationSummary


class OperationsRecord(DescribedRecord):
    """What needs attention in the workflows that one operates: of each kind a few, and how many there are."""

    failed: int
    """Runs that failed in the time range and are failed still, counted up to 5,000."""
    groups: tuple[ErrorGroupRecord, ...]
    muted: tuple[MutedErrorRecord, ...] = ()
    held: tuple[RunSummary, ...]
    """Runs that do not fit the workflow's present graph."""
    held_count: int
    stuck: tuple[SilentRun, ...]
    overdue: tuple[WaitingRequestRecord, ...]
    overdue_count: int
    unanswerable: tuple[WaitingRequestRecord, ...]
    unanswerable_count: int
    workers: tuple[WorkerRecord, ...]
    backlog: BacklogRecord
    late: tuple[LateScheduleRecord, ...]


class OversightRule(ApiRecord):
    """What a rule did in a month: its answers, the samples asked of people, and how many they decided alike."""

    name: str
    step: str
    state: str
    answers: int
    samples: int
    agreed: int


class OversightReport(ApiRecord):
    """How people oversaw a workflow in a month (UTC).

    ``reviewers`` may answer, and ``operators`` may stop, when the report was made; ``chain``: the audit's newest entry
    then, number and hash. ``decisions`` by outcome. ``unseen``: ended runs of the month that asked no person.
    ``unanswerable`` and ``overdue``: open requests now. ``looks``: second looks asked, given, and the same.
    ``kept_days``: how long runs are kept, null forever.
    """

    format: str
    workflow: str
    month: str
    made: datetime
    chain: str
    reviewers: tuple[str, ...]
    operators: tuple[str, ...]
    decisions: dict[str, int]
    reversed: int
    overridden: int
    runs: int
    unseen: int
    unanswerable: int
    overdue: int
    rules: tuple[OversightRule, ...]
    looks: dict[str, int]
    kept_days: int | None
