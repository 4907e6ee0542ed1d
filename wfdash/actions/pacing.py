"""How often something is done: rows that failed, commands that are repeated, people, work in portions."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from typing import TypeVar

from django.db import InterfaceError, InternalError, OperationalError
from django.db.models import Case, Count, F, Model, Q, Value, When
from django.utils import timezone

from checkpoints.database.compiled import insert_if_free
from checkpoints.database.storage import write
from checkpoints.errors import lost_its_server
from checkpoints.models import IdempotencyKey, SignInTries
from checkpoints.models.fields import MomentField
from checkpoints.records import Json, JsonObject
from wfdash.access.signin.attempt_limits import PERIOD
from wfdash.access.viewer import Viewer
from wfdash.domain.errors import KeyReused, NotFound, TooOften

# Backoff for rows that a sweep could not process, so that those behind them get their turn.

log = logging.getLogger(__name__)

FIRST, LAST = 60.0, 3600.0
"""Seconds until a row is retried; doubled each time."""
MOST_ROWS = 500
"""Rows backed off at a time; beyond them the one that has waited longest is retried."""


def is_outage(error: Exception) -> bool:
    """Return whether the database is unavailable, full or read-only: that says nothing about any row."""
    failed = isinstance(error, OperationalError | InterfaceError | InternalError) or lost_its_server(error)
    # SQLite's errors about a row that another program wrote are not outages.
    return failed and "malformed JSON" not in str(error)


class SweepBackoff:
    """The failed rows of one kind of work. ``what``: the sentence for the log, with ``%s`` for the row's key."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._until: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def backed_off(self) -> list[str]:
        """Return the rows to leave out now."""
        now = self._clock()
        with self._lock:
            return [key for key, (until, _) in self._until.items() if until > now]

    def run_each(self, keys: Sequence[str], do: Callable[[str], int]) -> int:
        """Process each row separately. Returns the sum of the results."""
        return sum(self._run_one(key, do) for key in keys)

    def run_batch(self, keys: Sequence[str], do: Callable[[Sequence[str]], int]) -> int:
        """Process all rows at once or, if that fails, each separately. Returns how many were processed."""
        try:
            return do(keys)
        except Exception as error:
            if is_outage(error):
                raise
            return self.run_each(keys, lambda key: do([key]))

    def _run_one(self, key: str, do: Callable[[str], int]) -> int:
        try:
            done = do(key)
        except Exception as error:
            if is_outage(error):
                raise
            seconds = self._back_off(key)
            log.exception(f"{self._what}; retrying in %d s", key, seconds)
            return 0
        with self._lock:
            self._until.pop(key, None)
        return done

    def _back_off(self, key: str) -> float:
        with self._lock:
            _, before = self._until.pop(key, (0.0, 0.0))
            seconds = min(LAST, before * 2) or FIRST
            self._until[key] = (self._clock() + seconds, seconds)
            if len(self._until) > MOST_ROWS:
                del self._until[next(iter(self._until))]
            return seconds


# Idempotency keys: the same command with the same key, from the same person or token, takes effect once.

Made = TypeVar("Made", bound=Model)

KEYS_KEPT = timedelta(days=7)
"""How long a key is remembered. After that the same key is a new one."""
MOST_KEPT = 50_000
"""Keys stored per person: beyond this the oldest are removed early."""


class IdempotentCall:
    """A call under an idempotency key. ``previous_result``: the recorded ids if the key was used before."""

    def __init__(self, previous_result: JsonObject | None = None) -> None:
        self.previous_result = previous_result
        self.recorded: JsonObject = {}

    def record(self, **ids: Json) -> None:
        """Store the ids by which a repeated call finds the same result."""
        self.recorded |= ids


@contextmanager
def idempotent(viewer: Viewer, key: str | None, verb: str, command: Json, **known: Json) -> Iterator[IdempotentCall]:
    """Run a command once per person and key; enter it first in the action's transaction (``write()``). Yields the call.

    If ``call.previous_result`` is not None it was done: return what that names and change nothing. A concurrent second
    call waits for the first. ``KeyReused`` if the key came with another command. Without a key nothing is stored.
    ``known``: ids of what the command will make that are known already; ``record`` adds others.
    """
    if not key:
        yield IdempotentCall()
        return
    row = _key_row(viewer, key, verb, command)
    row.result = known
    if not insert_if_free(row):
        yield IdempotentCall(_stored_result(row))
        return
    call = IdempotentCall()
    yield call
    if call.recorded:
        mine = IdempotencyKey.objects.filter(person=row.person, key=row.key)
        mine.update(result={**known, **call.recorded})


def previous_result(viewer: Viewer, key: str | None, verb: str, command: Json) -> JsonObject | None:
    """Return what was recorded if this command was done already: for work before the transaction. ``KeyReused``."""
    row = _key_row(viewer, key, verb, command) if key else None
    known = IdempotencyKey.objects.filter(person=row.person, key=row.key).exists() if row else False
    return _stored_result(row) if row and known else None


def made_before(model: type[Made], pk: Json) -> Made:
    """Return what an earlier call with the same key has made. ``NotFound`` if it was deleted since."""
    found: Made | None = model._default_manager.filter(pk=pk).first()
    if found is None:
        raise NotFound("What this idempotency key has made was deleted. Use another key to make it again")
    return found


