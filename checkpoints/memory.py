"""All ports in plain dicts: for tests, notebooks and libraries. Nothing survives the process.

For one event loop: no method awaits in its middle, so each is atomic there. Values are kept as JSON text, so
what goes in and what comes out are copies, and what is no JSON is refused just as a database would.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from checkpoints import canonical, rules
from checkpoints.errors import ClaimLost, Conflict, Damaged, NotFound
from checkpoints.ids import (
    CheckpointId,
    RequestId,
    RequestKey,
    RunId,
    new_request_id,
    new_token,
)
from checkpoints.memoryrows import RequestRow, RunRow, copied, forked, merged_effects, pack, unpacked
from checkpoints.records import (
    ENDED,
    Answer,
    Checkpoint,
    CheckpointFilter,
    CheckpointInfo,
    Claim,
    Commit,
    Event,
    EventDraft,
    Phase,
    Request,
    RunFacts,
    Standing,
)
from checkpoints.retention import Needs


def utc_now() -> datetime:
    """Return the time by this machine's clock, aware, UTC."""
    return datetime.now(UTC)


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
        rules.check_label(checkpoint.label)
        packed = pack(checkpoint, seq=self.runs[checkpoint.run].seq if checkpoint.run in self.runs else 0)
        self._insert(self._row_or_new(checkpoint.run), *packed)
        return checkpoint.id

    async def load(self, run: RunId, checkpoint: CheckpointId) -> Checkpoint:
        """See ``CheckpointStorage.load``."""
        row, info = self._find(run, checkpoint)
        try:
            return unpacked(info, row.contents[checkpoint])
        except Damaged as error:
            if info.clean:
                await self.quarantine(run, checkpoint, str(error))
            raise

    async def get_latest(self, run: RunId) -> Checkpoint | None:
        """See ``CheckpointStorage.get_latest``."""
        row = self.runs.get(run)
        return await self.load(run, row.by_n[max(row.by_n)]) if row and row.by_n else None

    async def list_checkpoints(
        self, run: RunId, *, before: int | None = None, limit: int = 50, where: CheckpointFilter | None = None
    ) -> Sequence[CheckpointInfo]:
        """See ``CheckpointStorage.list_checkpoints``."""
        infos = self.runs[run].history() if run in self.runs else []
        chosen = [info for info in infos if (before is None or info.n < before) and (not where or where.admits(info))]
        return chosen[:limit]

    async def list_checkpoint_ids(self, run: RunId) -> Sequence[CheckpointId]:
        """See ``CheckpointStorage.list_checkpoint_ids``."""
        return [info.id for info in self.runs[run].history()] if run in self.runs else []

    async def delete(self, run: RunId, checkpoint: CheckpointId) -> bool:
        """See ``CheckpointStorage.delete``."""
        return run in self.runs and self.runs[run].forget(checkpoint)

    async def prune(self, run: RunId, checkpoints: Collection[CheckpointId]) -> int:
        """See ``CheckpointStorage.prune``."""
        if run not in self.runs:
            return 0
        row, doomed = self.runs[run], set(checkpoints)
        rules.refuse_needed(run, rules.needed(row.history()), doomed)
        return sum(row.forget(checkpoint) for checkpoint in doomed)

    async def quarantine(self, run: RunId, checkpoint: CheckpointId, reason: str) -> None:
        """See ``CheckpointStorage.quarantine``."""
        row, info = self._find(run, checkpoint)
        row.infos[checkpoint] = info.model_copy(update={"clean": False, "flaw": reason})

    async def set_label(self, run: RunId, checkpoint: CheckpointId, label: str | None) -> None:
        """See ``CheckpointStorage.set_label``."""
        rules.check_label(label)
        row, info = self._find(run, checkpoint)
        row.infos[checkpoint] = info.model_copy(update={"label": label})

    async def fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId) -> Checkpoint:
        """See ``CheckpointStorage.fork``."""
        origin = await self.load(run, checkpoint)
        if new_run in self.runs:
            raise Conflict("the new run already exists: fork under a fresh run id", run=new_run)
        self.runs[new_run] = row = RunRow(id=new_run, family=self.runs[run].family, forked_from=checkpoint)
        copy = forked(origin, new_run, self.now())
        self._insert(row, *pack(copy, seq=0))
        return await self.load(new_run, copy.id)

    # Journal

    async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
        """See ``Journal.commit``."""
        rules.check_label(commit.checkpoint.label if commit.checkpoint else None)
        drafts = [copied(draft) for draft in commit.events]
        row = self._row_or_new(commit.run, create=claim is None)
        if claim is not None:
            self._fence(row, claim)
        seq = row.seq + len(commit.events)
        if commit.checkpoint is not None:
            self._insert(row, *pack(commit.checkpoint, seq=seq))
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

    async def expire_claims(self, *, worker_prefix: str) -> None:
        """End every claim of workers whose name starts so: for whoever knows that they are gone."""
        for row in self.runs.values():
            if row.claim is not None and row.claim.worker.startswith(worker_prefix):
                row.claim = row.claim.model_copy(update={"expires": self.now()})

    async def read_run(self, run: RunId) -> RunFacts:
        """Return what driving the run needs; ``NotFound``. Its input is in no row here: None."""
        if run not in self.runs:
            raise NotFound("There is no such run", run=run)
        row = self.runs[run]
        infos = row.history()
        named = (infos[-1].workflow, infos[-1].version) if infos else ("", "")
        return RunFacts(run=run, workflow=named[0], version=named[1], n=row.n, attempts=row.attempts)

    async def read_needs(self, run: RunId) -> Needs:
        """Return what else depends on the run's checkpoints: whether it goes on, and what was forked from."""
        ended = run in self.runs and self.runs[run].phase in ENDED
        origins = (row.forked_from for row in self.runs.values())
        return Needs(ended=ended, origins=frozenset(origin for origin in origins if origin is not None))

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

    def _find(self, run: RunId, checkpoint: CheckpointId) -> tuple[RunRow, CheckpointInfo]:
        row = self.runs.get(run)
        if row is None or checkpoint not in row.infos:
            raise NotFound(run=run, checkpoint=checkpoint)
        return row, row.infos[checkpoint]

    def _insert(self, row: RunRow, info: CheckpointInfo, content: str) -> None:
        if info.n in row.by_n or info.id in row.infos:
            raise Conflict("the run already has a checkpoint with this n", run=row.id, n=info.n)
        row.infos[info.id], row.contents[info.id], row.by_n[info.n] = info, content, info.id
        row.n = max(row.n, info.n)

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
