"""Rows as records and back, for callers that stand in the ORM anyway: verbs of the desk and pages."""

from __future__ import annotations

from typing import Any

from checkpoints.chunks import bound, decode, hashes_in, hashes_in_chunk, unbound, verified
from checkpoints.encoding import encode
from checkpoints.fields import current_sealer
from checkpoints.models import Checkpoint as Row
from checkpoints.models import Chunk, Run
from checkpoints.records import Checkpoint, CheckpointInfo, Reason, Request
from checkpoints.rules import refuse_unreadable, row_of

AT_ONCE = 500
SAME = tuple(name for name in CheckpointInfo.model_fields if name not in ("run", "reason", "clean"))
"""What a row and a record call the same."""


def read_row(row: Row) -> Checkpoint:
    """Return a checkpoint with its content: one query for the family, one per level of big content.

    ``Damaged`` when a chunk is missing or altered, or it was found damaged before; ``Incompatible`` for a format
    this code cannot read.
    """
    info = info_of(row)
    refuse_unreadable(info)
    content = decode(unbound(row.body, row_of(info)), _read_chunks(row))
    requests = tuple(Request.model_validate(request) for request in content["requests"])
    return Checkpoint(**dict(info), body=content["body"], requests=requests)


def insert_row(record: Checkpoint, run: Run, *, seq: int) -> Row:
    """Store a checkpoint as a new row of a run that the caller has locked, with the chunks it needs."""
    requests = [request.model_dump(mode="json") for request in record.requests]
    encoded = encode({"body": record.body, "requests": requests})
    sealer, family = current_sealer(), run.family
    chunks = [
        Chunk(family=family, hash=sealer.name(family, key), data=sealer.seal_chunk(data, family, key))
        for key, data in encoded.chunks.items()
    ]
    Chunk.objects.using(run._state.db).bulk_create(chunks, ignore_conflicts=True)
    facts = {name: getattr(record, name) for name in SAME}
    facts |= {"size": encoded.size, "seq": seq, "waiting": len(requests)}
    return Row.objects.using(run._state.db).create(
        **facts, run=run, reason=record.reason.value, intact=True, body=bound(encoded.root, row_of(record))
    )


def rebound(row: Row, **changes: Any) -> str:
    """Return a checkpoint's content as another row has it, whose metadata differs by ``changes``. ``Damaged``."""
    info = info_of(row)
    return bound(unbound(row.body, row_of(info)), row_of(info.model_copy(update=changes)))


def info_of(row: Row) -> CheckpointInfo:
    """Return a checkpoint's metadata."""
    facts = {name: getattr(row, name) for name in SAME}
    return CheckpointInfo(**facts, run=row.run_id, reason=Reason(row.reason), clean=row.intact)


def _read_chunks(row: Row) -> dict[str, bytes]:
    chunks: dict[str, bytes] = {}
    sealer, family = current_sealer(), row.run.family
    stored = Chunk.objects.using(row._state.db)
    wanted = list(hashes_in(row.body))
    while wanted:
        level: dict[str, bytes] = {}
        for start in range(0, len(wanted), AT_ONCE):
            names = sealer.names(family, wanted[start : start + AT_ONCE])
            found = stored.filter(family=family, hash__in=list(names)).values_list("hash", "data")
            level |= verified([(names[n], sealer.open_chunk(bytes(data), family, n)) for n, data in found])
        chunks |= level
        wanted = [key for data in level.values() for key in hashes_in_chunk(data) if key not in chunks]
    return chunks