def forget_keys(limit: int = 100) -> int:
    """Remove keys that are older than ``KEYS_KEPT`` or beyond ``MOST_KEPT``, the oldest first. Returns how many."""
    old = IdempotencyKey.objects.filter(at__lt=timezone.now() - KEYS_KEPT).order_by("at").values_list("pk", flat=True)
    found = list(old[:limit]) or _beyond(limit)
    if found:
        with write():
            IdempotencyKey.objects.filter(pk__in=found).delete()
    return len(found)


def _beyond(limit: int) -> list[int]:
    """Return the oldest keys of people who have too many."""
    people = IdempotencyKey.objects.values("person").annotate(n=Count("pk")).filter(n__gt=MOST_KEPT).order_by()
    for person, count in people.values_list("person", "n")[:1]:
        oldest = IdempotencyKey.objects.filter(person=person).order_by("at", "pk").values_list("pk", flat=True)
        return list(oldest[: min(limit, count - MOST_KEPT)])
    return []


def _key_row(viewer: Viewer, key: str, verb: str, command: Json) -> IdempotencyKey:
    # With the key, so that values cannot be guessed from the row.
    digest = _hash(json.dumps([key, verb, command], sort_keys=True))
    # Each token has its own keys: the results of one are not shown to another, which may be narrower.
    own = _hash(f"{key}\n{viewer.token}" if viewer.token else key)
    return IdempotencyKey(person=viewer.name, key=own, verb=verb, digest=digest, at=timezone.now())


def _stored_result(row: IdempotencyKey) -> JsonObject:
    known = IdempotencyKey.objects.get(person=row.person, key=row.key)
    if known.digest != row.digest:
        raise KeyReused(verb=known.verb)
    result: JsonObject = known.result
    return result


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# Rate limits per person for actions that notify others or store rows: counted in the database, across all processes.

MOST_BY_VERB = {
    "comment": 300,
    "mention by comment": 1_000,
    "mention by ask": 1_000,
    "mention by reply": 1_000,
    "ask": 100,
    "reply": 300,
    "undo": 1_000,
    "assign": 2_000,
    "take": 1_000,
    "extend": 1_000,
    "amend": 300,
    "draft": 2_000,
    "presence": 5_000,
    "start": 10_000,
    "question": 600,
    "follow-up": 10_000,
    "signal": 10_000,
    "view": 500,
    "rule": 300,
    "look": 1_000,
    "second look": 1_000,
    "webhook": 100,
    "people": 1_000,
    "grant": 1_000,
    "token": 100,
    "push": 100,
    "export": 100,
}
"""Kind of action -> how often per ``PERIOD`` and person. A kind belongs to one action: see ``charge``."""
MOST_RECEIVED = {"accepted": 3_000, "refused": 300}
"""Deliveries that an incoming webhook takes, and refused ones that it logs, per ``PERIOD``."""


def charge(viewer: Viewer, kind: str, amount: int = 1) -> None:
    """Count an action in the caller's transaction (one query). ``TooOften`` if the person has done it too often
    recently.

    Two actions of one kind by one person wait for each other. Each action must therefore charge either before or always
    after it locks anything else, and have a kind of its own.
    """
    if viewer.user.pk is not None:  # The command line has no account, and no limits.
        _charge(f"act:{kind}:{viewer.user.pk}", MOST_BY_VERB[kind], amount)


def charge_hook(hook: str, kind: str) -> None:
    """Count a delivery to an incoming webhook in the caller's transaction (one query). ``TooOften``."""
    _charge(f"hook:{kind}:{hook}", MOST_RECEIVED[kind], 1)


def _charge(key: str, most: int, amount: int) -> None:
    now, row = timezone.now(), SignInTries.objects.filter(key=key)
    over = Q(began__lte=now - PERIOD)
    counted = row.filter(over | Q(count__lte=most - amount)).update(
        count=Case(When(over, then=Value(amount)), default=F("count") + amount),
        began=Case(When(over, then=Value(now, output_field=MomentField())), default=F("began")),
    )
    if counted:
        return
    SignInTries.objects.bulk_create([SignInTries(key=key, began=now)], ignore_conflicts=True)
    if row.filter(count__lte=most - amount).update(count=F("count") + amount) != 1:
        seconds = max(1, math.ceil(((row.values_list("began", flat=True)[0] + PERIOD) - now).total_seconds()))
        minutes = math.ceil(seconds / 60)
        wait = f"{minutes} minutes" if minutes > 1 else "a minute"
        period = PERIOD // timedelta(minutes=1)
        words = f"Limit reached: {most:,} times in {period} minutes. Nothing was changed. Try again in {wait}"
        raise TooOften(f"{words}.", retry_after=seconds)


REST_FACTOR = 3.0
"""Times as long as a portion took."""
LEAST, LONGEST = 0.02, 0.9
"""Seconds."""


def rest_after(seconds: float) -> float:
    """Return the seconds for others to write after a portion that took so many: most of the time is theirs."""
    return min(max(seconds * REST_FACTOR, LEAST), LONGEST)
