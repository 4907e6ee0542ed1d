"""A run's current values: input, state, conversation, output. For people who may inspect them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db.models import Case, F, TextField, When
from django.db.models.functions import Cast, Length

from checkpoints import models
from checkpoints.content.encryption import Locked
from checkpoints.database.runs import info_of, read_row
from checkpoints.errors import CheckpointsError, Damaged
from checkpoints.models import Checkpoint, Run
from checkpoints.models.fields import decrypted
from checkpoints.records import CheckpointInfo, Json
from wfdash.access.viewer import Viewer
from wfdash.contract import Message
from wfdash.domain.errors import NotAllowed, NotFound
from wfdash.domain.search_attributes import OUTPUT, PARTS, RunField, field_of, fields_of
from wfdash.engines import catalog
from wfdash.queries.runs.listing import RunRow
from wfdash.queries.search.qualifiers import asked_for
from wfdash.queries.secrets import masked_for
from wfdash.queries.timemachine import NotShown, shown_json, shown_of
from wfdash.queries.unreadable import why

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


@dataclass(frozen=True, kw_only=True)
class FieldValue:
    """A field of one run. ``problem``: why its value cannot be shown."""

    field: RunField
    value: Json = None
    problem: str = ""


def offered_fields(viewer: Viewer, text: str) -> tuple[RunField, ...]:
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


def fields_named(viewer: Viewer, names: Iterable[str]) -> tuple[RunField, ...]:
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


def _documents(ids: Sequence[str], parts: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield runs with their documents of these parts, those too long left out (one query)."""
    if not ids or not parts:
        return
    sizes = {f"{part}_size": Length(Cast(part, TextField())) for part in parts}
    bounded = {f"{part}_read": Case(When(**{f"{part}_size__lte": MAX_VALUE_LENGTH}, then=F(part))) for part in parts}
    rows = Run.objects.filter(pk__in=ids).annotate(**sizes).annotate(**bounded)
    for row in rows.values("id", *sizes, *bounded):
        yield row["id"], row


def _values(run_id: str, row: dict[str, Any], fields: Iterable[RunField]) -> Iterator[tuple[str, FieldValue]]:
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


def _read(run_id: str, row: dict[str, Any], field: RunField) -> FieldValue | Json:
    """Return a document, or why there is none."""
    if (row[f"{field.part}_size"] or 0) > MAX_VALUE_LENGTH:
        return FieldValue(field=field, problem=TOO_LARGE)
    try:
        document: Json = decrypted(Run, field.part, row[f"{field.part}_read"], run_id)
    except (Damaged, Locked) as error:
        return FieldValue(field=field, problem=why(error))
    return document


def _field(entry: catalog.Entry, name: str) -> RunField | None:
    return field_of(name, _schema(entry, name.partition(".")[0]), entry.secrets)


def _schema(entry: catalog.Entry, part: str) -> dict[str, Json]:
    return entry.description.output_schema if part == OUTPUT else entry.description.input_schema


@dataclass(frozen=True, kw_only=True)
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
        value = shown_json(shown_of(read_row(row)))[part]
    except CheckpointsError as error:
        return RunValues(part=part, info=info_of(row), problem=f"This checkpoint cannot be read: {error}")
    except NotShown as error:
        return RunValues(part=part, info=info_of(row), problem=str(error))
    return RunValues(part=part, value=value, info=info_of(row))
