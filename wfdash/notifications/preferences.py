"""A person's notification preferences as JSON, and what follows from them: which channels, and when. Pure.

``{"channels": {"opened": ["browser", "mail"]}, "zone": "Europe/Rome", "quiet": ["22:00", "07:00"], "digest": "hourly" |
"daily", "digest_at": "08:00"}``; missing keys are as in ``KINDS``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

from django.db.models import ExpressionWrapper, F, IntegerField, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.expressions import BaseExpression
from django.utils import timezone

from checkpoints.database.alias import connection
from checkpoints.database.compiled import Placeholder, compiled_rows
from checkpoints.models import HumanRequest, Webhook
from checkpoints.models.fields import DatabaseNow, JsonField, JsonRows
from checkpoints.models.user_model import User
from checkpoints.records import frozen
from wfdash.domain.cron import known_zones

# Who hears of something that happened: people, with what they chose, and webhooks.

STARTER, WEBHOOKS, READ_AT = "starter_listens", "webhooks_listen", "listeners_read_at"
"""The annotations of a request that was looked up with ``listener_marks``."""
_NO_TEXT, _NO_KEY = Value(None, output_field=TextField()), Value(None, output_field=IntegerField())
_STARTER_COLUMNS = {"wishes": F("preference__data"), "browser": F("push_subscriptions__pk")}
_WEBHOOK_COLUMNS = ("id", "kinds", "workflow", "run_id")


@frozen
class Listeners:
    """The people by user id, each with their preferences and the ids of their subscribed browsers; the webhooks that
    may want it, with what ``hears`` needs of them. ``now``: the database's time.
    """

    now: datetime
    people: dict[int, tuple[Preferences, list[str]]] = field(default_factory=dict)
    webhooks: list[Webhook] = field(default_factory=list)


def listeners_of(people: Iterable[int], workflow: str, run: str, *, webhooks: bool) -> Listeners:
    """Return who of these people hears of something of that workflow and run, and which webhooks (one query, none where
    there is neither). Programs hear by webhooks alone: service accounts are left out.
    """
    wanted = list(people)
    found = Listeners(now=timezone.now())
    if not wanted and not webhooks:
        return found
    given = {f"user{place}": pk for place, pk in enumerate(wanted)} | {"workflow": workflow, "run": run}
    heard: dict[int, tuple[Preferences, list[str]]] = {}
    hooks, now = list[Webhook](), None
    for pk, data, target, about, only, at in _listeners(len(wanted), webhooks).all(**given):
        now = at or now
        if pk is None:
            hooks.append(Webhook(id=target, kinds=data, workflow=about, run_id=only))
            continue
        _, browsers = heard.setdefault(pk, (_preferences(data), []))
        browsers.extend([target] if target is not None else [])
    in_order = {pk: heard[pk] for pk in wanted if pk in heard}
    return Listeners(now=now or found.now, people=in_order, webhooks=hooks)


def listener_marks() -> dict[str, BaseExpression]:
    """Return who hears of what becomes of a request, as annotations of its look-up: of people the starter of its run.

    Two texts of JSON: ``[[preferences, id of a browser]]``, and of webhooks ``[[id, kinds, workflow, run]]``.
    """
    starter = _persons([OuterRef("run__created_by")]).annotate(**_STARTER_COLUMNS).values(*_STARTER_COLUMNS)
    hooks = _webhooks(OuterRef("workflow"), OuterRef("run")).values(*_WEBHOOK_COLUMNS)
    return {
        STARTER: JsonRows(starter, *_STARTER_COLUMNS),
        WEBHOOKS: JsonRows(hooks, *_WEBHOOK_COLUMNS),
        **({READ_AT: DatabaseNow()} if connection().vendor == "postgresql" else {}),
    }


def read_with(request: HumanRequest, people: Iterable[int], *, webhooks: bool) -> Listeners | None:
    """Return what ``listeners_of`` does of a request that was looked up with ``listener_marks``, without a query. None
    where it was not, or for others than the starter of its run.
    """
    starter, people = request.run.created_by_id, set(people)
    if not hasattr(request, STARTER) or not people <= {starter}:
        return None
    found = Listeners(now=getattr(request, READ_AT, None) or timezone.now())
    for data, browser in json.loads(getattr(request, STARTER) or "[]") if starter in people else ():
        _, browsers = found.people.setdefault(cast(int, starter), (_preferences(data and json.loads(data)), []))
        browsers.extend([browser] if browser is not None else [])
    for pk, kinds, workflow, run in json.loads(getattr(request, WEBHOOKS) or "[]") if webhooks else ():
        found.webhooks.append(Webhook(id=pk, kinds=json.loads(kinds), workflow=workflow, run_id=run))
    return found


def webhooks_for(workflows: Iterable[str], runs: Iterable[str]) -> QuerySet[Webhook]:
    """Return the active webhooks of these workflows, and the callbacks of these runs."""
    about = _about(["*", *workflows], Q(run__in=[run for run in runs if run]))
    return Webhook.objects.filter(about, active=True).defer("secret")


def hears(webhook: Webhook, kind: str, workflow: str, run: str) -> bool:
    """Return whether a webhook wants this kind of event of this run."""
    about = webhook.run_id == run if webhook.run_id else webhook.workflow in ("*", workflow)
    return about and (not webhook.kinds or kind in webhook.kinds)


def _preferences(data: Any) -> Preferences:
    return read_preferences(data) if data else Preferences()


def _persons(keys: list[Any]) -> QuerySet[User]:
    return User.objects.filter(pk__in=keys, service_account__isnull=True).order_by()


def _webhooks(workflow: Any, run: Any) -> QuerySet[Webhook]:
    return Webhook.objects.filter(_about(["*", workflow], Q(run=run)), active=True).order_by()


def _about(workflows: list[Any], callbacks: Q) -> Q:
    return Q(run=None, workflow__in=workflows) | callbacks


@compiled_rows
def _listeners(people: int, webhooks: bool) -> QuerySet[Any, Any]:
    """Return one row per person and browser, then one per webhook: user id, JSON, id, of a webhook its workflow and
    run, and the database's time where it has one of its own.
    """
    now = DatabaseNow() if connection().vendor == "postgresql" else _NO_TEXT
    wanted: list[Any] = [Placeholder(f"user{place}", User._meta.pk) for place in range(people)]
    data = ExpressionWrapper(F("preference__data"), JsonField())  # Of this or of a webhook: of either shape.
    persons, hooks = _persons(wanted), _webhooks(Placeholder("workflow"), Placeholder("run"))
    parts = [
        *([_columns(persons, now, F("pk"), data, F("push_subscriptions__pk"))] if people else []),
        *([_columns(hooks, now, _NO_KEY, F("kinds"), F("pk"), F("workflow"), F("run_id"))] if webhooks else []),
    ]
    return parts[0].union(*parts[1:], all=True) if parts[1:] else parts[0]


def _columns(rows: QuerySet[Any], now: Any, *facts: Any) -> QuerySet[Any, Any]:
    names = ("who", "json", "target", "about", "only")
    given = dict(zip(names, (*facts, *[_NO_TEXT] * (len(names) - len(facts))), strict=True))
    columns: QuerySet[Any, Any] = rows.annotate(now=now, **given).values_list(*names, "now")
    return columns


# The kinds of notifications, in the order in which the settings show them.

BROWSER, MAIL, PUSH, APPRISE, SLACK, WEBHOOK = "browser", "mail", "push", "apprise", "slack", "webhook"
PERSONAL = (BROWSER, MAIL, PUSH, APPRISE, SLACK)
"""The channels a person can choose; a webhook belongs to the installation."""


@dataclass(frozen=True)
class Kind:
    """A kind of notification. ``at_once``: too urgent for a digest. ``mail``: whether it is mailed by default.

    ``about``: request, run or schedule; webhooks call it ``request.opened``.
    """

    name: str
    label: str
    icon: str
    at_once: bool = False
    mail: bool = True
    about: str = "request"


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("opened", "New request for me", "inbox-arrow-down", mail=False),
        Kind("assigned", "Request assigned to me", "user-plus"),
        Kind("reminder", "Deadline approaching", "clock", at_once=True),
        Kind("snoozed", "Reminder I asked for", "bell", at_once=True),
        Kind("escalated", "Request escalated to me", "arrow-trending-up", at_once=True),
        Kind("mentioned", "Someone mentioned me", "at-symbol"),
        Kind("asked", "Question about a request", "chat-bubble-left-ellipsis"),
        Kind("replied", "Reply to my question", "chat-bubble-left-right"),
        Kind("taken", "Someone took over my request", "hand-raised", mail=False),
        Kind("unanswerable", "No one can answer a request", "bell", at_once=True),
        Kind("second", "Second look asked of me", "eye", mail=False),
        Kind("decided", "Followed request decided", "check-circle"),
        Kind("failed", "Run failed", "x-circle", about="run"),
        Kind("held", "Run held: its workflow has changed", "pause-circle", about="run"),
        Kind("late", "Schedule overdue", "calendar-days", about="schedule"),
        Kind("rule", "My rule was suspended", "pause-circle", at_once=True, about="rule"),
    )
}
WEBHOOK_KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("opened", "Request opened", "inbox-arrow-down"),
        Kind("answered", "Request answered", "check-circle"),
        Kind("expired", "Request not answered in time", "clock"),
        Kind("withdrawn", "Request closed without an answer", "minus-circle"),
        Kind("completed", "Run completed", "check-circle", about="run"),
        Kind("failed", "Run failed", "x-circle", about="run"),
        Kind("cancelled", "Run cancelled", "no-symbol", about="run"),
        Kind("waiting", "Run waiting", "user-circle", about="run"),
        Kind("held", "Run held", "pause-circle", about="run"),
        Kind("assigned", "Request assigned", "user-plus"),
        Kind("reminder", "Deadline approaching", "clock"),
        Kind("escalated", "Request escalated", "arrow-trending-up"),
        Kind("unanswerable", "No one can answer", "bell"),
        Kind("mentioned", "Someone mentioned", "at-symbol"),
        Kind("asked", "Question asked", "chat-bubble-left-ellipsis"),
        Kind("replied", "Question answered", "chat-bubble-left-right"),
        Kind("taken", "Request taken over", "hand-raised"),
        Kind("late", "Schedule overdue", "calendar-days", about="schedule"),
    )
}
"""What a webhook can be sent, as ``request.opened``: one delivery for each thing that happened, never one for many."""
NAMED_FOR_WEBHOOKS = {"decided": "answered"}
FED = frozenset({"withdrawn", "completed", "failed", "cancelled", "waiting"})
"""What webhooks hear of from the events of runs (``actions.hooks.webhooks``), not from people's notifications."""


