"""Incoming webhooks that a person manages, and what came to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import OuterRef, Subquery

from checkpoints.errors import CheckpointsError
from checkpoints.models import IncomingDelivery, IncomingHook
from wfdash.access.administration import managed_by, refuse_narrow
from wfdash.access.viewer import Viewer
from wfdash.domain.hooks.signatures import SCHEMES
from wfdash.domain.invisible import visible
from wfdash.records.base import UNREADABLE

PAGE = 25
OUTCOMES = ("started", "signalled", "duplicate", "refused")


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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
    viewer: Viewer, hook: IncomingHook, *, outcome: str = "", before: str = "", limit: int = PAGE
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
