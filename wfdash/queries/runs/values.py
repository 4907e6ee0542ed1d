"""A run's values, for people who may inspect them: current ones, and the run as it was after one of its events.

The latter reads what was stored then; nothing is executed, nothing changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache

from django.db.models import Case, F, Q, TextField, When
from django.db.models.functions import Cast, Length

from checkpoints import models
from checkpoints.database.runs import info_of, read_row
from checkpoints.errors import CheckpointsError, Unreadable
from checkpoints.events import EventKind
from checkpoints.models import Checkpoint, Run
from checkpoints.models.fields import decrypted
from checkpoints.records import CheckpointInfo, Event, Json, JsonObject, frozen
from wfdash.access.viewer import Viewer
from wfdash.contract import Message
from wfdash.domain.errors import NotAllowed, NotFound
from wfdash.domain.search_attributes import OUTPUT, PARTS, ColumnField, FieldValue, field_of, fields_of
from wfdash.engines import catalog
from wfdash.queries.history import CheckpointNode, EventRange, event_of, nodes_of, ranges_of, shown_info, workflow_of
from wfdash.queries.runs.listing import RunRow
from wfdash.queries.search import asked_for
from wfdash.queries.step_states import StepTransition, count_states, transitions_within
from wfdash.queries.timemachine import NotShown, shown_json, shown_of
from wfdash.queries.unreadable import masked_for, subject_of, why
from wfdash.questions.tools import write_markdown
from wfdash.records.checkpoints import CheckpointRecord, PastRequestRecord, ReplayFacts

MARKDOWN = "transcript.md"
"""The part of a run's values that is its conversation as a text in Markdown."""
MAX_STATE_BYTES = 16_000_000
"""Bytes of a checkpoint that is read each time its run's page is renewed."""


def read_conversation(run_id: str, n: int) -> tuple[Message, ...]:
    """Return what was said by checkpoint ``n`` of a run, secrets hidden (one query where it was not read before).

    The run must have been found through its viewer before, who may inspect its values.
    """
    return _said_at(run_id, n, catalog.latest.number) if n else ()


@lru_cache(maxsize=64)
def _said_at(run_id: str, n: int, reloads: int) -> tuple[Message, ...]:
    """A checkpoint never changes, and what is secret in it only where workflows are read again: it is read once."""
    row = Checkpoint.objects.filter(run_id=run_id, n=n, size__lte=MAX_STATE_BYTES).select_related("run").first()
    try:
        return shown_of(read_row(row)).transcript if row is not None else ()
    except (CheckpointsError, NotShown):
        return ()


# Columns of the list of runs that show fields of input and output: who may see which, and the values of one page.

MAX_VALUE_LENGTH = 64_000
"""Characters of an input or output that is read for a list."""
TOO_LARGE = "Too large for the list"


def offered_fields(viewer: Viewer, text: str) -> tuple[ColumnField, ...]:
    """Return the fields that are offered as columns: those of the one workflow that a filter names."""
    names = asked_for(text, "workflow")
    found = [entry for entry in catalog.entries() if [entry.name.lower()] == list(names)]
    return tuple(
        field
        for entry in found
        if viewer.may("inspect", entry.name)
        for part in PARTS
        for field in fields_of(part, _schema(entry, part), entry.secrets)
    )


def fields_named(viewer: Viewer, names: Iterable[str]) -> tuple[ColumnField, ...]:
    """Return the fields of these names that some workflow has which this person may inspect."""
    entries = [entry for entry in catalog.entries() if viewer.may("inspect", entry.name)]
    found = (next((field for entry in entries if (field := _field(entry, name))), None) for name in names)
    return tuple(field for field in found if field is not None)


