"""The claims of runs as generators: who finds which runs, and who may run one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from itertools import chain, groupby, zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

from checkpoints import rules
from checkpoints.errors import ClaimLost, NotFound
from checkpoints.ids import CheckpointId, RunId, new_token
from checkpoints.records import Claim, Phase
from checkpoints.sql.reads import ReadScripts, Script
from checkpoints.sql.statements import (
    IS_CURRENT,
    TIMED,
    Dialect,
    Rows,
    Statement,
    current_tokens,
    extend_many,
    placeholders,
    revive_many,
)
from checkpoints.storage import Serves

ROUNDS = 3
"""How often a batch is filled up when other workers had some of the runs that it found."""
SKIPPED_SECONDS = (0.01, 0.03, 0.06, 0.1, 0.3)
"""The pauses between the renewals of a claim whose run another transaction has locked."""


class ClaimedRun(NamedTuple):
    """A claim, and the stored facts of its run: workflow, version, input and n; empty where they were not read."""

    claim: Claim
    facts: tuple[Any, ...] = ()


class Renewals(NamedTuple):
    """What became of claims, by their tokens, but for those that were renewed.

    ``skipped``: expired, and nothing is known of them, as another transaction has their runs locked.
    """

    lost: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()


class SideStatement(NamedTuple):
    """Something else to be read or written in the transaction of a look, in the database's own dialect."""

    statement: Statement
    hear: Callable[[Rows], None]
    """Called with its rows."""


class DueLook(NamedTuple):
    """What a worker finds that looks whether there is something to do."""

    now: datetime
    """The database's time, aware, UTC."""
    expiry: datetime | None = None
    """When the next claim expires, of any worker, unless it is renewed; None without one."""
    wake: datetime | None = None
    """When the next run is to wake; None without one."""
    is_any_due: bool = False
    """Whether there is a run to claim that is no suspect."""
    suspects: tuple[RunId, ...] = ()
    """Runs to claim that may kill their workers."""
    beside: Sequence[Rows] = ()
    """The rows of the statements that went with it."""


class FreeRun(NamedTuple):
    """A locked run without a live claim. ``before``: whose expired claim it has, None if it has none."""

    run: RunId
    attempts: int
    """Takeovers in a row once it is claimed."""
    epoch: int
    """After the claim."""
    recovered: bool
    facts: tuple[Any, ...] = ()

    @property
    def workflow(self) -> str:
        """Return the run's workflow."""
        return text_of(self.facts[0])


async def renew_until_sure(
    renew: Callable[[Sequence[Claim]], Awaitable[Renewals]], claims: Sequence[Claim]
) -> frozenset[str]:
    """Renew claims, the skipped ones again and again for half a second, and return the tokens of those that are lost.

    What is skipped until then counts as lost: no one may rely on a claim that was not renewed.
    """
    found = await renew(claims)
    lost = found.lost
    for pause in SKIPPED_SECONDS:
        if not found.skipped:
            break
        await asyncio.sleep(pause)
        found = await renew([claim for claim in claims if claim.token in found.skipped])
        lost |= found.lost
    return lost | found.skipped


def limited_among(rows: Rows, serves: Serves | None) -> set[str]:
    """Return the workflows of these runs that have a limit."""
    return {text_of(row[5]) for row in rows} & serves.limits.keys() if serves is not None else set()


def text_of(stored: Any) -> str:
    """Return a text that may have been read as bytes, whatever they are."""
    return str(stored, "utf-8", "replace") if isinstance(stored, bytes) else str(stored)