def type_of(kind: str) -> str:
    """Return the type that a webhook is sent, such as ``request.opened``."""
    return f"{WEBHOOK_KINDS[kind].about if kind in WEBHOOK_KINDS else 'webhook'}.{kind}"


OFFERED_AT_FIRST = (BROWSER, MAIL, APPRISE)
"""The channels that preferences without ``offered`` were chosen from."""
DIGESTS = {"": "Immediately", "hourly": "Once an hour", "daily": "Once a day"}


@frozen
class Preferences:
    """One person's choices. Times of day are in their ``zone``."""

    channels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    offered: frozenset[str] = frozenset(PERSONAL)
    """The channels there were to choose from: one that is new since then has its default."""
    zone: str = "UTC"
    quiet: tuple[time, time] | None = None
    digest: str = ""
    digest_at: time = time(8)

    def wants(self, kind: str, channel: str) -> bool:
        """Return whether notifications of this kind go to this channel."""
        chosen = self.channels.get(kind)
        if chosen is not None and channel in self.offered:
            return channel in chosen
        return channel in {BROWSER, PUSH, APPRISE, SLACK} or (channel == MAIL and KINDS[kind].mail)

    def due(self, kind: str, channel: str, now: datetime) -> datetime:
        """Return when to send it: now, with the next digest, or after the quiet hours."""
        at = now
        if channel in (MAIL, SLACK) and self.digest and not KINDS[kind].at_once:
            at = self._next_digest(now)
        return self._after_quiet(at)

    def is_quiet(self, now: datetime) -> bool:
        """Return whether this is within the quiet hours."""
        return self._after_quiet(now) > now

    def stored(self) -> dict[str, Any]:
        """Return the preferences as JSON."""
        return {
            "channels": {kind: sorted(channels) for kind, channels in self.channels.items()},
            "offered": sorted(self.offered),
            "zone": self.zone,
            "quiet": [text_of(moment) for moment in self.quiet] if self.quiet else [],
            "digest": self.digest,
            "digest_at": text_of(self.digest_at),
        }

    def _next_digest(self, now: datetime) -> datetime:
        if self.digest == "hourly":
            return now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        return self._next_time(self.digest_at, now)

    def _after_quiet(self, now: datetime) -> datetime:
        if self.quiet is None or self.quiet[0] == self.quiet[1]:
            return now
        begin, end = self.quiet
        clock = now.astimezone(ZoneInfo(self.zone)).time()
        inside = begin <= clock < end if begin < end else clock >= begin or clock < end
        return self._next_time(end, now) if inside else now

    def _next_time(self, clock: time, now: datetime) -> datetime:
        """Return the next time after ``now`` at which clocks in the zone show this."""
        zone = ZoneInfo(self.zone)
        day = now.astimezone(zone).date()
        moments = (datetime.combine(day + timedelta(days=n), clock, zone).astimezone(UTC) for n in range(3))
        return next(moment for moment in moments if moment > now)


def read_preferences(data: Mapping[str, Any]) -> Preferences:
    """Return stored preferences; unknown values count as missing."""
    channels = {
        kind: frozenset(chosen) & frozenset(PERSONAL)
        for kind, chosen in data.get("channels", {}).items()
        if kind in KINDS
    }
    zone = data.get("zone", "UTC")
    quiet = [read_time(text) for text in data.get("quiet", [])]
    return Preferences(
        channels=channels,
        zone=zone if zone in known_zones() else "UTC",
        offered=frozenset(data.get("offered") or (OFFERED_AT_FIRST if channels else PERSONAL)),
        quiet=(quiet[0], quiet[1]) if len(quiet) == 2 else None,
        digest=data.get("digest", "") if data.get("digest") in DIGESTS else "",
        digest_at=read_time(data.get("digest_at", "08:00")),
    )


def read_time(text: str) -> time:
    """Return the time of day that ``"22:00"`` names. ``ValueError``."""
    return datetime.strptime(text, "%H:%M").time()  # noqa: DTZ007 (a time of day has no zone)


def text_of(clock: time) -> str:
    """Return a time of day in the form ``read_time`` reads."""
    return clock.strftime("%H:%M")
