"""Rate limits per person for actions that notify others or store rows: counted in the database, across all processes.

The limits are far beyond what people do; they stop loops. The count is in the action's own transaction, so a refused
action is not counted.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from django.db.models import Case, F, Q, Value, When
from django.utils import timezone

from checkpoints.models import SignInTries
from checkpoints.models.fields import MomentField
from wfdash.access.viewer import Viewer
from wfdash.errors import TooOften
from wfdash.signin.attempt_limits import PERIOD

MOST = {
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
    "follow-up": 10_000,
    "signal": 10_000,
    "view": 500,
    "look": 1_000,
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
        _charge(f"act:{kind}:{viewer.user.pk}", MOST[kind], amount)


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
        raise _too_often(most, row.values_list("began", flat=True)[0] + PERIOD, now)


def _too_often(most: int, until: datetime, now: datetime) -> TooOften:
    seconds = max(1, math.ceil((until - now).total_seconds()))
    minutes = math.ceil(seconds / 60)
    wait = f"{minutes} minutes" if minutes > 1 else "a minute"
    period = PERIOD // timedelta(minutes=1)
    words = f"Limit reached: {most:,} times in {period} minutes. Nothing was changed. Try again in {wait}"
    return TooOften(f"{words}.", retry_after=seconds)
