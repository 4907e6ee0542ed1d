"""A person's notifications, newest first. Rows they may no longer see are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from checkpoints.database.compiled import compiled
from checkpoints.models import HumanRequest, Notice, PushSubscription
from wfdash.access.administration import refuse_narrow
from wfdash.access.viewer import Viewer
from wfdash.catalog import titles
from wfdash.notifications.kinds import BROWSER, KINDS
from wfdash.notifications.letters import ANSWERABLE, headline, page_of
from wfdash.queries.run_names import titles_of
from wfdash.queries.unreadable import document
from wfdash.records.account import NotificationRecord
from wfdash.records.base import UNREADABLE

ALREADY_ANSWERED = Q(kind__in=ANSWERABLE) & (Q(request__answered__isnull=False) | Q(request__closed__isnull=False))
"""It asked for an answer, and there is one: it is obsolete."""
COUNTED = 100
"""Unread notifications are counted up to this number."""
LOOKED_AT = 1_000
"""The newest that were not read, of which those that still matter are counted."""


class NoticeView(NotificationRecord):
    """A row of the list of notifications. ``moot``: it asked for an answer that has been given since."""

    page: str
    """The address of its subject, if it is about none of the requests."""

    @property
    def unread(self) -> bool:
        """Return whether it counts as unread."""
        return not self.read and not self.moot

    @property
    def icon(self) -> str:
        """Return the icon of its kind; a bell for a kind of an older release."""
        kind = KINDS.get(self.kind)
        return kind.icon if kind else "bell"


@dataclass(frozen=True, kw_only=True)
class NoticePage:
    """A page of notifications. ``older``: the cursor of the next page, empty at the end."""

    items: tuple[NoticeView, ...]
    older: str = ""


def count_unread(viewer: Viewer) -> int:
    """Return how many notifications this person has not read, at most 100 (one query)."""
    return _unread_of(viewer).count()


@compiled
def _unread_of(viewer: Viewer) -> QuerySet[Any, Any]:
    newest = Notice.objects.filter(user_id=viewer.user.pk, channel=BROWSER, read__isnull=True).order_by("-id")
    unread = _own_notifications(viewer).filter(pk__in=newest.values("pk")[:LOOKED_AT]).exclude(ALREADY_ANSWERED)
    return unread.order_by().values("pk")[:COUNTED]


def notices(viewer: Viewer, *, before: str = "", limit: int = 30) -> NoticePage:
    """Return this person's notifications, newest first (two queries)."""
    refuse_narrow(viewer)
    rows = _own_notifications(viewer).select_related("request").order_by("-id")
    if before:
        rows = rows.filter(id__lt=before)
    found = list(rows[: limit + 1])
    older = found[limit - 1].pk if len(found) > limit else ""
    called = titles_of(viewer, map(_run_of, found))
    return NoticePage(items=tuple(_view(row, called) for row in found[:limit]), older=older)


def notice(viewer: Viewer, notice_id: str) -> NoticeView | None:
    """Return one of this person's notifications, None if there is none."""
    refuse_narrow(viewer)
    row = _own_notifications(viewer).select_related("request").filter(pk=notice_id).first()
    return None if row is None else _view(row, titles_of(viewer, [_run_of(row)]))


def push_browsers(viewer: Viewer) -> list[PushSubscription]:
    """Return the browsers in which this person gets push notifications, without their addresses and keys."""
    return list(PushSubscription.objects.filter(user=viewer.user).defer("data").order_by("-created"))


def _own_notifications(viewer: Viewer) -> QuerySet[Notice]:
    # Not ``request__in``: SQLite would read every request to find those that may be seen.
    visible = HumanRequest.objects.filter(viewer.scope("see") | viewer.started(), pk=OuterRef("request_id"))
    mine = Notice.objects.filter(user_id=viewer.user.pk, channel=BROWSER)
    plain = Q(request__isnull=True) & (Q(workflow="") | viewer.scope("see"))
    return mine.filter(plain | Q(Exists(visible)))


def _view(row: Notice, called: Mapping[str, str]) -> NoticeView:
    request = row.request
    payload = document(row, "payload")
    name = str(payload.get("workflow") or "")
    decided = request is not None and (request.answered is not None or request.closed is not None)
    return NoticeView.trusted(
        id=row.pk,
        kind=row.kind,
        headline=payload.get(UNREADABLE) or headline(row.kind, payload),
        text=str(payload.get("text") or "")[:300],
        run=called.get(_run_of(row)) or titles().get(name, name),
        at=row.created,
        read=row.read is not None,
        moot=row.kind in ANSWERABLE and decided,
        request=row.request_id or "",
        page="" if row.request_id else page_of(row.kind, payload),
    )


def _run_of(row: Notice) -> str:
    return str(document(row, "payload").get("run") or "")
