"""The outbox as delivery works it: what is due, claimed by one worker, delivered, postponed or given up.

A claim moves ``due`` out of the way: one of any number of workers has it, and if that one dies it comes up again.
At least once, therefore; a letter's id stays the same, so that receivers can drop doubles.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.models import F, Min, Q
from django.urls import reverse
from django.utils import timezone
from pydantic_core import to_json

from checkpoints.claims import boottime
from checkpoints.database.alias import connection
from checkpoints.database.clock import database_now
from checkpoints.database.storage import write
from checkpoints.errors import CheckpointsError
from checkpoints.models import Answer, Notice, PushSubscription, Run, Webhook
from checkpoints.records import JsonObject, frozen
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions.account import forget_browser
from wfdash.actions.hooks.webhooks import keep_attempt
from wfdash.actions.pacing import is_outage
from wfdash.actions.requests.answer_links import answer_link
from wfdash.actions.requests.chat import send_chat
from wfdash.engines import catalog
from wfdash.notifications.letters import ANSWERABLE, Channel, Letter, Undeliverable, page_of, send_apprise, send_mail
from wfdash.notifications.preferences import APPRISE, BROWSER, MAIL, PUSH, SLACK, WEBHOOK, Preferences
from wfdash.notifications.push import Browser, Unsubscribed, send_push
from wfdash.notifications.rendering import absolute
from wfdash.notifications.webhook import Receiver, send_webhook
from wfdash.notifications.write import preferences_of
from wfdash.queries.requests.inbox import count_open
from wfdash.queries.requests.request import read_request as find_request
from wfdash.queries.timemachine import secrets_in
from wfdash.queries.workflows import published_secrets
from wfdash.values.schemas.secrets import masked

log = logging.getLogger(__name__)

SENDERS = 4
"""Receivers served at the same time: one that does not answer must not keep the others waiting."""


class Senders:
    """Sends from threads of its own."""

    def __init__(self) -> None:
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="wfdash-sender")
        self._busy: set[Bundle] = set()

    def dispatch(self) -> float:
        """Give each receiver for whom something is due to a sender, one at a time each; returns the seconds until it is
        to be called again.
        """
        for bundle in due_bundles():
            if bundle not in self._busy:
                self._busy.add(bundle)
                self._senders.submit(deliver_bundle, bundle).add_done_callback(partial(self._ended, bundle))
        return math.inf

    def close(self) -> None:
        """Begin no further delivery. One in progress is completed; the rest is left to the next sender."""
        self._senders.shutdown(wait=False, cancel_futures=True)

    def _ended(self, bundle: Bundle, _: object) -> None:
        self._busy.discard(bundle)


def deliver_bundle(bundle: Bundle) -> None:
    """Deliver to one receiver, and leave no connection in this thread."""
    try:
        deliver(bundle)
    except Exception:
        log.exception("Could not deliver; what was claimed comes up again")
    finally:
        connections.close_all()


RETRY_SECONDS = (30, 120, 300, 900, 3600, 7200, 14400, 28800, 30600)
"""Seconds before each further attempt: ten attempts within a day."""
LEASE = timedelta(minutes=5)
"""How long a worker has what it claimed. It begins nothing in the second half: a channel takes less."""
NOTICES_PER_MESSAGE = 200
"""Notices that one receiver is brought at a time, in one message."""
NOTICES_PER_CLAIM = 20
"""Notices claimed at a time where each is a message of its own, of at most five seconds."""
TURN_SECONDS = 10.0
"""Seconds for which one receiver may keep a sender by claiming more."""
MOST_REASON = 2_000
"""Characters of the reason of a decision that a mail has."""
KEPT_DAYS = 90
NOTICES_REMOVED_AT_ONCE = 1_000
"""Notices removed at a time."""
UNSENT = Notice.objects.filter(sent__isnull=True, given_up__isnull=True).exclude(channel=BROWSER)
NOTHING: Mapping[str, Any] = {}
CHANNELS: Mapping[str, Channel] = {
    MAIL: send_mail,
    PUSH: send_push,
    APPRISE: send_apprise,
    SLACK: send_chat,
    WEBHOOK: send_webhook,
}


@dataclass(frozen=True)
class Bundle:
    """What is due for one receiver on one channel."""

    channel: str
    user: int | None
    target: str
    """The id of the webhook, or of the subscribed browser."""


def due_bundles(limit: int = 500) -> list[Bundle]:
    """Return for whom something is due, who waited longest first. One query."""
    # By receiver: those behind one for whom thousands wait get their turn.
    due = _due(database_now()).values("channel", "user_id", "target").annotate(first=Min("due")).order_by("first")
    return [Bundle(*row) for row in due.values_list("channel", "user_id", "target")[:limit]]


def deliver(bundle: Bundle, channels: Mapping[str, Channel] = CHANNELS) -> int:
    """Send what is due for this receiver; returns how many notices were. Errors are kept with the notice."""
    sent, began = 0, boottime()
    while boottime() - began < TURN_SECONDS:
        claimed_at = boottime()
        notices = _claim(bundle)
        sent += _deliver(bundle, notices, channels[bundle.channel], claimed_at + LEASE.total_seconds() / 2)
        if len(notices) < NOTICES_PER_CLAIM:
            break
    return sent


def _deliver(bundle: Bundle, notices: list[Notice], channel: Channel, until: float) -> int:
    """Send what was claimed. What is not started before ``until``, by ``boottime``, becomes due again."""
    sent = 0
    while notices and boottime() < until:
        # A webhook gets each letter by itself; people get all that is due in one.
        count = 1 if bundle.channel == WEBHOOK else len(notices)
        batch, notices = notices[:count], notices[count:]
        try:
            sent += _send(bundle, batch, channel)
        except Undeliverable as error:
            _give_up(batch, str(error))
            if isinstance(error, Unsubscribed):
                forget_browser(bundle.target)
        except Exception as error:
            _postpone(batch, notices, f"{type(error).__name__}: {error}", getattr(error, "seconds", 0.0))
            break
    return sent


def forget_old(limit: int = NOTICES_REMOVED_AT_ONCE) -> int:
    """Remove notices that were sent, given up or shown ``KEPT_DAYS`` ago; returns how many."""
    old = Notice.objects.filter(created__lt=timezone.now() - timedelta(days=KEPT_DAYS))
    over = old.filter(Q(sent__isnull=False) | Q(given_up__isnull=False)).order_by("id").values_list("id", flat=True)
    with write():
        return Notice.objects.filter(pk__in=list(over[:limit])).delete()[1].get(Notice._meta.label, 0)


def _due(now: datetime) -> Any:
    return UNSENT.filter(due__lte=now)


def _claim(bundle: Bundle) -> list[Notice]:
    now, limit = database_now(), NOTICES_PER_CLAIM if bundle.channel == WEBHOOK else NOTICES_PER_MESSAGE
    with write():
        mine = _due(now).filter(channel=bundle.channel, user_id=bundle.user, target=bundle.target).order_by("created")
        if connection().features.has_select_for_update_skip_locked:
            mine = mine.select_for_update(of=("self",), skip_locked=True)
        claimed = list(mine.values_list("pk", flat=True)[:limit])
        Notice.objects.filter(pk__in=claimed).update(due=now + LEASE, attempts=F("attempts") + 1)
    return _read(claimed)


def _read(claimed: list[str]) -> list[Notice]:
    """Return these notices, the oldest first. One that cannot be read is given up, or it would hold up the others."""
    if not claimed:
        return []
    rows = Notice.objects.select_related("user", "request", "request__run", "request__run__created_by")
    try:
        return list(rows.filter(pk__in=claimed).order_by("created"))
    except Exception as error:
        if is_outage(error):
            raise
        if len(claimed) > 1:
            return [notice for one in claimed for notice in _read([one])]
        _give_up_unread(claimed[0], error)
        return []


def _send(bundle: Bundle, notices: Sequence[Notice], channel: Channel) -> int:
    receiver, letters = _webhook(bundle, notices) if bundle.channel == WEBHOOK else _person(bundle, notices)
    if letters:
        channel(receiver, letters)
    ids = [letter.id for letter in letters]
    if bundle.channel == PUSH and letters:
        PushSubscription.objects.filter(pk=bundle.target).update(sent=timezone.now())
    Notice.objects.filter(pk__in=ids).update(sent=timezone.now(), error="")
    log.info("Sent %d notifications by %s", len(ids), bundle.channel)
    return len(ids)


def _webhook(bundle: Bundle, notices: Sequence[Notice]) -> tuple[Receiver, list[Letter]]:
    """Return a webhook and its letters, without what its owner may no longer see."""
    recipient, letters = recipient_of(bundle.target), []
    for notice in notices:
        if why := hook_refusal(recipient, notice):
            _give_up([notice], why)
        else:
            letters += _letters([notice], also=values_for(recipient, notice))
    return recipient.receiver, letters


def _person(bundle: Bundle, notices: Sequence[Notice]) -> tuple[Any, list[Letter]]:
    """Return the receivers and their letters, without requests decided since, or no longer visible to them."""
    user = notices[0].user
    if user is None or not user.is_active:
        raise Undeliverable("This person no longer has an account")
    viewer = viewer_for(user)
    letters = []
    for notice in notices:
        if why := _obsolete_because(notice, viewer):
            _give_up([notice], why)
        else:
            # A phone is picked up by others, a chat kept by others: their link does not sign in.
            letters += _letters([notice], None if bundle.channel in (PUSH, SLACK) else viewer)
    return _receiver(bundle, user, viewer), letters


def _receiver(bundle: Bundle, user: Any, viewer: Viewer) -> Any:
    """Return a person in the form in which a channel wants them."""
    if bundle.channel == MAIL:
        return user, preferences_of([user.pk]).get(user.pk, Preferences())
    if bundle.channel != PUSH:
        return user
    found = PushSubscription.objects.filter(pk=bundle.target, user=viewer.user).first()
    if found is None:
        raise Undeliverable("This browser was unsubscribed")
    return Browser(**found.data, waiting=count_open(viewer))


def _obsolete_because(notice: Notice, viewer: Viewer) -> str:
    request = notice.request
    if request is None:
        return "No longer has access" if notice.workflow and not viewer.may("see", notice.workflow) else ""
    if not viewer.may("see", request.workflow) and request.run.created_by_id != viewer.user.pk:
        return "No longer has access"
    if notice.kind in ANSWERABLE and (request.answered or request.closed or request.settles):
        return "Already decided"
    return ""


def _letters(
    notices: Sequence[Notice], viewer: Viewer | None = None, *, also: Mapping[str, Any] = NOTHING
) -> list[Letter]:
    """Return the letters of these notices; one that cannot be written is given up, and the others are sent."""
    found = []
    for notice in notices:
        try:
            found.append(
                Letter(
                    id=notice.pk,
                    kind=notice.kind,
                    at=notice.created,
                    url=_url(notice, viewer),
                    payload={**notice.payload, **also, **_reason(notice, viewer)},
                )
            )
        except Exception as error:
            if is_outage(error):
                raise
            _give_up_unread(notice.pk, error)
    return found


def _reason(notice: Notice, viewer: Viewer | None) -> dict[str, str]:
    """Return the reason of a decision as ``text``, for a person who may read it."""
    if viewer is None or notice.kind != "decided" or notice.request is None:
        return {}
    answer = find_request(viewer, notice.request.pk).answer
    return {"text": answer.reason[:MOST_REASON]} if answer and answer.reason else {}


def _url(notice: Notice, viewer: Viewer | None) -> str:
    """Return where to look: for a person who is asked for an answer, the link by which they can give it."""
    request = notice.request
    if request is None:
        return absolute(page_of(notice.kind, notice.payload))
    may = viewer is not None and notice.kind in ANSWERABLE and viewer.may("answer", request.workflow)
    if viewer is not None and not (settings.WFDASH_LINKS or viewer.user.last_login):
        # No one has signed in with this account yet: the admin who invited it may have given an address of their own.
        may = False
    if viewer is not None and may and viewer.right_to(request):
        return answer_link(request, viewer.user)
    return absolute(reverse("wfdash:request", args=[request.pk]))


def _postpone(tried: Sequence[Notice], untried: Sequence[Notice], error: str, least: float = 0.0) -> None:
    """Try again later; what waits for the same receiver waits along. After the last attempt: give up."""
    now = database_now()
    again = [notice for notice in tried if notice.attempts <= len(RETRY_SECONDS)]
    _give_up([notice for notice in tried if notice.attempts > len(RETRY_SECONDS)], error)
    first = tried[0]
    wait = RETRY_SECONDS[min(first.attempts, len(RETRY_SECONDS)) - 1] * random.uniform(0.9, 1.1)  # noqa: S311
    due = now + timedelta(seconds=max(wait, least))
    Notice.objects.filter(pk__in=[notice.pk for notice in again]).update(due=due, error=error[:500])
    Notice.objects.filter(pk__in=[notice.pk for notice in untried]).update(due=due, attempts=F("attempts") - 1)
    same = _due(now).filter(channel=first.channel, user_id=first.user_id, target=first.target)
    same.update(due=due)
    log.warning("Could not send by %s (attempt %d): %s", first.channel, first.attempts, error[:500])


def _give_up_unread(notice_id: str, error: Exception) -> None:
    why = f"Could not be read: {type(error).__name__}"
    Notice.objects.filter(pk=notice_id).update(given_up=timezone.now(), error=why)
    log.error("Gave up notification %s, which could not be read", notice_id, exc_info=error)


def _give_up(notices: Sequence[Notice], why: str) -> None:
    if notices:
        Notice.objects.filter(pk__in=[notice.pk for notice in notices]).update(given_up=timezone.now(), error=why[:500])
        log.warning("Gave up %d notifications by %s: %s", len(notices), notices[0].channel, why[:500])


# -- what a delivery to a webhook carries: decided when it is sent, by the rights that its owner has then

MAX_CARRIED_BYTES = 262_144
"""Bytes of a value that a delivery carries; a larger one is to be fetched by the API."""


@frozen
class Recipient:
    """A webhook, and its owner's rights: None where it is one of the installation."""

    webhook: Webhook
    owner: Viewer | None

    @property
    def receiver(self) -> Receiver:
        """Return where to post, and what signs it."""
        secrets = tuple(self.webhook.secret.split())
        return Receiver(url=self.webhook.url, secrets=secrets, keep=keep_attempt)

    def may(self, right: str, workflow: str) -> bool:
        """Return whether its owner has a right; the installation has every one."""
        return self.owner is None or self.owner.may(right, workflow)


