"""What a commit writes, as rows: the parts ``generic`` is made of. All inside its transaction, the run's row locked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from django.db import IntegrityError, connections, transaction
from django.db.models import Model, Q, QuerySet

from checkpoints import models, rules
from checkpoints.chunks import hashes_in, hashes_in_chunk, verified
from checkpoints.errors import ClaimLost, Conflict, Damaged, Incompatible
from checkpoints.fields import current_sealer
from checkpoints.ids import CheckpointId, RequestId, RequestKey, RunId, new_request_id
from checkpoints.records import (
    ENDED,
    FORMAT,
    Checkpoint,
    CheckpointFilter,
    Claim,
    Commit,
    EventDraft,
    Phase,
    Request,
    Standing,
)
from checkpoints.rows import info_of, insert_row

M = TypeVar("M", bound=Model)

ASKED = ("key", "step", "kind", "card", "answer_schema", "due", "policy", "alarm")
"""What a request's row takes over as it is."""
CLOCKS = {"mysql": "SELECT UTC_TIMESTAMP(6)", "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f','now')"}
"""How a database tells its time in UTC."""
CONDITIONS = {
    "step": "step",
    "reason": "reason",
    "clean": "intact",
    "label": "label",
    "since": "created__gte",
    "until": "created__lt",
}
"""What a field of a ``CheckpointFilter`` is for the ORM."""


@dataclass(frozen=True)
class Place:
    """One of Django's databases."""

    using: str

    def of(self, model: type[M]) -> QuerySet[M]:
        """Return a table there."""
        return model._default_manager.using(self.using)

    def now(self) -> datetime:
        """Return the database's time, aware, UTC."""
        connection = connections[self.using]
        with connection.cursor() as cursor:
            cursor.execute(CLOCKS.get(connection.vendor, "SELECT CURRENT_TIMESTAMP"))
            ((told,),) = cursor.fetchall()
        at = datetime.fromisoformat(told) if isinstance(told, str) else told
        aware: datetime = at.replace(tzinfo=UTC) if at.tzinfo is None else at
        return aware

    def lock(self, run: RunId) -> models.Run | None:
        """Return a run's row, kept from others until the transaction ends."""
        return self.of(models.Run).select_for_update().filter(id=run).first()

    def begin(self, run: RunId, **facts: Any) -> models.Run:
        """Return the row of a run that was unknown, locked; of two who begin it, one waits and finds it."""
        now = self.now()
        try:
            with transaction.atomic(self.using):
                return self.of(models.Run).create(id=run, created=now, updated=now, **{"family": run, **facts})
        except IntegrityError:
            return self.of(models.Run).select_for_update().get(id=run)


def hold(place: Place, run: models.Run | None, claim: Claim, *, let_go: bool) -> None:
    """Extend the claim a commit is made under, or drop it. ``ClaimLost``."""
    now = place.now()
    held = place.of(models.Claim).filter(run_id=claim.run, token=claim.token, expires__gt=now)
    if run is None or (run.id, run.epoch) != (claim.run, claim.epoch) or not held.exists():
        raise ClaimLost(run=claim.run)
    if let_go:
        held.delete()
    else:
        held.update(expires=now + timedelta(seconds=claim.ttl))


def add_checkpoint(place: Place, run: models.Run, record: Checkpoint, *, seq: int) -> None:
    """Store a checkpoint. ``Conflict`` if the run has one with that n."""
    known = place.of(models.Checkpoint).filter(Q(run_id=run.id, n=record.n) | Q(id=record.id))
    if known.exists():
        raise Conflict("the run already has a checkpoint with this n", run=run.id, n=record.n)
    insert_row(record, run, seq=seq)


def close_requests(place: Place, commit: Commit, now: datetime) -> None:
    """Close what the engine took or withdrew."""
    pending = place.of(models.HumanRequest).filter(run_id=commit.run, key__in=commit.closed, closed=None)
    pending.filter(answered=None).update(closed=now, closed_as="withdrawn")
    pending.filter(answered__isnull=False).update(closed=now, closed_as="taken")


def open_requests(
    place: Place, run: models.Run, requests: Sequence[Request], now: datetime
) -> dict[RequestKey, RequestId]:
    """Open those that are not pending already; returns the row of each."""
    if not requests:
        return {}
    pending = place.of(models.HumanRequest).filter(run_id=run.id, closed=None)
    ids = {RequestKey(key): RequestId(id_) for key, id_ in pending.values_list("key", "id")}
    for request in requests:
        if request.key not in ids:
            ids[request.key] = new_request_id()
            facts = {name: getattr(request, name) for name in ASKED}
            facts |= {"by": list(request.by), "not_by": list(request.not_by), "workflow": run.workflow, "created": now}
            facts["risk"] = rules.risk_of(request.card)
            place.of(models.HumanRequest).create(id=ids[request.key], run_id=run.id, **facts)
    return {request.key: ids[request.key] for request in requests}


