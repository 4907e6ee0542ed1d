"""Deletes the runs of a Django database, and counts their events, through the ORM.

Rows that refer to a run or its requests are deleted with it, in whichever table: the models declare it. The audit
refers to nothing: its entries and the pages it stores stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from functools import cache
from typing import Any

from django.db import connections, models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from checkpoints import rules
from checkpoints.content.chunks import decode, hashes_in, hashes_in_chunk, unbind_from_row, verify_chunks, verify_digest
from checkpoints.content.encoder import encode
from checkpoints.database.alias import connection
from checkpoints.database.compiled import one_parameter
from checkpoints.ids import CheckpointId, RunId, new_checkpoint_id
from checkpoints.models import REMOVED, Chunk, Claim, Run
from checkpoints.models import Checkpoint as Row
from checkpoints.models.fields import DatabaseNow, current_encryptor
from checkpoints.records import Checkpoint as CheckpointRecord
from checkpoints.records import CheckpointFilter, CheckpointInfo, Phase, Reason, Request, frozen
from checkpoints.rules import UNREADABLE, Priority, facts_in, refuse_unreadable, row_of
from checkpoints.sql.reads import Removed
from checkpoints.sql.statements import POSTGRES, SQLITE, TIMED, Dialect
from checkpoints.sql.tables import CHECKPOINT, CHECKPOINT_VALUES, INFO, checkpoint_row, copied

# Conversion between ORM rows and records, for actions and queries.

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


def read_row(row: Row) -> CheckpointRecord:
    """Return a checkpoint with its content: one query for the family, one per level of big content.

    ``Damaged`` when a chunk is missing or altered, or it was found damaged before; ``Incompatible`` for a format
    this code cannot read.
    """
    info = info_of(row)
    refuse_unreadable(info)
    content = decode(unbind_from_row(row.body, row_of(info)), _read_chunks(row))
    requests = tuple(Request.model_validate(request) for request in content["requests"])
    return CheckpointRecord(**dict(info), body=content["body"], requests=requests)


def insert_row(record: CheckpointRecord, run: Run, *, seq: int) -> Row:
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


# Statements that count an event of a run and may make it ready.

COUNT_EVENT = "UPDATE checkpoints_run SET seq = seq + 1, updated = %s WHERE id = %s RETURNING seq"


def count_and_wake(dialect: Dialect) -> str:
    """Return the statement that counts an event and makes a run ready that waits for an answer or a time."""
    now = dialect.now.replace("%", "%%")
    woken = {"phase": f"'{Phase.READY.value}'", "priority": int(Priority.RESUMED), "ready_at": now}
    changes = (f", {name} = CASE WHEN phase IN {TIMED} THEN {value} ELSE {name} END" for name, value in woken.items())
    return COUNT_EVENT.replace(" WHERE", f"{''.join(changes)} WHERE")


AS_FOUND = ("seq", "n", "epoch", "phase")
"""What changes of a run with every event, checkpoint, fence and status."""
COUNT_AND_WAKE = {dialect.name: count_and_wake(dialect) for dialect in (SQLITE, POSTGRES)}


def made_ready(priority: Priority) -> dict[str, Any]:
    """Return the changes by which a run is ready from now on, for workers, in the order of its priority."""
    return {"phase": Phase.READY, "for_workers": True, "priority": priority.value, "ready_at": DatabaseNow()}


def count_event(run: str, now: datetime, *, wake: bool) -> int:
    """Count one more event of a run inside the caller's transaction and return its number, in one statement.

    ``wake``: a run that waits for an answer or a time is due. ``Run.DoesNotExist`` if there is no such run.
    """
    number = _count(run, now, {}, wake=wake)
    if number is None:
        raise Run.DoesNotExist
    return number


def count_event_as_found(run: Run, now: datetime, *, wake: bool) -> int | None:
    """Do the same if nothing has happened to the run since this instance was read; None, and nothing is changed, if
    something has.
    """
    return _count(run.pk, now, {name: getattr(run, name) for name in AS_FOUND}, wake=wake)


def _count(run: str, now: datetime, expected: dict[str, Any], *, wake: bool) -> int | None:
    used = connection()
    moment = Run._meta.get_field("updated").get_db_prep_save(now, used)
    statement = COUNT_AND_WAKE[used.vendor] if wake else COUNT_EVENT
    conditions = "".join(map(" AND {} = %s".format, expected))
    with used.cursor() as cursor:
        cursor.execute(statement.replace(" RETURNING", f"{conditions} RETURNING"), (moment, run, *expected.values()))
        found = cursor.fetchone()
    return None if found is None else int(found[0])


def remove_run(using: str, run: str, *, force: bool = False, in_parts: bool = False) -> Removed | None:
    """Delete a run inside the caller's transaction (``write()``); None if there is none. ``Conflict`` if it has not
    ended.

    Content that its relatives do not need is removed with the next prune of one of them: see ``Removed``. ``in_parts``:
    if it has very many rows, most of them are left to ``removal.remove_part``.
    """
    row = Run.objects.using(using).select_for_update().filter(pk=run).only("id", "phase", "seq", "n").first()
    if row is None:
        return None
    claimed = Claim.objects.using(using).filter(run=run, expires__gt=Now()).exists()
    rules.refuse_removal(RunId(run), Phase.stored(row.phase), claimed=claimed, force=force)
    whole = not in_parts or row.seq + row.n <= MOST_AT_ONCE
    relatives = (remove_locked(using, [run]) if whole else begin_removal(using, run)).relatives
    return Removed(relative=relatives[0] if relatives else None)


def needed_of(run: str) -> list[CheckpointId]:
    """Return the ids of the checkpoints a run would continue from: its head, and its newest valid one."""
    rows = Row.objects.filter(run_id=run).order_by("-n").values_list("id", flat=True)
    found = [rows.first(), rows.filter(intact=True).first()]
    return [CheckpointId(id_) for id_ in dict.fromkeys(found) if id_ is not None]


# Deletes runs with the rows that refer to them, in whichever table, by one statement per table.

AMONG = {"sqlite": "IN (SELECT value FROM json_each(%s))", "postgresql": "= ANY(%s)"}
"""A column that has one of many values, which are one parameter."""
MOST_AT_ONCE = 5_000
"""Events and checkpoints up to which a run is removed in one transaction."""
FEW = 1_000
"""Rows of a table that go with the first part."""
NULL = ("own_title", "summary", "created_by", "input", "output", "error", "retry", "wake_at", "requesters")
EMPTY: Mapping[str, Any] = {
    **dict.fromkeys((*NULL, "forked_from", "follows", "thread", "start_key")),
    **dict.fromkeys(("title", "acted_by", "ending"), ""),
    **dict.fromkeys(("listed", "noted"), True),
    "workflow": REMOVED,
}
"""What the row of a run holds while its other rows are deleted: nothing that it is found by."""


@frozen
class RemovedRuns:
    """Deleted runs. ``relatives``: one run of each family that may share content with them.

    ``counts``: how many rows of each table went, or will, by the model's label; of content that others may share none.
    ``later``: how many of them are left to ``remove_part``.
    """

    relatives: tuple[RunId, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    later: int = 0

    @property
    def rows(self) -> int:
        """Return how many rows went."""
        return sum(self.counts.values()) - self.later


@frozen
class RemovedPart:
    """So many rows of a run went. ``last``: so did its own; ``relatives``: as of removed runs."""

    rows: int
    last: bool = False
    relatives: tuple[RunId, ...] = ()


@frozen
class Follower:
    """A statement for rows that refer to runs, directly or not. ``table``: of rows that refer to a run and to which
    nothing else does, by ``column`` and ``key``: these can go a few at a time.
    """

    label: str
    sql: str
    table: str = ""
    column: str = ""
    key: str = ""


def remove_locked(using: str, runs: Collection[str]) -> RemovedRuns:
    """Delete runs that the caller has locked in its transaction, and found free to go, with everything they have."""
    connection = connections[using]
    among, counts, chosen = AMONG[connection.vendor], dict[str, int](), one_parameter(runs, connection)
    with connection.cursor() as cursor:
        for one in _followers(connection.vendor):
            cursor.execute(one.sql, [chosen])
            counts[one.label] = counts.get(one.label, 0) + cursor.rowcount
        cursor.execute(f"DELETE FROM {_table(Run)} WHERE id {among} RETURNING family", [chosen])  # noqa: S608
        families = {family for (family,) in cursor.fetchall()}
        counts[Run._meta.label] = len(runs)
        shared = f"SELECT family, min(id) FROM {_table(Run)} WHERE family {among} GROUP BY family"  # noqa: S608
        cursor.execute(shared, [one_parameter(families, connection)])
        relatives: dict[str, str] = dict(cursor.fetchall())
        orphans = one_parameter(families - relatives.keys(), connection)
        cursor.execute(f"DELETE FROM {_table(Chunk)} WHERE family {among}", [orphans])  # noqa: S608
        counts[Chunk._meta.label] = cursor.rowcount
    return RemovedRuns(relatives=tuple(map(RunId, relatives.values())), counts=counts)


def begin_removal(using: str, run: str) -> RemovedRuns:
    """Remove a run from everyone's sight, and leave most of its rows to ``remove_part``: for a run that the caller has
    locked in its transaction, and found free to go.
    """
    connection = connections[using]
    counts, later, chosen = dict[str, int](), 0, one_parameter([run], connection)
    with connection.cursor() as cursor:
        for one in _followers(connection.vendor):
            count = _count_followers(cursor, one, run) if one.table else 0
            if count > FEW:
                later += count
            else:
                cursor.execute(one.sql, [chosen])
                count = cursor.rowcount
            counts[one.label] = counts.get(one.label, 0) + count
    Run.objects.using(using).filter(pk=run).update(**EMPTY)
    return RemovedRuns(counts=counts, later=later)


def _count_followers(cursor: Any, follower: Follower, run: str) -> int:
    cursor.execute(f'SELECT count(*) FROM {follower.table} WHERE "{follower.column}" = %s', [run])  # noqa: S608
    return int(cursor.fetchone()[0])


def remove_part(using: str, run: str, limit: int) -> RemovedPart:
    """Delete at most so many rows of what is left of a run, whose row the caller has locked in its transaction."""
    connection, left = connections[using], limit
    family = Run.remains.using(using).values_list("family", flat=True).get(pk=run)
    alone = not Run._base_manager.using(using).filter(family=family).exclude(pk=run).exists()
    statements = [(_some(one.table, one.key, one.column), run) for one in _followers(connection.vendor) if one.table]
    if alone:
        statements.append((_some(_table(Chunk), "id", "family"), family))
    with connection.cursor() as cursor:
        for sql, value in statements:
            cursor.execute(sql, [value, left])
            left -= cursor.rowcount
            if left <= 0:
                return RemovedPart(rows=limit)
    removed = remove_locked(using, [run])
    return RemovedPart(rows=limit - left + removed.rows, last=True, relatives=removed.relatives)


@cache
def _followers(vendor: str) -> tuple[Follower, ...]:
    """Return the statements for what refers to runs, those first to which nothing else refers."""
    return tuple(_statements(Run, AMONG[vendor]))


def _statements(model: type[models.Model], which: str) -> Iterator[Follower]:
    """Yield the statements for rows that refer to rows of a model. ``which``: the end of a condition on their key."""
    for relation in model._meta.get_fields(include_hidden=True):
        if not isinstance(relation, models.ManyToOneRel):
            continue
        follower, column = relation.related_model, relation.field.column
        label, table, where = follower._meta.label, _table(follower), f'"{column}" {which}'
        if relation.on_delete is models.SET_NULL:
            yield Follower(label=label, sql=f'UPDATE {table} SET "{column}" = NULL WHERE {where}')  # noqa: S608
        elif relation.on_delete is models.CASCADE:
            key = str(follower._meta.pk.column)
            theirs = tuple(_statements(follower, f'IN (SELECT "{key}" FROM {table} WHERE {where})'))  # noqa: S608
            yield from theirs
            apart = {"table": table, "column": column, "key": key} if model is Run and not theirs else {}
            yield Follower(label=label, sql=f"DELETE FROM {table} WHERE {where}", **apart)  # noqa: S608


def _some(table: str, key: str, column: str) -> str:
    chosen = f'SELECT "{key}" FROM {table} WHERE "{column}" = %s LIMIT %s'  # noqa: S608
    return f'DELETE FROM {table} WHERE "{key}" IN ({chosen})'  # noqa: S608


def _table(model: type[models.Model]) -> str:
    return f'"{model._meta.db_table}"'