def field_values(viewer: Viewer, rows: Sequence[RunRow], names: Collection[str]) -> dict[str, dict[str, FieldValue]]:
    """Return run id -> name -> value of these fields (one query, none without names).

    Left out are those of workflows that this person may not inspect, that have no such field or are not loaded.
    """
    entries = {row.workflow: catalog.find(row.workflow) for row in rows if viewer.may("inspect", row.workflow)}
    known = {
        name: [field for one in names if (field := _field(entry, one))] for name, entry in entries.items() if entry
    }
    wanted = {row.id: known[row.workflow] for row in rows if known.get(row.workflow)}
    parts = [part for part in PARTS if any(field.part == part for fields in wanted.values() for field in fields)]
    return {id_: dict(_values(id_, documents, wanted[id_])) for id_, documents in _documents(list(wanted), parts)}


def _documents(ids: Sequence[str], parts: Sequence[str]) -> Iterator[tuple[str, JsonObject]]:
    """Yield runs with their documents of these parts, those too long left out (one query)."""
    if not ids or not parts:
        return
    sizes = {f"{part}_size": Length(Cast(part, TextField())) for part in parts}
    bounded = {f"{part}_read": Case(When(**{f"{part}_size__lte": MAX_VALUE_LENGTH}, then=F(part))) for part in parts}
    rows = Run.objects.filter(pk__in=ids).annotate(**sizes).annotate(**bounded)
    for row in rows.values("id", *sizes, *bounded):
        yield row["id"], row


def _values(run_id: str, row: JsonObject, fields: Iterable[ColumnField]) -> Iterator[tuple[str, FieldValue]]:
    read: dict[str, FieldValue | Json] = {}
    for field in fields:
        if field.part not in read:
            read[field.part] = _read(run_id, row, field)
        document = read[field.part]
        if isinstance(document, FieldValue):
            yield field.name, FieldValue(field=field, problem=document.problem)
        else:
            value = document.get(field.key) if isinstance(document, dict) else None
            # The schema says that it is a single value. Another version's may not, and hide what is in it.
            yield field.name, FieldValue(field=field, value=None if isinstance(value, dict | list) else value)


def _read(run_id: str, row: JsonObject, field: ColumnField) -> FieldValue | Json:
    """Return a document, or why there is none."""
    if (row[f"{field.part}_size"] or 0) > MAX_VALUE_LENGTH:
        return FieldValue(field=field, problem=TOO_LARGE)
    try:
        document: Json = decrypted(Run, field.part, row[f"{field.part}_read"], run_id)
    except Unreadable as error:
        return FieldValue(field=field, problem=why(error))
    return document


def _field(entry: catalog.Entry, name: str) -> ColumnField | None:
    return field_of(name, _schema(entry, name.partition(".")[0]), entry.secrets)


def _schema(entry: catalog.Entry, part: str) -> JsonObject:
    return entry.description.output_schema if part == OUTPUT else entry.description.input_schema


@frozen
class RunValues:
    """One part of a run's values. ``info``: the checkpoint it is from; ``problem`` says why there are none."""

    part: str
    value: Json = None
    info: CheckpointInfo | None = None
    problem: str = ""


def read_run_values(viewer: Viewer, run_id: str, part: str = "state") -> RunValues:
    """Return a part of a run's current values (two queries, more for big content). ``NotFound``, ``NotAllowed``."""
    run = models.Run.objects.filter(viewer.scope("see"), pk=run_id).first()
    if run is None:
        raise NotFound("Run not found, or you do not have access")
    if not viewer.may("inspect", run.workflow):
        raise NotAllowed("Your role cannot view values. Ask an operator")
    if part == "input":
        return RunValues(part=part, value=masked_for(run.workflow, run.input))
    if part == "output":
        return RunValues(
            part=part,
            value=masked_for(run.workflow, run.output),
            problem="" if run.finished else "No output yet.",
        )
    row = models.Checkpoint.objects.filter(run_id=run_id, n=run.n).first()
    if row is None:
        return RunValues(part=part, problem="No checkpoints yet.")
    row.run = run
    try:
        shown = shown_of(read_row(row))
        value = "".join(write_markdown(shown.transcript)) if part == MARKDOWN else shown_json(shown)[part]
    except CheckpointsError as error:
        return RunValues(part=part, info=info_of(row), problem=f"This checkpoint cannot be read: {error}")
    except NotShown as error:
        return RunValues(part=part, info=info_of(row), problem=str(error))
    return RunValues(part=part, value=value, info=info_of(row))