def add_events(place: Place, run: models.Run, drafts: Sequence[EventDraft], now: datetime) -> None:
    """Give events their place after the run's last."""
    place.of(models.Event).bulk_create(
        models.Event(run_id=run.id, seq=seq, kind=draft.kind, step=draft.step, data=draft.data, at=now)
        for seq, draft in enumerate(drafts, run.seq + 1)
    )


def keep_effects(place: Place, commit: Commit, now: datetime) -> None:
    """Turn intents into results in place, and add what is new."""
    for effect in commit.effects:
        facts = {"state": effect.state, "result": effect.result, "n": commit.checkpoint.n if commit.checkpoint else 0}
        open_ = place.of(models.Effect).filter(run_id=commit.run, key=effect.key, state__in=["intended", "unknown"])
        known = open_.first()
        if known is None:
            named = {name: getattr(effect, name) for name in ("key", "step", "name", "once")}
            place.of(models.Effect).create(run_id=commit.run, **named, **facts, at=now)
        else:
            for name, value in {**facts, "at": now}.items():
                setattr(known, name, value)
            known.save(update_fields=[*facts, "at"])


def settle(place: Place, run: models.Run, standing: Standing, now: datetime) -> None:
    """Set where the run stands; an answer that came meanwhile makes it ready."""
    pending = place.of(models.HumanRequest).filter(run_id=run.id, closed=None, answered__isnull=False)
    phase = rules.settled_phase(standing, answer_arrived=pending.exists())
    run.phase, run.wake_at = phase.value, standing.wake_at if phase is standing.phase else None
    run.output = standing.output
    run.error = standing.error.model_dump(mode="json") if standing.error else None
    retrying = standing.phase is Phase.RETRYING
    run.retry = {"attempt": standing.attempt, "attempts": standing.attempts} if retrying else None
    run.finished = now if standing.phase in ENDED else None
    run.save(update_fields=["phase", "wake_at", "output", "error", "retry", "finished"])


def admitted(where: CheckpointFilter) -> Q:
    """Return the condition of a filter."""
    wanted = {name: getattr(where, field) for field, name in CONDITIONS.items() if getattr(where, field) is not None}
    chosen = Q(**wanted)
    if where.has_request is not None:
        chosen &= Q(waiting__gt=0) if where.has_request else Q(waiting=0)
    if where.labelled is not None:
        chosen &= Q(label__isnull=not where.labelled)
    return chosen


def sweep(place: Place, run: RunId, doomed: Collection[CheckpointId]) -> int:
    """Remove checkpoints, and the chunks of the family that no other needs; returns how many there were."""
    row = place.lock(run)
    if row is None:
        return 0
    family = [r.id for r in place.of(models.Run).select_for_update().filter(family=row.family).order_by("id")]
    mine = place.of(models.Checkpoint).filter(run_id=run)
    history = [info_of(each) for each in mine.defer("body").order_by("-n")]
    rules.refuse_needed(run, rules.needed(history), doomed)
    removed, _ = mine.filter(id__in=list(doomed)).delete()
    try:
        needed = reached(place, row.family, place.of(models.Checkpoint).filter(run_id__in=family))
    except (Damaged, Incompatible):
        return removed
    names = current_sealer().names(row.family, needed)
    for chunk in place.of(models.Chunk).filter(family=row.family).defer("data").iterator(500):
        if chunk.hash not in names:
            chunk.delete()
    return removed


def reached(place: Place, family: str, rows: QuerySet[models.Checkpoint]) -> set[str]:
    """Return the hashes that checkpoints need. ``Damaged``, ``Incompatible`` if one cannot be followed."""
    sealer, found = current_sealer(), set[str]()
    wanted: set[str] = set()
    for row in rows.only("run_id", "id", "format", "body"):
        if row.format > FORMAT:
            raise Incompatible(f"a checkpoint has format {row.format}")
        wanted.update(hashes_in(row.body))
    while wanted:
        names = sealer.names(family, wanted)
        stored = place.of(models.Chunk).filter(family=family, hash__in=list(names)).values_list("hash", "data")
        level = verified([(names[name], sealer.open_chunk(bytes(data), family, name)) for name, data in stored])
        if level.keys() != wanted:
            raise Damaged("a chunk of a checkpoint is missing")
        found |= wanted
        wanted = {key for data in level.values() for key in hashes_in_chunk(data)} - found
    return found
