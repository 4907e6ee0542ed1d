"""What a person was told, newest first, and how webhooks fared. What is no longer theirs to see is left out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import OuterRef, Q, QuerySet, Subquery

from checkpoints.models import HumanRequest, Notice, Webhook
from wfdash.access import Viewer
from wfdash.notices.kinds import BROWSER, WEBHOOK
from wfdash.notices.letters import ANSWERABLE, headline

MOOT = Q(kind__in=ANSWERABLE) & (Q(request__answered__isnull=False) | Q(request__closed__isnull=False))
"""It asked for an answer, and there is one: nobody need read it any more."""
COUNTED = 100
"""So far unread notices are counted."""


@dataclass(frozen=True, kw_only=True)
class NoticeView:
    """A notice as the list shows it. ``moot``: it asked for an answer, and there is one."""

    id: str
    kind: str
    headline: str
    text: str
    workflow: str
    at: datetime
    read: bool
    moot: bool
    request: str

    @property
    def unread(self) -> bool:
        """Say whether it counts as unread."""
        return not self.read and not self.moot


@dataclass(frozen=True, kw_only=True)
class NoticePage:
    """Some notices. ``older``: the id to go on after, empty at the end."""

    items: tuple[NoticeView, ...]
    older: str = ""


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What became of a notice to a webhook: ``state`` is sent, waiting, retrying or given up."""

    id: str
    kind: str
    subject: str
    at: datetime
    state: str
    attempts: int
    due: datetime
    sent: datetime | None
    error: str


def count_unread(viewer: Viewer) -> int:
    """Return how many notices this person has not read, at most 100 (one query)."""
    return _mine(viewer).filter(read__isnull=True).exclude(MOOT)[:COUNTED].count()


def notices(viewer: Viewer, *, before: str = "", limit: int = 30) -> NoticePage:
    """Return this person's notices, newest first (one query)."""
    rows = _mine(viewer).select_related("request").order_by("-id")
    if before:
        rows = rows.filter(id__lt=before)
    found = list(rows[: limit + 1])
    older = found[limit - 1].pk if len(found) > limit else ""
    return NoticePage(items=tuple(_view(row) for row in found[:limit]), older=older)


def notice(viewer: Viewer, notice_id: str) -> NoticeView | None:
    """Return one of this person's notices, None if there is none."""
    row = _mine(viewer).select_related("request").filter(pk=notice_id).first()
    return None if row is None else _view(row)


def deliveries(webhook: Webhook, *, limit: int = 20) -> list[Delivery]:
    """Return what was last sent to a webhook, newest first."""
    rows = Notice.objects.filter(channel=WEBHOOK, target=webhook.pk).order_by("-id")
    return [
        Delivery(
            id=row.pk,
            kind=row.kind,
            subject=str(row.payload.get("subject") or row.payload.get("text") or ""),
            at=row.created,
            state=_state(row),
            attempts=row.attempts,
            due=row.due,
            sent=row.sent,
            error=row.error,
        )
        for row in rows[:limit]
    ]


def webhooks() -> list[tuple[Webhook, str]]:
    """Return every webhook with the state of its newest delivery, empty without one. For admins: the desk asks."""
    newest = Notice.objects.filter(channel=WEBHOOK, target=OuterRef("pk")).order_by("-id")
    rows = list(Webhook.objects.order_by("name").annotate(last=Subquery(newest.values("pk")[:1])))
    last = {row.pk: row for row in Notice.objects.filter(pk__in=[hook.last for hook in rows if hook.last])}
    return [(hook, _state(last[hook.last]) if hook.last in last else "") for hook in rows]


def _mine(viewer: Viewer) -> QuerySet[Notice]:
    visible = HumanRequest.objects.filter(viewer.scope("see") | viewer.started())
    mine = Notice.objects.filter(user_id=viewer.user.pk, channel=BROWSER)
    return mine.filter(Q(request__isnull=True) | Q(request__in=visible))


def _view(row: Notice) -> NoticeView:
    request = row.request
    decided = request is not None and (request.answered is not None or request.closed is not None)
    return NoticeView(
        id=row.pk,
        kind=row.kind,
        headline=headline(row.kind, row.payload),
        text=str(row.payload.get("text") or "")[:300],
        workflow=str(row.payload.get("workflow") or ""),
        at=row.created,
        read=row.read is not None,
        moot=row.kind in ANSWERABLE and decided,
        request=row.request_id or "",
    )


def _state(row: Notice) -> str:
    if row.sent:
        return "sent"
    if row.given_up:
        return "given up"
    return "retrying" if row.error else "waiting"