class ClaimScripts(ReadScripts):
    """Finding, claiming, renewing and releasing, in one dialect."""

    @property
    def claims(self) -> ClaimStatements:
        """Return the fixed statements about claims."""
        return claim_statements(self.dialect)

    def claim_runs(
        self,
        runs: Sequence[RunId],
        worker: str,
        ttl: float,
        suspects: bool,
        serves: Serves | None = None,
        takeover: bool = True,
    ) -> Script[list[ClaimedRun]]:
        """Claim those of these runs that are due, have no live claim, and are not locked by another transaction.

        Without ``takeover``: none that has an expired claim.
        """
        count, (scope, scoped) = len(runs), scope_of(serves)
        lock = (lock_due(self.dialect, count, scope), (*runs, *scoped))
        locked, rows = yield [lock, (look_at(self.dialect, count, takeover=takeover), (*runs,))]
        mine = {run for (run,) in locked}
        rows = [row for row in rows if row[0] in mine]
        return (yield from self._claim(rows, worker, ttl, suspects, serves, takeover))

    def claim_due(
        self, worker: str, ttl: float, limit: int, most: int | None, serves: Serves | None, takeover: bool = True
    ) -> Script[list[ClaimedRun]]:
        """Claim runs that are due in their order, none that is a suspect; ``most``: of these priorities at most.

        Without ``takeover``: none that has an expired claim.
        """
        serves, kinds = (yield from self._with_places(serves)), 3 if takeover else 2
        claimed: list[ClaimedRun] = []
        rounds = ROUNDS
        while rounds:
            scope, scoped = scope_of(serves)
            find = select_due(
                self.dialect, suspect=False, lock=True, capped=most is not None, scope=scope, takeover=takeover
            )
            wanted = limit - len(claimed)
            (found,) = yield [(find, (*([] if most is None else [most]), *(*scoped, wanted) * kinds, wanted))]
            if found:
                place = {run: at for at, (run,) in enumerate(found)}
                (rows,) = yield [(look_at(self.dialect, len(place), takeover=takeover), (*place,))]
                rows = sorted(rows, key=lambda row: place[row[0]])
                batch = yield from self._claim(rows, worker, ttl, False, serves, takeover)
                claimed += batch
                full = limited_among(rows, serves) if len(batch) < len(rows) else set()
                if serves is not None and full:
                    # What is behind them is looked for again: they must not keep other workflows back.
                    serves, rounds = serves.without(full), rounds + 1
            if len(found) < wanted or len(claimed) == limit:
                break
            rounds -= 1
        return claimed

    def _with_places(self, serves: Serves | None) -> Script[Serves | None]:
        """Return what is served without the workflows that have as many live claims as they may have."""
        if serves is None or not serves.limits:
            return serves
        (claims,) = yield [(count_live(self.dialect, len(serves.limits)), (*serves.limits,))]
        return serves.without([name for name, count in claims if count >= serves.limits[name]])

    def _in_places(self, free: list[FreeRun], serves: Serves | None, takeover: bool) -> Script[list[FreeRun]]:
        """Return those of these runs for which there is a place in their workflow: of each first those that had one.

        No worker waits for another: where one is counting the same places, none is taken.
        """
        limits = serves.limits if serves else {}
        names = sorted({one.workflow for one in free} & limits.keys()) if limits else []
        if not names:
            return free
        locks = lock_places(self.dialect, names)
        counted = count_places(self.dialect, len(names), len(free), takeover=takeover)
        count = counted, (*names, *(one.run for one in free))
        # Counted in a statement behind the locks: it sees what those before have committed.
        *locked, claims = yield [*locks, count]
        others: dict[str, int] = dict(claims)
        places: dict[str, int] = {}
        for name, rows in zip_longest(names, locked):
            mine = rows is None or rows[0][0] == 1
            places[name] = max(0, limits[name] - others.get(name, 0)) if mine else 0
        taken: Counter[str] = Counter()
        placed = set()
        for one in sorted(free, key=lambda one: not one.recovered):
            taken[one.workflow] += 1
            if one.workflow not in places or taken[one.workflow] <= places[one.workflow]:
                placed.add(one.run)
        return [one for one in free if one.run in placed]

    def _claim(
        self, rows: Rows, worker: str, ttl: float, suspects: bool, serves: Serves | None, takeover: bool
    ) -> Script[list[ClaimedRun]]:
        """Claim those of these locked runs that no one has, as far as there are places. Suspects only if wanted."""
        free: list[FreeRun] = []
        for run, attempts, epoch, live, before, *facts in rows:
            again = rules.taken_over(attempts, before, worker)
            if not live and (suspects or not rules.is_suspect(again)):
                free.append(FreeRun(RunId(run), again, epoch + 1, before is not None, tuple(facts)))
        free = yield from self._in_places(free, serves, takeover)
        return (yield from self._insert_claims(free, worker, ttl)) if free else []

    def _insert_claims(self, free: Sequence[FreeRun], worker: str, ttl: float) -> Script[list[ClaimedRun]]:
        by_attempts = groupby(sorted(free, key=attrgetter("attempts")), key=attrgetter("attempts"))
        batches = [(attempts, [one.run for one in group]) for attempts, group in by_attempts]
        begin = [(next_epochs(self.dialect, len(runs)), (attempts, *runs)) for attempts, runs in batches]
        tokens = [new_token() for _ in free]
        rows = ((one.run, token, worker, one.epoch, ttl, ttl) for one, token in zip(free, tokens, strict=True))
        insert = (insert_claims(self.dialect, len(free)), tuple(chain.from_iterable(rows)))
        expiries: dict[str, Any] = dict((yield [*begin, insert])[-1])
        return [
            ClaimedRun(
                Claim(
                    run=one.run,
                    token=token,
                    worker=worker,
                    epoch=one.epoch,
                    ttl=ttl,
                    expires=self.dialect.time(expiries[one.run]),
                    recovered=one.recovered,
                    attempts=one.attempts,
                ),
                one.facts,
            )
            for one, token in zip(free, tokens, strict=True)
        ]

    def take(
        self, run: RunId, worker: str, ttl: float, head: CheckpointId | None, *, stopped: bool = False
    ) -> Script[Claim]:
        """Claim a run, due or not, without a live claim and whose newest checkpoint is ``head``, and return the
        claim.
        """
        looks = [(self.claims.run_to_take, (run,)), (self.claims.claim_holder, (run,)), (self.sql.head, (run,))]
        runs, claims, heads = yield looks
        if not runs:
            raise NotFound("Run not found", run=run)
        _, attempts, epoch, phase, acted_by = runs[0]
        for holder, expires, live in claims:
            if live:
                rules.refuse_held(run, holder, self.dialect.time(expires))
        if not stopped:
            rules.refuse_stopped(run, Phase.stored(phase), acted_by)
        rules.refuse_moved(run, heads[0][0] if heads else None, head)
        again = rules.taken_over(attempts, claims[0][0] if claims else None, worker)
        free = FreeRun(run, again, epoch + 1, recovered=bool(claims))
        return (yield from self._insert_claims([free], worker, ttl))[0].claim

    def renew(self, claim: Claim, ttl: float) -> Script[Claim]:
        """Extend a claim that is still live, and return it."""
        (rows,) = yield [(self.sql.extend_by_ttl, (ttl, ttl, claim.run, claim.token))]
        if not rows:
            raise ClaimLost(run=claim.run)
        return claim.model_copy(update={"expires": self.dialect.time(rows[0][0]), "ttl": ttl})

    def renew_many(self, claims: Sequence[Claim], ttl: float) -> Script[Renewals]:
        """Extend claims, also expired ones of runs that no one has taken."""
        tokens = tuple(str(claim.token) for claim in claims)
        extend = (extend_many(self.dialect, len(tokens)), (ttl, ttl, *tokens))
        _, rows = yield [extend, (current_tokens(self.dialect, len(tokens)), tokens)]
        late = tuple(frozenset(tokens) - {token for token, live in rows if live})
        if not late:
            return Renewals()
        revive = (revive_many(self.dialect, len(late)), (ttl, ttl, *late, *late))
        _, rows = yield [revive, (current_tokens(self.dialect, len(late)), late)]
        skipped = frozenset(token for token, live in rows if not live)
        return Renewals(lost=frozenset(late) - {token for token, _ in rows}, skipped=skipped)

    def release(self, claim: Claim) -> Script[None]:
        """Drop a claim, if it is still there."""
        yield [(self.sql.release, (claim.run, claim.token))]

    def take_turn(self, name: str, every: float) -> Script[float]:
        """Take the turn of a name, or return in how many seconds it comes."""
        code = sha256(f"turn {name}".encode()).hexdigest()
        taken, ((until, now),) = yield [(self.claims.take_turn, (code, every)), (self.claims.turn, (code,))]
        return 0 if taken else max((self.dialect.time(until) - self.dialect.time(now)).total_seconds(), 0.001)

    def trust(self, claim: Claim) -> Script[None]:
        """Reset a run's count of takeovers."""
        yield [(self.claims.trust, (claim.run, claim.epoch))]

    def due(self, limit: int, suspect: bool | None, serves: Serves | None) -> Script[list[RunId]]:
        """Return runs that are due, in the order in which they are taken."""
        scope, scoped = scope_of((yield from self._with_places(serves)))
        find = select_due(self.dialect, suspect=suspect, lock=False, scope=scope)
        (rows,) = yield [(find, (*(*scoped, limit) * 3, limit))]
        return [RunId(id_) for (id_,) in rows]

    def look(self, suspects: int, serves: Serves | None, beside: Sequence[Statement] = ()) -> Script[DueLook]:
        """Return what a worker finds that looks whether there is something to do."""
        scope, scoped = scope_of((yield from self._with_places(serves)))
        finds = [
            (select_due(self.dialect, suspect=suspect, lock=False, scope=scope), (*(*scoped, limit) * 3, limit))
            for suspect, limit in ((False, 1), (True, suspects))
        ]
        # The clock last: it is right when the answer comes.
        due, found, *rows, (times,) = yield [*finds, *beside, (self.sql.clock, ())]
        now, expiry, wake = (rules.time_or_none(self.dialect.time, time) for time in times)
        return DueLook(now, expiry, wake, bool(due), tuple(RunId(id_) for (id_,) in found), rows)

    def expire(self, prefix: str) -> Script[list[RunId]]:
        """End the claims of workers by the start of their names, and return the runs."""
        (rows,) = yield [(self.claims.expire, (prefix, prefix))]
        return [RunId(run) for (run,) in rows]