def recipient_of(target: str) -> Recipient:
    """Return a webhook by its id. ``Undeliverable`` if it was removed or disabled."""
    webhook = Webhook.objects.select_related("owner").filter(pk=target).first()
    if webhook is None or not (webhook.active or webhook.run_id):
        raise Undeliverable("This webhook was removed or disabled")
    return Recipient(webhook=webhook, owner=viewer_for(webhook.owner) if webhook.owner else None)


def hook_refusal(recipient: Recipient, notice: Notice) -> str:
    """Return why a webhook is not sent this, empty if it is."""
    workflow = _workflow_of(notice)
    return "" if not workflow or recipient.may("see", workflow) else "The owner can no longer see this"


def values_for(recipient: Recipient, notice: Notice) -> JsonObject:
    """Return the answer, output or error, if the webhook is to carry it and its owner may inspect it.

    Secrets are masked. ``{"omitted": name}`` for one that is too large or cannot be read.
    """
    workflow = _workflow_of(notice)
    if not recipient.webhook.values or not workflow or not recipient.may("inspect", workflow):
        return {}
    try:
        values = _values(notice)
        # The worker that delivers may be another than the one that has its code.
        entry = catalog.find(workflow) if values else None
        names = entry.secrets if entry else published_secrets(workflow) if values else ()
        found = {name: masked(value, names) for name, value in values.items()}
    except CheckpointsError:
        return {"omitted": "unreadable"}
    return found if len(to_json(found)) <= MAX_CARRIED_BYTES else {"omitted": ", ".join(found)}


def _values(notice: Notice) -> Mapping[str, Any]:
    if notice.kind == "answered" and notice.request is not None:
        answer = Answer.objects.filter(request=notice.request).first()
        return {"answer": masked(answer.value, secrets_in(notice.request))} if answer else {}
    if notice.kind not in ("completed", "failed"):
        return {}
    run = Run.objects.filter(pk=str(notice.payload.get("run") or "")).first()
    if run is None:
        return {}
    if notice.kind == "completed":
        return {"output": run.output}
    error = run.error or {}
    return {"error": {name: error.get(name) for name in ("type", "message", "step")}}


def _workflow_of(notice: Notice) -> str:
    return str(notice.request.workflow if notice.request else notice.workflow or notice.payload.get("workflow") or "")
