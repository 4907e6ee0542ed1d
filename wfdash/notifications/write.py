"""Writes notifications to the outbox in the caller's transaction. Sending them is the worker's job.

A browser notification is delivered by its row; the others are delivered once they are ``due``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from django.conf import settings
from django.db.models import QuerySet

from checkpoints import ids
from checkpoints.database.alias import on_commit
from checkpoints.database.compiled import insert
from checkpoints.models import ChatAccount, HumanRequest, Notice, Preference
from checkpoints.models.user_model import User, email_of
from checkpoints.records import Json, JsonObject
from checkpoints.rules import card_subject
from wfdash import pubsub
from wfdash.notifications.preferences import (
    APPRISE,
    BROWSER,
    FED,
    MAIL,
    NAMED_FOR_WEBHOOKS,
    PERSONAL,
    PUSH,
    SLACK,
    WEBHOOK,
    WEBHOOK_KINDS,
    Listeners,
    Preferences,
    hears,
    listeners_of,
    read_preferences,
    read_with,
)
from wfdash.notifications.push import is_installed


def notify(
    kind: str,
    request: HumanRequest,
    users: Iterable[User],
    *,
    facts: Mapping[str, Json] | None = None,
    once: str = "",
) -> None:
    """Write a notification of this kind for each person and channel they chose, and for the subscribed webhooks.
    Programs hear by webhooks alone: a service account among ``users`` is passed over.

    ``facts`` are added to it: ``by`` (a user name: that person is not notified of their own action), ``text``,
    ``verdict``. ``once``: a second call with the same key notifies no one. Call it inside ``write()``.
    """
    given = dict(facts or {})
    people = [user for user in users if user.get_username() != given.get("by")]
    rows = _rows(kind, request.workflow, people, once, run=request.run_id, request=request)
    payload = {**facts_of_request(request), **given} if rows else {}
    for row in rows:
        row.request, row.payload = request, payload
    _insert(rows, people, once)


def notify_workflow(
    kind: str, workflow: str, users: Iterable[User], *, facts: Mapping[str, Json], once: str = ""
) -> None:
    """Write a notification about a run or a schedule of a workflow, for each person and channel they chose.

    ``facts``: ``subject``, and ``run`` with the id of the run to open. ``once`` as in ``notify``: of
    many alike the first is written. Call it inside ``write()``.
    """
    people = list(users)
    rows = _rows(kind, workflow, people, once, run=str(facts.get("run") or ""))
    for row in rows:
        row.workflow, row.payload = workflow, {"workflow": workflow, **facts}
    _insert(rows, people, once)


def preferences_of(users: Iterable[int]) -> dict[int, Preferences]:
    """Return these people's preferences by user id; people without any are missing."""
    found = Preference.objects.filter(user_id__in=list(users)).values_list("user_id", "data")
    return {user: read_preferences(data) for user, data in found}


def reachable(user: User, channel: str) -> bool:
    """Return whether this installation can reach this person through this channel."""
    if channel == MAIL:
        return bool(settings.WFDASH_MAIL and email_of(user))
    if channel == PUSH:
        return is_installed()
    if channel == SLACK:
        return connected([user.pk]).exists()
    return channel == BROWSER or (channel == APPRISE and user.get_username() in settings.WFDASH_APPRISE)


def connected(users: Iterable[int] | None = None) -> QuerySet[ChatAccount]:
    """Return who has connected their account at the chat service, or who of these people; no one where none is
    configured, without a query.
    """
    if not settings.WFDASH_SLACK_TOKEN:
        return ChatAccount.objects.none()
    found = ChatAccount.objects.filter(team=settings.WFDASH_SLACK_TEAM, uid__isnull=False)
    return found if users is None else found.filter(user__in=[*users])


def _rows(
    kind: str, workflow: str, users: Iterable[User], once: str, *, run: str, request: HumanRequest | None = None
) -> list[Notice]:
    people, named = {user.pk: user for user in users if user.is_active}, NAMED_FOR_WEBHOOKS.get(kind, kind)
    webhooks = named in WEBHOOK_KINDS and named not in FED
    known = read_with(request, people, webhooks=webhooks) if request is not None else None
    found = known if known is not None else listeners_of(people, workflow, run, webhooks=webhooks)
    rows = [*_to_people(kind, people, found)]
    rows += [notice_to(hook.pk, named, found.now) for hook in found.webhooks if hears(hook, named, workflow, run)]
    for row in rows:
        row.once = f"{once}:{row.channel}:{row.user_id or ''}{row.target}"[-200:] if once else None
    return rows


def _insert(rows: list[Notice], users: Iterable[User], once: str) -> None:
    insert(*rows, ignore_conflicts=bool(once))
    for user in {user.pk for user in users}:
        on_commit(lambda user=user: pubsub.notifications_changed.publish(user))  # type: ignore[misc]


def _to_people(kind: str, people: Mapping[int, User], found: Listeners) -> Iterator[Notice]:
    in_chat = {account.user_id for account in connected(found.people)}
    for pk, (wishes, browsers) in found.people.items():
        user, now = people[pk], found.now
        for channel in PERSONAL:
            here = pk in in_chat if channel == SLACK else reachable(user, channel)
            if not here or not wishes.wants(kind, channel):
                continue
            # Each browser by itself: one that is off does not hold up the others.
            for target in browsers if channel == PUSH else ("",):
                yield _notice(kind, channel, wishes.due(kind, channel, now), now, user=user, target=target)


def notice_to(webhook: str, kind: str, now: datetime) -> Notice:
    """Return a notification of a webhook that is due now, not stored yet."""
    return _notice(kind, WEBHOOK, now, now, target=webhook)


def _notice(
    kind: str, channel: str, due: datetime, now: datetime, user: User | None = None, target: str = ""
) -> Notice:
    sent = now if channel == BROWSER else None
    return Notice(
        id=ids.new_token(), kind=kind, channel=channel, user=user, target=target, created=now, due=due, sent=sent
    )


def facts_of_request(request: HumanRequest) -> JsonObject:
    """Return what a notification contains of its request: a copy, readable after the row is gone."""
    run = request.run
    return {
        "request": request.pk,
        "run": request.run_id,
        "run_title": run.own_title or run.title or request.workflow,
        "workflow": request.workflow,
        "step": request.step,
        "subject": card_subject(request.card, request.step)[:300],
        "risk": str(request.card.get("risk") or ""),
        "due": request.due.isoformat() if request.due else None,
    }