# The statements that find runs that are due and claim them, once for both databases.

TAKEOVER_DELAYS = " ".join(f"WHEN {attempts} THEN {seconds}" for attempts, seconds in enumerate(rules.TAKEOVER_DELAYS))
TAKEOVER_DELAY = f"CASE r.attempts {TAKEOVER_DELAYS} ELSE {rules.TAKEOVER_DELAYS[-1]} END"
"""Seconds that a run must have been without a live claim before it is taken over."""
SINCE = "COALESCE(r.ready_at, r.created)"
"""Since when a run is ready: the index of such runs has it in these words."""

PLACE_SECONDS = 20
"""So long an expired claim keeps its place in a workflow with a limit, unless its own run is taken over."""
AWAY_SECONDS = 86_400
"""So long it keeps it for a worker that was away: in an outage no one could renew, and now all do."""


class ClaimStatements:
    """The fixed statements in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        say = dialect.sql
        self.run_to_take = say(
            "SELECT r.id, r.attempts, r.epoch, phase, acted_by FROM checkpoints_run r WHERE id=?{lock}"
        )
        self.claim_holder = say(
            "SELECT worker, expires, CASE WHEN expires > {now} THEN 1 ELSE 0 END FROM checkpoints_claim WHERE run_id=?"
        )
        self.trust = say("UPDATE checkpoints_run SET attempts=0 WHERE id=? AND epoch=?")
        # Beside the leases of leaders: a turn is one that no one renews.
        self.take_turn = say(
            "INSERT INTO checkpoints_leader AS t (code, worker, until) VALUES (?, '', {later})"
            " ON CONFLICT (code) DO UPDATE SET until=excluded.until WHERE t.until <= {now} RETURNING 1"
        )
        self.turn = say("SELECT until, {now} FROM checkpoints_leader WHERE code=?")
        self.expire = say(
            "UPDATE checkpoints_claim SET expires={now} WHERE substr(worker, 1, length(?)) = ? RETURNING run_id"
        )


@lru_cache(maxsize=8)
def claim_statements(dialect: Dialect) -> ClaimStatements:
    """Return the fixed statements in a dialect."""
    return ClaimStatements(dialect)


def resting(dialect: Dialect) -> str:
    """Return the time before which a claim must have expired for its run ``r`` to be taken over."""
    return dialect.later.replace("?", f"-({TAKEOVER_DELAY})")


def scope_of(serves: Serves | None) -> tuple[str, tuple[str, ...]]:
    """Return the condition on runs ``r`` that a worker serves, empty without one, and its parameters."""
    if serves is None:
        return "", ()
    if not serves.workflows:
        return " AND 1=0", ()
    words = f" AND r.workflow IN ({placeholders(len(serves.workflows))})"
    if serves.others:
        words += f" AND NOT ({' OR '.join(['r.workflow=? AND r.version=?'] * len(serves.others))})"
    return words, (*serves.workflows, *chain.from_iterable(serves.others))


@lru_cache(maxsize=64)
def select_due(
    dialect: Dialect, *, suspect: bool | None, lock: bool, capped: bool = False, scope: str = "", takeover: bool = True
) -> str:
    """Return the statement that selects runs that are due, in the order in which they are taken.

    ``suspect``: only those that may end their workers, or only the others. ``lock``: lock them, without those that
    others have locked. ``capped``: its first parameter is the highest priority of those that are ready. Then come three
    times the parameters of ``scope`` (see ``scope_of``) and how many it looks at of that kind, and how many it returns.
    Without ``takeover`` it leaves out runs with expired claims, and those parameters come twice.
    """
    again = f"r.attempts {'>=' if suspect else '<'} {rules.SUSPECT}"
    over = f"r.attempts {'>=' if suspect else '<'} {rules.SUSPECT - 1}"
    had = "EXISTS (SELECT 1 FROM checkpoints_claim c WHERE c.run_id=r.id"
    chosen = {name: "" if suspect is None else f" AND {words}" for name, words in (("again", again), ("over", over))}
    # One that a worker had before may be what ended it.
    either = "" if suspect is None else f" AND CASE WHEN {had}) THEN {over} ELSE {again} END"
    skip, scope = dialect.skip_locked if lock else "", f"{dialect.sound}{scope}"
    limit = "LIMIT ?"
    # Not the bare column: by the phase, every waiting run would be read to find those whose time has come.
    timed = f"COALESCE(r.phase, '') IN {TIMED}"
    abandoned, others, lapsed = "", "", ""
    if takeover:
        lapsed, others = f" AND c.expires > {resting(dialect)}", " UNION ALL SELECT * FROM abandoned"
        abandoned = (
            f", abandoned AS (SELECT r.id, {rules.Priority.TIMED:d} AS priority, {SINCE} AS since"
            " FROM checkpoints_claim c CROSS JOIN checkpoints_run r WHERE r.id=c.run_id"
            f" AND c.expires <= {resting(dialect)} AND r.phase='ready' AND r.for_workers{scope}{chosen['over']}"
            f" ORDER BY c.expires {limit}{skip.replace('UPDATE', 'UPDATE OF r')})"
        )
    return dialect.sql(
        f"WITH fresh AS (SELECT r.id, r.priority AS priority, {SINCE} AS since"
        f" FROM checkpoints_run r{dialect.by_index.format('run_to_take')}"
        f" WHERE r.phase='ready' AND {dialect.for_workers}{' AND r.priority <= ?' if capped else ''}{scope}"
        f" AND NOT {had})"
        f"{chosen['again']} ORDER BY r.priority DESC, {SINCE} {limit}{skip}),"
        f" woken AS (SELECT r.id, {rules.Priority.TIMED:d} AS priority, r.wake_at AS since"
        f" FROM checkpoints_run r{dialect.by_index.format('run_to_wake')}"
        f" WHERE r.wake_at <= {{started}} AND r.for_workers AND {timed}{scope}"
        f" AND NOT {had}{lapsed}){either} ORDER BY r.wake_at {limit}{skip})"
        f"{abandoned} SELECT id FROM (SELECT * FROM fresh UNION ALL SELECT * FROM woken{others}) found"
        f" ORDER BY priority DESC, since {limit}"
    )


@lru_cache(maxsize=512)
def lock_due(dialect: Dialect, count: int, scope: str = "") -> str:
    """Return the statement that locks those of ``count`` runs that are due, without those that others have locked."""
    due = f"(r.phase='ready' OR (r.phase IN {TIMED} AND r.wake_at <= {{now}}))"
    found = f"SELECT r.id FROM checkpoints_run r WHERE r.id IN ({placeholders(count)}) AND r.for_workers AND {due}"
    return dialect.sql(f"{found}{dialect.sound}{scope}{dialect.skip_locked}")


@lru_cache(maxsize=512)
def look_at(dialect: Dialect, count: int, *, takeover: bool = True) -> str:
    """Return the statement that reads of ``count`` locked runs what is decided by, and what running them needs.

    It is a statement of its own, after the lock: another worker may have claimed them while this one waited. Without
    ``takeover`` an expired claim counts as a live one.
    """
    live = f"c.expires > {resting(dialect)}" if takeover else "c.run_id IS NOT NULL"
    # One text that cannot be read must not keep the whole batch from being claimed.
    facts = ", ".join(dialect.raw_text.format(f"r.{name}") for name in ("workflow", "version", "input"))
    return dialect.sql(
        f"SELECT r.id, r.attempts, r.epoch, CASE WHEN {live} THEN 1 ELSE 0 END,"
        f" CASE WHEN {IS_CURRENT} THEN c.worker END, {facts}, r.n"
        " FROM checkpoints_run r LEFT JOIN checkpoints_claim c ON c.run_id=r.id"
        f" WHERE r.id IN ({placeholders(count)})"
    )


@lru_cache(maxsize=512)
def next_epochs(dialect: Dialect, count: int) -> str:
    """Return the statement that begins the next epoch of ``count`` runs, with the number of their takeovers first.

    A run that its time woke is ready since then; where it is ready already, its place in the order stays.
    """
    was = "CASE WHEN phase='ready' THEN {} ELSE {} END"
    return dialect.sql(
        f"UPDATE checkpoints_run SET epoch=epoch+1, attempts=?, phase='ready', wake_at=NULL,"
        f" priority={was.format('priority', int(rules.Priority.TIMED))},"
        f" ready_at={was.format('ready_at', 'COALESCE(wake_at, {now})')} WHERE id IN ({placeholders(count)})"
    )


@lru_cache(maxsize=512)
def insert_claims(dialect: Dialect, count: int) -> str:
    """Return the statement that inserts ``count`` claims over expired ones, and returns runs and expiries."""
    rows = ",".join(["(?,?,?,?,?,{later})"] * count)
    return dialect.sql(
        f"INSERT INTO checkpoints_claim (run_id, token, worker, epoch, ttl, expires) VALUES {rows}"
        " ON CONFLICT (run_id) DO UPDATE SET token=excluded.token, worker=excluded.worker, epoch=excluded.epoch,"
        " ttl=excluded.ttl, expires=excluded.expires RETURNING run_id, expires"
    )


@lru_cache(maxsize=64)
def count_live(dialect: Dialect, workflows: int) -> str:
    """Return the statement that counts the live claims of so many workflows."""
    return _count(dialect, "{now}", workflows)


@lru_cache(maxsize=512)
def count_places(dialect: Dialect, workflows: int, but: int, *, takeover: bool = True) -> str:
    """Return the statement that counts the claims that have a place in so many workflows, but for ``but`` runs' own.

    One that has expired lately has it still: its worker may be about to renew it. Without ``takeover`` lately is long.
    """
    since = dialect.later.replace("?", str(-PLACE_SECONDS if takeover else -AWAY_SECONDS))
    return _count(dialect, since, workflows, f" AND r.id NOT IN ({placeholders(but)})")


def _count(dialect: Dialect, since: str, workflows: int, more: str = "") -> str:
    return dialect.sql(
        "SELECT r.workflow, COUNT(*) FROM checkpoints_claim c JOIN checkpoints_run r ON r.id=c.run_id"
        f" WHERE c.expires > {since} AND r.workflow IN ({placeholders(workflows)}){more} GROUP BY r.workflow"
    )


def lock_places(dialect: Dialect, workflows: Sequence[str]) -> list[Statement]:
    """Return the statements that keep others from counting the claims of these workflows; none where that is not
    needed.
    """
    said = dialect.sql(dialect.try_lock)
    return [(said, (place_lock(name),)) for name in workflows] if said else []


def place_lock(workflow: str) -> int:
    """Return the number that locks the places of a workflow: 63 bits of a hash, as advisory locks are shared by all."""
    return int.from_bytes(sha256(f"wfdash places {workflow}".encode()).digest()[:8]) >> 1
