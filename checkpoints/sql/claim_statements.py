"""The statements that find runs that are due and claim them, once for both databases.

Locks are taken in the order of all writers: the run's row, then its claim's. No claim of a worker waits for a row that
another transaction has: it is skipped, and found again. So it is with a workflow's places: their lock comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import chain

from checkpoints import rules
from checkpoints.sql.statements import IS_CURRENT, TIMED, Dialect, Statement, placeholders
from checkpoints.storage import Serves

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
        self.expire = say("UPDATE checkpoints_claim SET expires={now} WHERE substr(worker, 1, length(?)) = ?")


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
    skip = dialect.skip_locked if lock else ""
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
        f" WHERE r.phase='ready' AND r.for_workers{' AND r.priority <= ?' if capped else ''}{scope} AND NOT {had})"
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
    return dialect.sql(f"{found}{scope}{dialect.skip_locked}")


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
