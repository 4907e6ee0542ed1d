"""What each storage verb does, as generators: they yield batches of statements and get their rows back.

No database is called here, so SQLite's writer thread and PostgreSQL's async pool run the very same scripts.
A script that raises leaves nothing behind: its runner rolls back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from checkpoints import rules
from checkpoints.canonical import dumps
from checkpoints.chunks import bound, unbound
from checkpoints.encoding import Encoded
from checkpoints.errors import ClaimLost, Conflict, NotFound
from checkpoints.ids import CheckpointId, RunId, new_request_id, new_token
from checkpoints.reading import Reading
from checkpoints.reading import Script as Script
from checkpoints.records import (
    ENDED,
    Checkpoint,
    Claim,
    Commit,
    Effect,
    Phase,
    Reason,
    Request,
    Standing,
)
from checkpoints.sql import (
    COLUMNS,
    Rows,
    Statement,
    insert_chunks,
    insert_events,
)

Moved: TypeAlias = tuple[int, int, str, str]
"""A run's seq, n, family and workflow after the count."""


class HeadGone(Exception):
    """The checkpoint a commit leans on is not there, or not good: write in full."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A commit with everything encoded that can be, so that the writer has little left to do."""

    commit: Commit
    claim: Claim | None
    encoded: Encoded | None
    events: tuple[tuple[str, str | None, str], ...]
    """Kind, step, data of each event."""
    leans_on: CheckpointId | None = None
    """The stored checkpoint that has the chunks which are left out here."""


