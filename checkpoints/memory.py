"""All ports in plain dicts: for tests, notebooks and libraries. Nothing survives the process.

For one event loop: no method awaits in its middle, so each is atomic there. Values are kept as JSON text, so
what goes in and what comes out are copies, and what is no JSON is refused just as a database would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from checkpoints import canonical, rules
from checkpoints.errors import ClaimLost, Conflict, NotFound
from checkpoints.ids import (
    CheckpointId,
    RequestId,
    RequestKey,
    RunId,
    new_checkpoint_id,
    new_request_id,
    new_token,
)
from checkpoints.records import (
    ENDED,
    Answer,
    Checkpoint,
    CheckpointInfo,
    Claim,
    Commit,
    Effect,
    Event,
    EventDraft,
    Phase,
    Reason,
    Request,
    Standing,
)


def utc_now() -> datetime:
    """Return the time by this machine's clock, aware, UTC."""
    return datetime.now(UTC)


@dataclass(kw_only=True)
class RequestRow:
    """A question and what became of it."""

    id: RequestId
    request: Request
    created: datetime
    answer: Answer | None = None
    closed_as: str = ""


@dataclass(kw_only=True)
class RunRow:
    """One run with everything it owns."""

    id: RunId
    family: RunId
    phase: Phase = Phase.READY
    seq: int = 0
    n: int = 0
    epoch: int = 0
    attempts: int = 0
    wake_at: datetime | None = None
    standing: Standing | None = None
    finished: datetime | None = None
    claim: Claim | None = None
    checkpoints: dict[CheckpointId, bytes] = field(default_factory=dict)
    by_n: dict[int, CheckpointId] = field(default_factory=dict)
    events: list[bytes] = field(default_factory=list)
    requests: list[RequestRow] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    @property
    def expires(self) -> datetime | None:
        """When its claim ends, None without one."""
        return None if self.claim is None else self.claim.expires

    def pending(self) -> list[RequestRow]:
        """Return the questions that are not closed."""
        return [row for row in self.requests if not row.closed_as]


