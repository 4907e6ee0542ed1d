"""Conversion between ORM rows and records, for actions and queries."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.utils import timezone

from checkpoints.content.chunks import decode, hashes_in, hashes_in_chunk, unbind_from_row, verify_chunks, verify_digest
from checkpoints.content.encoder import encode
from checkpoints.ids import RunId, new_checkpoint_id
from checkpoints.models import Checkpoint as Row
from checkpoints.models import Chunk, Run
from checkpoints.models.fields import current_encryptor
from checkpoints.records import Checkpoint, CheckpointFilter, CheckpointInfo, Reason, Request
from checkpoints.rules import UNREADABLE, facts_in, refuse_unreadable, row_of
from checkpoints.sql.tables import CHECKPOINT, CHECKPOINT_VALUES, INFO, checkpoint_row, copied

AT_ONCE = 500
ATTRIBUTES = {field.column: field.attname for field in Row._meta.concrete_fields}
"""Column names that differ in the ORM."""

CONDITIONS = {
    "step": "step",
    "reason": "reason",
    "clean": "intact",
    "label": "label",
    "since": "created__gte",
    "until": "created__lt",
}
"""The ORM's condition for each field of a ``CheckpointFilter``."""


def read_row(row: Row) -> Checkpoint:
    """Return a checkpoint with its content: one query for the family, one per level of big content.

    ``Damaged`` when a chunk is missing or altered, or it was found damaged before; ``Incompatible`` for a format
    this code cannot read.
    """
    info = info_of(row)
    refuse_unreadable(info)
    content = decode(unbind_from_row(row.body, row_of(info)), _read_chunks(row))
    requests = tuple(Request.model_validate(request) for request in content["requests"])
    return Checkpoint(**dict(info), body=content["body"], requests=requests)


def insert_row(record: Checkpoint, run: Run, *, seq: int) -> Row:
    """Store a checkpoint as a new row of a run that the caller has locked, with the chunks it needs."""
    requests = [request.model_dump(mode="json") for request in record.requests]
    encoded = encode({"body": record.body, "requests": requests})
    encryptor, family = current_encryptor(), run.family
    chunks = [
        Chunk(family=family, hash=encryptor.name(family, key), data=encryptor.encrypt_chunk(data, family, key))
        for key, data in encoded.chunks.items()
    ]
    Chunk.objects.using(run._state.db).bulk_create(chunks, ignore_conflicts=True)
    clean = record.model_copy(update={"clean": True, "flaw": ""})
    return _create(run, checkpoint_row(clean, encoded.payload, size=encoded.size, seq=seq, waiting=len(requests)))


def copy_row(row: Row, run: Run, *, n: int, reason: Reason, seq: int, **changes: Any) -> Row:
    """Store the content of a checkpoint as a new one of a run that the caller has locked. ``Damaged``.

    ``changes``: of its metadata, ``version`` and ``facts``.
    """
    origin = info_of(row)
    made = {"id": new_checkpoint_id(), "run": RunId(run.id), "n": n, "reason": reason, "seq": seq}
    info = copied(origin, **made, created=timezone.now(), **changes)
    return _create(run, checkpoint_row(info, verify_digest(row.body, row_of(origin))))


def _create(run: Run, row: dict[str, Any]) -> Row:
    stored = zip(CHECKPOINT, CHECKPOINT_VALUES(row), strict=True)
    named = {ATTRIBUTES[column]: value for column, value in stored if column != "run_id"}
    return Row.objects.using(run._state.db).create(run=run, **named)


def admitted(where: CheckpointFilter) -> Q:
    """Return the condition of a filter."""
    wanted = {name: getattr(where, field) for field, name in CONDITIONS.items() if getattr(where, field) is not None}
    chosen = Q(**wanted)
    if where.has_request is not None:
        chosen &= Q(waiting__gt=0) if where.has_request else Q(waiting=0)
    if where.labelled is not None:
        chosen &= Q(label__isnull=not where.labelled)
    return chosen


def info_of(row: Row) -> CheckpointInfo:
    """Return a checkpoint's metadata."""
    stored = [getattr(row, ATTRIBUTES[column]) for column in CHECKPOINT[:-1]]
    facts: dict[str, Any] = dict(zip(INFO, stored, strict=True))
    try:
        return CheckpointInfo(**{**facts, "facts": facts_in(row.facts)})
    except ValueError:
        return CheckpointInfo(**{**facts, "facts": {}, "clean": False, "flaw": UNREADABLE})


def _read_chunks(row: Row) -> dict[str, bytes]:
    chunks: dict[str, bytes] = {}
    encryptor, family = current_encryptor(), row.run.family
    stored = Chunk.objects.using(row._state.db)
    wanted = list(hashes_in(row.body))
    while wanted:
        level: dict[str, bytes] = {}
        for start in range(0, len(wanted), AT_ONCE):
            names = encryptor.names(family, wanted[start : start + AT_ONCE])
            found = stored.filter(family=family, hash__in=list(names)).values_list("hash", "data")
            level |= verify_chunks([(names[n], encryptor.decrypt_chunk(bytes(data), family, n)) for n, data in found])
        chunks |= level
        wanted = [key for data in level.values() for key in hashes_in_chunk(data) if key not in chunks]
    return chunks