@dataclass(frozen=True)
class Scripts(Reading):
    """All verbs in one dialect."""

    def commit(self, given: Prepared) -> Script[int]:
        """Write a commit; returns the run's last seq."""
        commit = given.commit
        seq, n, family, workflow = yield from self._move(given)
        ids: dict[str, str] = {}
        batch: list[Statement] = [(self.sql.close, (commit.run, key)) for key in commit.closed]
        if commit.opened:
            rows = yield [*batch, *(self._open(commit.run, workflow, request) for request in commit.opened)]
            ids = {key: id_ for (key, id_), *_ in rows[len(batch) :]}
            batch = []
        if given.events:
            batch.append(self._events(given, seq, ids))
        if commit.effects:
            yield from self._effects(commit, n)
        if commit.standing is not None and commit.standing.phase in rules.TIMED:
            batch.append((self.sql.woken_by_answer, (commit.run, commit.run)))
        if commit.checkpoint is not None and given.encoded is not None:
            if given.leans_on is not None:
                batch.append((self.sql.good, (commit.run, given.leans_on)))
            rows = yield from self._checkpoint(commit.checkpoint, given.encoded, seq, family, batch)
            if given.leans_on is not None and not rows[-1]:
                raise HeadGone(given.leans_on)
        elif batch:
            yield batch
        return seq

    def _move(self, given: Prepared) -> Script[Moved]:
        """Fence, count up and settle the run row, and renew or drop the claim."""
        commit, claim = given.commit, given.claim
        n = 0 if commit.checkpoint is None else commit.checkpoint.n
        params = (len(commit.events), n, n, int(commit.checkpoint is None))
        if commit.standing is not None:
            params += self._standing(commit.standing)
        if claim is not None:
            return (yield from self._move_fenced(commit, claim, params))
        statement = (self.sql.move if commit.standing is None else self.sql.settle, (*params, commit.run))
        (rows,) = yield [statement]
        if not rows:
            _, rows = yield [self._new_run(commit), statement]
        return rows[0]

    def _move_fenced(self, commit: Commit, claim: Claim, params: tuple[Any, ...]) -> Script[Moved]:
        params = (*params, commit.run, claim.epoch)
        if commit.standing is None:
            extend = (self.sql.extend, (claim.ttl, commit.run, claim.token))
            moved, held = yield [(self.sql.move_fenced, params), extend]
        else:
            let_go = (self.sql.let_go, (commit.run, claim.token))
            moved, held = yield [(self.sql.settle_fenced, params), let_go]
        if not moved or not held:
            raise ClaimLost(run=commit.run)
        return moved[0]

    def _standing(self, standing: Standing) -> tuple[Any, ...]:
        retry = {"attempt": standing.attempt, "attempts": standing.attempts}
        return (
            standing.phase.value,
            self.dialect.moment(standing.wake_at),
            None if standing.output is None else text_of(standing.output),
            None if standing.error is None else standing.error.model_dump_json(),
            text_of(retry) if standing.phase is Phase.RETRYING else None,
            int(standing.phase in ENDED),
        )

    def _new_run(self, commit: Commit) -> Statement:
        checkpoint = commit.checkpoint
        named = (
            ("", "", "native") if checkpoint is None else (checkpoint.workflow, checkpoint.version, checkpoint.engine)
        )
        return self.sql.new_run, (commit.run, *named, commit.run, None)

    def _events(self, given: Prepared, seq: int, ids: dict[str, str]) -> Statement:
        run, first = given.commit.run, seq - len(given.events) + 1
        events = given.events
        if ids:
            drafts = rules.link_requests(given.commit.events, ids)  # type: ignore[arg-type]
            events = tuple((e.kind, e.step, text_of(e.data)) for e in drafts)
        params = [value for at, event in enumerate(events, first) for value in (run, at, *event)]
        return insert_events(self.dialect, len(events)), tuple(params)

    def _checkpoint(
        self, checkpoint: Checkpoint, encoded: Encoded, seq: int, family: str, rest: list[Statement]
    ) -> Script[list[Rows]]:
        chunks = insert_chunks(self.dialect, family, encoded.chunks)
        rows = yield [(self.sql.checkpoint, self._row(checkpoint, encoded, seq)), *chunks, *rest]
        if not rows[0]:
            raise Conflict("the run already has a checkpoint with this n", run=checkpoint.run, n=checkpoint.n)
        return rows

    def _row(self, c: Checkpoint, encoded: Encoded, seq: int) -> tuple[Any, ...]:
        named = (c.id, c.run, c.workflow, c.n, c.parent, c.version, c.engine, c.step, c.reason.value, c.label)
        counted = (c.format, encoded.size, c.clean, seq, c.flaw, len(c.requests))
        return (*named, self.dialect.moment(c.created), *counted, bound(encoded.root, rules.row_of(c)))

    def _open(self, run: RunId, workflow: str, r: Request) -> Statement:
        documents = (text_of(r.card), text_of(r.answer_schema), text_of(r.by), text_of(r.not_by))
        named = (new_request_id(), run, r.key, workflow, r.step, r.kind)
        timed = (self.dialect.moment(r.due), text_of(r.policy), self.dialect.moment(r.alarm))
        return self.sql.open, (*named, *documents, *timed, rules.risk_of(r.card))

    def _effects(self, commit: Commit, n: int) -> Script[None]:
        for effect in commit.effects:
            result = text_of(effect.result)
            (rows,) = yield [(self.sql.effect_result, (effect.state, result, n, commit.run, effect.key))]
            if not rows:
                yield [(self.sql.effect, effect_row(commit.run, effect, result, n))]

    def delete(self, run: RunId, checkpoint: CheckpointId) -> Script[bool]:
        """Remove a checkpoint; its chunks stay until a pruning, which knows what else needs them."""
        (rows,) = yield [(self.sql.delete, (run, checkpoint))]
        return bool(rows)

    def fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId, copy: CheckpointId) -> Script[None]:
        """Create a run whose first checkpoint has the content of another's."""
        # Locked first: pruning the origin must not run between the look and the copy.
        families, rows = yield [(self.sql.lock_run, (run,)), (self.sql.load, (run, checkpoint))]
        if not rows:
            raise NotFound(run=run, checkpoint=checkpoint)
        row = dict(zip((*COLUMNS, "body"), rows[0], strict=True))
        begun = (new_run, row["workflow"], row["version"], row["engine"], families[0][0], checkpoint)
        created, ((now,),) = yield [(self.sql.new_run, begun), (self.sql.now, ())]
        if not created:
            raise Conflict("the new run already exists: fork under a fresh run id", run=new_run)
        changes = {"id": copy, "run": new_run, "n": 1, "parent": checkpoint, "reason": Reason.FORK}
        origin = self._info(rows[0])
        body = bound(unbound(row["body"], rules.row_of(origin)), rules.row_of(origin.model_copy(update=changes)))
        created_at = self.dialect.moment(self.dialect.time(now))
        row.update(changes, reason=Reason.FORK.value, label=None, seq=0, created=created_at, body=body)
        yield [(self.sql.checkpoint, tuple(row.values())), (self.sql.move, (0, 1, 1, 1, new_run))]

    def quarantine(self, run: RunId, checkpoint: CheckpointId, reason: str) -> Script[None]:
        """Mark a checkpoint as not to be read."""
        (rows,) = yield [(self.sql.quarantine, (False, reason, run, checkpoint))]
        if not rows:
            raise NotFound(run=run, checkpoint=checkpoint)

    def label(self, run: RunId, checkpoint: CheckpointId, label: str | None) -> Script[None]:
        """Name a checkpoint, or take its name away."""
        (rows,) = yield [(self.sql.label, (label, run, checkpoint))]
        if not rows:
            raise NotFound(run=run, checkpoint=checkpoint)

    # Claims

    def claim(self, run: RunId, worker: str, ttl: float) -> Script[Claim | None]:
        """Take a due run that nobody live holds."""
        runs, claims = yield [(self.sql.look_at_run, (run,)), (self.sql.look_at_claim, (run,))]
        if not runs or not runs[0][0] or (claims and claims[0][0]):
            return None
        recovered, attempts = bool(claims), runs[0][1] + bool(claims)
        ((epoch,),) = (yield [(self.sql.next_epoch, (attempts, run))])[0]
        token = new_token()
        ((expires,),) = (yield [(self.sql.take, (run, token, worker, epoch, ttl, ttl))])[0]
        held = {"run": run, "token": token, "worker": worker, "epoch": epoch, "ttl": ttl}
        return Claim(**held, expires=self.dialect.time(expires), recovered=recovered, attempts=attempts)

    def renew(self, claim: Claim, ttl: float) -> Script[Claim]:
        """Extend a claim that is still live."""
        (rows,) = yield [(self.sql.extend_by_ttl, (ttl, ttl, claim.run, claim.token))]
        if not rows:
            raise ClaimLost(run=claim.run)
        return claim.model_copy(update={"expires": self.dialect.time(rows[0][0]), "ttl": ttl})

    def release(self, claim: Claim) -> Script[None]:
        """Drop a claim, if it is still there."""
        yield [(self.sql.release, (claim.run, claim.token))]

    def due(self, limit: int) -> Script[list[RunId]]:
        """Find runs to drive."""
        (rows,) = yield [(self.sql.due, (limit,))]
        return [RunId(id_) for (id_,) in rows]

    def expire(self, prefix: str) -> Script[None]:
        """End the claims of workers by the start of their names."""
        yield [(self.sql.expire, (prefix, prefix))]


def effect_row(run: RunId, effect: Effect, result: str, n: int) -> tuple[Any, ...]:
    """Return the parameters of a new effect row."""
    return run, effect.key, effect.step, effect.name, effect.once, effect.state, result, n


def text_of(value: Any) -> str:
    """Return JSON text."""
    return dumps(value).decode()
