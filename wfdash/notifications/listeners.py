"""Who hears of something that happened: people, with what they chose, and webhooks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from django.db.models import F, IntegerField, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.expressions import BaseExpression
from django.utils import timezone

from checkpoints.database.alias import connection
from checkpoints.database.compiled import Placeholder, compiled_rows
from checkpoints.models import HumanRequest, Webhook
from checkpoints.models.fields import DatabaseNow, JsonRows
from checkpoints.models.user_model import User
from wfdash.notifications.preferences import Preferences, read_preferences

STARTER, WEBHOOKS, READ_AT = "starter_listens", "webhooks_listen", "listeners_read_at"
"""The annotations of a request that was looked up with ``listener_marks``."""
_NO_TEXT, _NO_KEY = Value(None, output_field=TextField()), Value(None, output_field=IntegerField())
_STARTER_COLUMNS = {"wishes": F("preference__data"), "browser": F("push_subscriptions__pk")}
_WEBHOOK_COLUMNS = ("id", "kinds", "workflow", "run_id")


@dataclass(frozen=True, kw_only=True)
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
    persons, hooks = _persons(wanted), _webhooks(Placeholder("workflow"), Placeholder("run"))
    parts = [
        *([_columns(persons, now, F("pk"), F("preference__data"), F("push_subscriptions__pk"))] if people else []),
        *([_columns(hooks, now, _NO_KEY, F("kinds"), F("pk"), F("workflow"), F("run_id"))] if webhooks else []),
    ]
    return parts[0].union(*parts[1:], all=True) if parts[1:] else parts[0]


def _columns(rows: QuerySet[Any], now: Any, *facts: Any) -> QuerySet[Any, Any]:
    names = ("who", "json", "target", "about", "only")
    given = dict(zip(names, (*facts, *[_NO_TEXT] * (len(names) - len(facts))), strict=True))
    columns: QuerySet[Any, Any] = rows.annotate(now=now, **given).values_list(*names, "now")
    return columns