class MemoryStorage:
    """``CheckpointStorage``, ``Journal`` and ``Claims`` in memory."""

    def __init__(self, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.runs: dict[RunId, RunRow] = {}
        self.now = clock

    async def aclose(self) -> None:
        """Nothing to end; here so that storages can be exchanged."""

    # CheckpointStorage

    async def save(self, checkpoint: Checkpoint) -> CheckpointId:
        """See ``CheckpointStorage.save``."""
        text = packed(checkpoint, seq=self.runs[checkpoint.run].seq if checkpoint.run in self.runs else 0)
        self._insert(self._row_or_new(checkpoint.run), checkpoint, text)
        return checkpoint.id

    async def load(self, run: RunId, checkpoint: CheckpointId) -> Checkpoint:
        """See ``CheckpointStorage.load``."""
        row = self.runs.get(run)
        if row is None or checkpoint not in row.checkpoints:
            raise NotFound(run=run, checkpoint=checkpoint)
        return Checkpoint.model_validate_json(row.checkpoints[checkpoint])

    async def get_latest(self, run: RunId) -> Checkpoint | None:
        """See ``CheckpointStorage.get_latest``."""
        row = self.runs.get(run)
        if row is None or not row.by_n:
            return None
        return await self.load(run, row.by_n[max(row.by_n)])

    async def list_checkpoints(
        self, run: RunId, *, before: int | None = None, limit: int = 50
    ) -> Sequence[CheckpointInfo]:
        """See ``CheckpointStorage.list_checkpoints``."""
        row = self.runs.get(run)
        ns = [] if row is None else [n for n in row.by_n if before is None or n < before]
        chosen = sorted(ns, reverse=True)[:limit]
        return [(await self.load(run, self.runs[run].by_n[n])).info() for n in chosen]

    async def list_checkpoint_ids(self, run: RunId) -> Sequence[CheckpointId]:
        """See ``CheckpointStorage.list_checkpoint_ids``."""
        row = self.runs.get(run)
        return [] if row is None else [row.by_n[n] for n in sorted(row.by_n, reverse=True)]

    async def delete(self, run: RunId, checkpoint: CheckpointId) -> bool:
        """See ``CheckpointStorage.delete``."""
        row = self.runs.get(run)
        if row is None or row.checkpoints.pop(checkpoint, None) is None:
            return False
        row.by_n = {n: id_ for n, id_ in row.by_n.items() if id_ != checkpoint}
        return True

    async def fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId) -> Checkpoint:
        """See ``CheckpointStorage.fork``."""
        origin = await self.load(run, checkpoint)
        if new_run in self.runs:
            raise Conflict("the new run already exists: fork under a fresh run id", run=new_run)
        self.runs[new_run] = row = RunRow(id=new_run, family=self.runs[run].family)
        copy = forked(origin, new_run, self.now())
        self._insert(row, copy, packed(copy, seq=0))
        return await self.load(new_run, copy.id)

    # Journal

    async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
        """See ``Journal.commit``."""
        drafts = [copied(draft) for draft in commit.events]
        row = self._row_or_new(commit.run, create=claim is None)
        if claim is not None:
            self._fence(row, claim)
        seq = row.seq + len(commit.events)
        if commit.checkpoint is not None:
            self._insert(row, commit.checkpoint, packed(commit.checkpoint, seq=seq))
            row.attempts = 0
        self._close(row, commit.closed)
        self._append(row, rules.link_requests(drafts, self._open(row, commit.opened)))
        row.effects = merged_effects(row.effects, commit.effects)
        if commit.standing is not None:
            self._settle(row, commit.standing)
        return row.seq

    async def read_events(self, run: RunId, *, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """See ``Journal.read_events``."""
        row = self.runs.get(run)
        chosen = [] if row is None else row.events[max(after, 0) :][:limit]
        return [Event.model_validate_json(text) for text in chosen]

    async def read_answers(self, run: RunId) -> Mapping[RequestKey, Answer]:
        """See ``Journal.read_answers``."""
        rows = self.runs[run].pending() if run in self.runs else []
        return {row.request.key: row.answer.model_copy(deep=True) for row in rows if row.answer is not None}

    def answer(self, run: RunId, key: RequestKey, value: object, *, by: str | None = None) -> None:
        """Accept an answer to a pending request and make the run ready. ``NotFound``, ``Conflict`` if answered."""
        row = self.runs.get(run)
        request = next((r for r in row.pending() if r.request.key == key), None) if row else None
        if row is None or request is None:
            raise NotFound("the run has no pending request of that key", run=run, key=key)
        if request.answer is not None:
            raise Conflict("the request is already answered", run=run, key=key)
        request.answer = Answer(key=key, value=canonical.loads(canonical.dumps(value)), by=by, at=self.now())
        if row.phase in rules.TIMED:
            row.phase, row.wake_at = Phase.READY, None

    # Claims

    async def claim(self, run: RunId, *, worker: str, ttl: float) -> Claim | None:
        """See ``Claims.claim``."""
        row, now = self.runs.get(run), self.now()
        if row is None or not rules.is_due(row.phase, row.wake_at, row.expires, now):
            return None
        recovered = row.claim is not None
        row.epoch, row.attempts = row.epoch + 1, row.attempts + recovered
        row.phase, row.wake_at = Phase.READY, None
        row.claim = Claim(
            run=run,
            token=new_token(),
            worker=worker,
            epoch=row.epoch,
            expires=now + timedelta(seconds=ttl),
            ttl=ttl,
            recovered=recovered,
            attempts=row.attempts,
        )
        return row.claim

    async def renew(self, claim: Claim, *, ttl: float) -> Claim:
        """See ``Claims.renew``."""
        row = self.runs.get(claim.run)
        if row is None:
            raise ClaimLost(run=claim.run)
        held = self._fence(row, claim)
        row.claim = held.model_copy(update={"ttl": ttl, "expires": self.now() + timedelta(seconds=ttl)})
        return row.claim

    async def release(self, claim: Claim) -> None:
        """See ``Claims.release``."""
        row = self.runs.get(claim.run)
        if row is not None and row.claim is not None and row.claim.token == claim.token:
            row.claim = None

    async def due(self, *, limit: int = 500) -> Sequence[RunId]:
        """See ``Claims.due``."""
        now = self.now()
        rows = self.runs.values()
        ids = [r.id for r in rows if rules.is_due(r.phase, r.wake_at, r.expires, now)]
        return ids[:limit]

    # What the methods are made of

    def _row_or_new(self, run: RunId, *, create: bool = True) -> RunRow:
        if run not in self.runs:
            if not create:
                raise ClaimLost(run=run)
            self.runs[run] = RunRow(id=run, family=run)
        return self.runs[run]

    def _fence(self, row: RunRow, claim: Claim) -> Claim:
        now, held = self.now(), row.claim
        if held is None or held.token != claim.token or held.expires <= now or row.epoch != claim.epoch:
            raise ClaimLost(run=row.id)
        row.claim = held.model_copy(update={"expires": now + timedelta(seconds=held.ttl)})
        return row.claim

    def _insert(self, row: RunRow, checkpoint: Checkpoint, text: bytes) -> None:
        if checkpoint.n in row.by_n or checkpoint.id in row.checkpoints:
            raise Conflict("the run already has a checkpoint with this n", run=row.id, n=checkpoint.n)
        row.checkpoints[checkpoint.id], row.by_n[checkpoint.n] = text, checkpoint.id
        row.n = max(row.n, checkpoint.n)

    def _append(self, row: RunRow, drafts: Sequence[EventDraft]) -> None:
        at = self.now()
        for draft in drafts:
            row.seq += 1
            event = Event(kind=draft.kind, step=draft.step, data=draft.data, run=row.id, seq=row.seq, at=at)
            row.events.append(event.model_dump_json().encode())

    def _close(self, row: RunRow, keys: Sequence[RequestKey]) -> None:
        for request in row.pending():
            if request.request.key in keys:
                request.closed_as = "taken" if request.answer else "withdrawn"

    def _open(self, row: RunRow, requests: Sequence[Request]) -> dict[RequestKey, RequestId]:
        open_rows = {r.request.key: r.id for r in row.pending()}
        for request in requests:
            if request.key not in open_rows:
                open_rows[request.key] = id_ = new_request_id()
                copy = request.model_copy(deep=True)
                row.requests.append(RequestRow(id=id_, request=copy, created=self.now()))
        return open_rows

    def _settle(self, row: RunRow, standing: Standing) -> None:
        arrived = any(r.answer is not None for r in row.pending())
        row.phase = rules.settled_phase(standing, answer_arrived=arrived)
        row.wake_at = standing.wake_at if row.phase is standing.phase else None
        row.standing, row.claim = standing, None
        row.finished = self.now() if row.phase in ENDED else None


def copied(draft: EventDraft) -> EventDraft:
    """Return a copy whose data shares nothing. ``ValueError`` if it is no JSON."""
    return draft.model_copy(update={"data": canonical.loads(canonical.dumps(draft.data))})


def packed(checkpoint: Checkpoint, *, seq: int) -> bytes:
    """Return the record as JSON text with its size and seq filled in. ``ValueError`` if it is no JSON."""
    content = {"body": checkpoint.body, "requests": [r.model_dump(mode="json") for r in checkpoint.requests]}
    size = len(canonical.dumps(content))
    return checkpoint.model_copy(update={"size": size, "seq": seq}).model_dump_json().encode()


def forked(origin: Checkpoint, run: RunId, now: datetime) -> Checkpoint:
    """Return the first checkpoint of a new run that continues from ``origin``."""
    changes = {
        "id": new_checkpoint_id(),
        "run": run,
        "n": 1,
        "parent": origin.id,
        "reason": Reason.FORK,
        "label": None,
        "created": now,
        "seq": 0,
    }
    return origin.model_copy(update=changes)


def merged_effects(rows: Sequence[Effect], news: Sequence[Effect]) -> list[Effect]:
    """Return the effects with the news in: an intent becomes its result in place, anything else is added."""
    kept = list(rows)
    for new in news:
        at = next((i for i, e in enumerate(kept) if e.key == new.key and e.state in ("intended", "unknown")), None)
        if at is None:
            kept.append(new)
        else:
            kept[at] = new
    return kept
