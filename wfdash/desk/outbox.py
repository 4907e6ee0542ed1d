"""The outbox as the postman works it: what is due, claimed by one, delivered, postponed or given up.

A claim moves ``due`` out of the way: of any number of postmen one has it, and if that one dies it comes up again.
At least once, therefore; a letter's id stays the same, so that receivers can drop doubles.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import F, Q
from django.utils import timezone

from checkpoints.models import HumanRequest, Notice, Webhook
from checkpoints.orm import write
from wfdash.access import Viewer, viewer_for
from wfdash.desk.links import answer_link
from wfdash.desk.tell import preferences_of
from wfdash.notices.apprise import send_apprise
from wfdash.notices.kinds import APPRISE, BROWSER, MAIL, WEBHOOK
from wfdash.notices.letters import ANSWERABLE, Channel, Letter, Undeliverable
from wfdash.notices.mail import send_mail
from wfdash.notices.preferences import Preferences
from wfdash.notices.webhook import Receiver, send_webhook

log = logging.getLogger(__name__)

WAITS = (30, 120, 300, 900, 3600, 7200, 14400, 28800, 30600)
"""Seconds before each further attempt: ten attempts within a day."""
LEASE = timedelta(minutes=5)
"""For so long a postman has what it claimed, longer than any channel takes."""
BUNDLE = 200
"""Notices that one receiver is brought at a time."""
KEPT_DAYS = 90
FORGOTTEN = 1_000
"""Notices removed at a time."""
CHANNELS: Mapping[str, Channel] = {MAIL: send_mail, APPRISE: send_apprise, WEBHOOK: send_webhook}


@dataclass(frozen=True)
class Bundle:
    """What is due for one receiver on one channel."""

    channel: str
    user: int | None
    target: str
    """The webhook's id."""


def due_bundles(limit: int = 500) -> list[Bundle]:
    """Return for whom something is due, who waited longest first. One query."""
    rows = _due(timezone.now()).order_by("due").values_list("channel", "user_id", "target")[:limit]
    return list(dict.fromkeys(Bundle(*row) for row in rows))


def deliver(bundle: Bundle, channels: Mapping[str, Channel] = CHANNELS) -> int:
    """Send what is due for this receiver; returns how many notices were. Errors are kept with the notice."""
    notices = _claim(bundle)
    sent = 0
    while notices:
        # A webhook gets each letter by itself; people get all that is due in one.
        count = 1 if bundle.channel == WEBHOOK else len(notices)
        batch, notices = notices[:count], notices[count:]
        try:
            sent += _send(bundle, batch, channels[bundle.channel])
        except Undeliverable as error:
            _give_up(batch, str(error))
        except Exception as error:
            _postpone(batch, notices, f"{type(error).__name__}: {error}")
            break
    return sent


def forget_old(days: int = KEPT_DAYS) -> int:
    """Remove notices that were sent, given up or shown so long ago; returns how many."""
    old = Notice.objects.filter(created__lt=timezone.now() - timedelta(days=days))
    over = old.filter(Q(sent__isnull=False) | Q(given_up__isnull=False)).order_by("id").values_list("id", flat=True)
    with write():
        return Notice.objects.filter(pk__in=list(over[:FORGOTTEN])).delete()[0]


def _due(now: datetime) -> Any:
    waiting = Notice.objects.filter(due__lte=now, sent__isnull=True, given_up__isnull=True)
    return waiting.exclude(channel=BROWSER)


def _claim(bundle: Bundle) -> list[Notice]:
    now = timezone.now()
    with write():
        mine = _due(now).filter(channel=bundle.channel, user_id=bundle.user, target=bundle.target).order_by("created")
        if connection.features.has_select_for_update_skip_locked:
            mine = mine.select_for_update(of=("self",), skip_locked=True)
        rows = list(mine.select_related("user", "request", "request__run", "request__run__created_by")[:BUNDLE])
        Notice.objects.filter(pk__in=[row.pk for row in rows]).update(due=now + LEASE, attempts=F("attempts") + 1)
    for row in rows:
        row.attempts += 1
    return rows