MAX_SHOWN_ROWS = 50
STEPS = Q(kind__startswith="step.") | Q(kind__startswith="run.") | Q(kind__startswith="request.")
"""Events at which something starts, ends or changes hands; not a step's reports in between."""


class ReplayView(ReplayFacts):
    """A run as it was after an event. ``moves``: how its steps came to be where they were, oldest first."""

    event: Event
    moves: tuple[StepTransition, ...]
    events: tuple[Event, ...]
    """The last ones up to then, oldest first."""

    @property
    def words(self) -> str:
        """Return its number."""
        return str(self.seq)


def read_replay(viewer: Viewer, run_id: str, seq: int) -> ReplayView:
    """Return the run after an event (ten queries). ``NotFound`` for an event that does not exist."""
    inspect = viewer.may("inspect", workflow_of(viewer, run_id))
    rows = models.Event.objects.filter(run_id=run_id)
    last = rows.order_by("-seq").values_list("seq", flat=True).first() or 0
    if not 1 <= seq <= last:
        raise NotFound(f"Event {seq} not found: the run has {last}")
    found = list(reversed(rows.filter(seq__lte=seq).order_by("-seq")[:MAX_SHOWN_ROWS]))
    nodes = nodes_of(run_id)
    then = [node for node in nodes if node.seq <= seq]
    moved = transitions_within(ranges_at(run_id, then, seq))
    return ReplayView.trusted(
        event=event_of(found[-1], inspect=inspect),
        seq=seq,
        last=last,
        moves=tuple(moved),
        board=count_states(moved),
        requests=_past_requests(run_id, found[-1].at),
        events=tuple(event_of(row, inspect=inspect) for row in found),
        status=rows.filter(seq__lte=seq, kind__startswith="run.")
        .order_by("-seq")
        .values_list("kind", flat=True)
        .first()
        or EventKind.RUN_QUEUED,
        checkpoint=_checkpoint(then, inspect=inspect),
        left=rows.filter(seq__gt=seq, kind=EventKind.RUN_RESTORED).exists() and not _on_line(nodes, then),
        earlier=rows.filter(STEPS, seq__lt=seq).order_by("-seq").values_list("seq", flat=True).first() or 0,
        later=rows.filter(STEPS, seq__gt=seq).order_by("seq").values_list("seq", flat=True).first() or 0,
    )


def ranges_at(run_id: str, then: list[CheckpointNode], seq: int) -> list[EventRange]:
    """Return the event ranges that led to event ``seq``, given the checkpoints at that time."""
    low = then[-1].seq if then else 0
    before = ranges_of(run_id, then, then[-1].id) if then else []
    return [EventRange(run=run_id, low=low, high=seq), *before] if seq > low else before


def _checkpoint(then: list[CheckpointNode], *, inspect: bool) -> CheckpointRecord | None:
    row = models.Checkpoint.objects.defer("body").filter(pk=then[-1].id).first() if then else None
    return CheckpointRecord.of(shown_info(row, inspect=inspect)) if row else None


def _on_line(nodes: list[CheckpointNode], then: list[CheckpointNode]) -> bool:
    """Return whether the newest checkpoint of that time is on the current branch."""
    known = {node.id: node.parent for node in nodes}
    here: str | None = nodes[-1].id if nodes else None
    while here is not None and then:
        if here == then[-1].id:
            return True
        here = known.get(here)
    return not then


def _past_requests(run_id: str, at: datetime) -> tuple[PastRequestRecord, ...]:
    open_then = Q(closed__isnull=True) | Q(closed__gt=at)
    unanswered = Q(answered__isnull=True) | Q(answered__gt=at)
    rows = models.HumanRequest.objects.filter(open_then, unanswered, run_id=run_id, created__lte=at)
    return tuple(
        PastRequestRecord.trusted(
            id=row.pk,
            step=row.step,
            subject=subject_of(row),
            created=row.created,
            became="answered" if row.answered else row.closed_as,
        )
        for row in rows.order_by("created", "id")[:MAX_SHOWN_ROWS]
    )
