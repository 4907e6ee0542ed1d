"""Reads of webhooks: those a person manages, their deliveries, and each attempt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery

from checkpoints.errors import CheckpointsError
from checkpoints.models import DeliveryAttempt, IncomingDelivery, IncomingHook, Notice, Webhook
from checkpoints.records import frozen
from wfdash.access.directory import managed_by, refuse_narrow
from wfdash.access.viewer import Viewer
from wfdash.domain.hooks import SCHEMES
from wfdash.domain.labels import visible
from wfdash.notifications.preferences import WEBHOOK, type_of
from wfdash.queries.unreadable import document
from wfdash.records.base import UNREADABLE

STATES: dict[str, Q] = {
    "sent": Q(sent__isnull=False),
    "retrying": Q(sent__isnull=True, given_up__isnull=True, attempts__gt=0),
    "waiting": Q(sent__isnull=True, given_up__isnull=True, attempts=0),
    "given-up": Q(given_up__isnull=False),
}
"""The states that a list of deliveries can be limited to."""
PAGE_DELIVERIES = 25


@frozen
class AttemptView:
    """One attempt. ``status`` is None where no HTTP response came."""

    at: datetime
    ms: int
    status: int | None
    answer: str
    error: str

    @property
    def arrived(self) -> bool:
        """Return whether the receiver accepted it."""
        return self.status is not None and 200 <= self.status < 300


@frozen
class Delivery:
    """A webhook delivery. ``state`` is sent, waiting, retrying or given up."""

    id: str
    type: str
    subject: str
    run: str
    request: str
    at: datetime
    state: str
    attempts: int
    due: datetime
    error: str
    tries: tuple[AttemptView, ...]


@frozen
class CallbackView:
    """The callback of a run. ``id``: of its webhook, empty for people who do not manage it.

    ``counts``: state -> number of deliveries, without those that are 0.
    """

    id: str
    counts: Mapping[str, int]


@frozen
class DeliveryPage:
    """A page of deliveries. ``older``: the cursor of the next page, empty at the end."""

    items: tuple[Delivery, ...]
    older: str = ""


def webhooks(viewer: Viewer) -> list[tuple[Webhook, str]]:
    """Return the webhooks this person manages with the state of the newest delivery, empty without one (two queries).

    Callbacks of single runs are left out.
    """
    newest = Notice.objects.filter(channel=WEBHOOK, target=OuterRef("pk")).order_by("-id")
    rows = list(_managed(viewer).order_by("name").annotate(last=Subquery(newest.values("pk")[:1])))
    last = {row.pk: row for row in Notice.objects.filter(pk__in=[hook.last for hook in rows if hook.last])}
    return [(hook, _state(last[hook.last]) if hook.last in last else "") for hook in rows]


def callback_of(viewer: Viewer, run: str, workflow: str) -> CallbackView | None:
    """Return the callback of a run that was found through the viewer (one query, two with a callback).

    None without one, and for people who neither manage it nor operate the workflow.
    """
    webhook = Webhook.objects.filter(run=run).annotate(own=Q(managed_by(viewer))).values_list("pk", "own").first()
    if webhook is None or not (webhook[1] or viewer.may("operate", workflow)):
        return None
    rows = Notice.objects.filter(channel=WEBHOOK, target=webhook[0])
    counts = rows.aggregate(**{f"n_{n}": Count("pk", filter=state) for n, state in enumerate(STATES.values())})
    named = {name.replace("-", " "): counts[f"n_{n}"] for n, name in enumerate(STATES)}
    return CallbackView(id=webhook[0] if webhook[1] else "", counts={name: n for name, n in named.items() if n})


def deliveries(webhook: Webhook, *, state: str = "", before: str = "", limit: int = PAGE_DELIVERIES) -> DeliveryPage:
    """Return deliveries of a webhook with their attempts, newest first (two queries)."""
    rows = Notice.objects.filter(STATES.get(state, Q()), channel=WEBHOOK, target=webhook.pk).order_by("-id")
    if before:
        rows = rows.filter(id__lt=before)
    found = list(rows[: limit + 1])
    tries = _tries(row.pk for row in found[:limit])
    older = found[limit - 1].pk if len(found) > limit else ""
    return DeliveryPage(items=tuple(_delivery(row, tries.get(row.pk, [])) for row in found[:limit]), older=older)


def count_given_up(webhook: Webhook, since: datetime) -> int:
    """Return how many deliveries of a webhook were given up since then (one query)."""
    return Notice.objects.filter(channel=WEBHOOK, target=webhook.pk, given_up__gte=since).count()


def _managed(viewer: Viewer) -> QuerySet[Any, Any]:
    refuse_narrow(viewer)
    rows = Webhook.objects.filter(run=None).select_related("owner").defer("secret")
    return rows.filter(managed_by(viewer))


def _tries(notices: Iterable[str]) -> dict[str, list[AttemptView]]:
    found: dict[str, list[AttemptView]] = {}
    for row in DeliveryAttempt.objects.filter(notice__in=list(notices)).order_by("-pk"):
        view = AttemptView(at=row.at, ms=row.ms, status=row.status, answer=_answer(row), error=row.error)
        found.setdefault(row.notice_id, []).append(view)
    return found


def _answer(row: DeliveryAttempt) -> str:
    try:
        return visible(row.answer)
    except CheckpointsError:
        return UNREADABLE


def _delivery(row: Notice, tries: list[AttemptView]) -> Delivery:
    payload = document(row, "payload")
    return Delivery(
        id=row.pk,
        type=type_of(row.kind),
        subject=visible(str(payload.get("subject") or payload.get("text") or payload.get(UNREADABLE) or "")),
        run=str(payload.get("run") or ""),
        request=str(payload.get("request") or ""),
        at=row.created,
        state=_state(row),
        attempts=row.attempts,
        due=row.due,
        error=row.error,
        tries=tuple(tries),
    )


def _state(row: Notice) -> str:
    if row.sent:
        return "sent"
    if row.given_up:
        return "given up"
    return "retrying" if row.attempts else "waiting"


# Incoming webhooks that a person manages, and what came to them.

OUTCOMES = ("started", "signalled", "duplicate", "refused")


@frozen
class IncomingRow:
    """An incoming webhook in the list. ``last``: when something came, None if nothing has."""

    id: str
    name: str
    workflow: str
    signal: str
    scheme: str
    owner: str
    active: bool
    last: datetime | None


@frozen
class ReceivedView:
    """A delivery that came. ``body`` is empty for people who may not inspect values of the workflow."""

    id: str
    at: datetime
    status: int
    outcome: str
    run: str
    why: str
    size: int
    body: str


@frozen
class ReceivedPage:
    """A page of what came. ``older``: the cursor of the next page, empty at the end."""

    items: tuple[ReceivedView, ...]
    older: str = ""


def incoming_hooks(viewer: Viewer) -> list[IncomingRow]:
    """Return the incoming webhooks this person manages, by name (one query)."""
    refuse_narrow(viewer)
    latest = IncomingDelivery.objects.filter(hook=OuterRef("pk")).order_by("-id").values("at")[:1]
    rows = IncomingHook.objects.select_related("owner").defer("secret").annotate(last=Subquery(latest))
    mine = rows.filter(managed_by(viewer))
    return [
        IncomingRow(
            **{name: getattr(row, name) for name in ("name", "workflow", "signal", "active", "last")},
            id=row.pk,
            scheme=SCHEMES[row.scheme].label,
            owner=row.owner.get_username(),
        )
        for row in mine.order_by("name", "pk")
    ]


def received(
    viewer: Viewer, hook: IncomingHook, *, outcome: str = "", before: str = "", limit: int = PAGE_DELIVERIES
) -> ReceivedPage:
    """Return what came to an incoming webhook, newest first (one query). The caller found it through the viewer."""
    rows = IncomingDelivery.objects.filter(hook=hook).order_by("-id")
    if outcome in OUTCOMES:
        rows = rows.filter(outcome=outcome)
    if before:
        rows = rows.filter(id__lt=before)
    found, shown = list(rows[: limit + 1]), viewer.may("inspect", hook.workflow)
    older = found[limit - 1].pk if len(found) > limit else ""
    return ReceivedPage(items=tuple(_view(row, shown) for row in found[:limit]), older=older)


def newest_body(viewer: Viewer, hook: IncomingHook) -> str:
    """Return the newest delivery that was signed, for people who may inspect values; empty without one."""
    found = received(viewer, hook, limit=10).items
    return next((row.body for row in found if row.body), "")


def _view(row: IncomingDelivery, shown: bool) -> ReceivedView:
    columns = ("at", "status", "outcome", "run", "size")
    return ReceivedView(
        id=row.pk,
        **{name: getattr(row, name) for name in columns},
        why=_text(row, "why"),
        body=_text(row, "body") if shown else "",
    )


def _text(row: IncomingDelivery, column: str) -> str:
    try:
        return visible(getattr(row, column))
    except CheckpointsError:
        return UNREADABLE