def _send(bundle: Bundle, notices: Sequence[Notice], channel: Channel) -> int:
    if bundle.channel == WEBHOOK:
        receiver, letters = _webhook(bundle.target), [_letter(notice) for notice in notices]
    else:
        receiver, letters = _person(bundle, notices)
    if letters:
        channel(receiver, letters)
    ids = [letter.id for letter in letters]
    Notice.objects.filter(pk__in=ids).update(sent=timezone.now(), error="")
    log.info("Sent %d notices by %s", len(ids), bundle.channel)
    return len(ids)


def _webhook(target: str) -> Receiver:
    webhook = Webhook.objects.filter(pk=target, active=True).first()
    if webhook is None:
        raise Undeliverable("This webhook was removed or switched off")
    return Receiver(url=webhook.url, secrets=tuple(webhook.secret.split()))


def _person(bundle: Bundle, notices: Sequence[Notice]) -> tuple[Any, list[Letter]]:
    """Return who is told, and of what: no longer of what was decided meanwhile, or is not theirs to see any more."""
    user = notices[0].user
    if user is None or not user.is_active:
        raise Undeliverable("This person no longer has an account")
    viewer = viewer_for(user)
    letters = []
    for notice in notices:
        if why := _moot(notice, viewer):
            _give_up([notice], why)
        else:
            letters.append(_letter(notice, viewer))
    wishes = preferences_of([user.pk]).get(user.pk, Preferences())
    return ((user, wishes) if bundle.channel == MAIL else user), letters


def _moot(notice: Notice, viewer: Viewer) -> str:
    request = notice.request
    if request is None:
        return ""
    if not viewer.may("see", request.workflow) and request.run.created_by_id != viewer.user.pk:
        return "It is no longer theirs to see"
    if notice.kind in ANSWERABLE and (request.answered or request.closed or request.settles):
        return "It was decided before this was sent"
    return ""


def _letter(notice: Notice, viewer: Viewer | None = None) -> Letter:
    return Letter(
        id=notice.pk,
        kind=notice.kind,
        at=notice.created,
        url=_url(notice.kind, notice.request, viewer),
        payload=notice.payload,
    )


def _url(kind: str, request: HumanRequest | None, viewer: Viewer | None) -> str:
    """Return where to look: for a person who is asked for an answer, the link by which they can give it."""
    if request is None:
        return f"{settings.WFDASH_URL}/"
    if viewer is not None and kind in ANSWERABLE and viewer.may("answer", request.workflow):
        requester = request.run.created_by.get_username() if request.run.created_by else None
        if viewer.addressed(request.by, request.not_by, requester) or request.assignee_id == viewer.user.pk:
            return answer_link(request, viewer.user)
    return f"{settings.WFDASH_URL}/requests/{request.pk}/"


def _postpone(tried: Sequence[Notice], untried: Sequence[Notice], error: str) -> None:
    """Try again later; what waits for the same receiver waits along. After the last attempt: give up."""
    now = timezone.now()
    again = [notice for notice in tried if notice.attempts <= len(WAITS)]
    _give_up([notice for notice in tried if notice.attempts > len(WAITS)], error)
    first = tried[0]
    wait = WAITS[min(first.attempts, len(WAITS)) - 1] * random.uniform(0.9, 1.1)  # noqa: S311
    due = now + timedelta(seconds=wait)
    Notice.objects.filter(pk__in=[notice.pk for notice in again]).update(due=due, error=error[:500])
    Notice.objects.filter(pk__in=[notice.pk for notice in untried]).update(due=due, attempts=F("attempts") - 1)
    same = _due(now).filter(channel=first.channel, user_id=first.user_id, target=first.target)
    same.update(due=due)
    log.warning("Could not send by %s (attempt %d): %s", first.channel, first.attempts, error[:500])


def _give_up(notices: Sequence[Notice], why: str) -> None:
    if notices:
        Notice.objects.filter(pk__in=[notice.pk for notice in notices]).update(given_up=timezone.now(), error=why[:500])
        log.warning("Gave up %d notices by %s: %s", len(notices), notices[0].channel, why[:500])
