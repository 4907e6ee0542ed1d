"""The API of one's notifications."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from wfdash.actions.account.preferences import read_notices
from wfdash.api.auth import viewer_of
from wfdash.api.once import once
from wfdash.api.params import Limit
from wfdash.queries.account.notifications import count_unread, notices
from wfdash.records.account import NotificationPage, ReadCount, ReadNotifications

router = Router()


@router.get("/notifications", response=NotificationPage)
def list_notifications(request: HttpRequest, after: str = "", limit: Limit = 30) -> Any:
    """Return your notifications, newest first."""
    viewer = viewer_of(request)
    found = notices(viewer, before=after, limit=limit)
    return {"items": found.items, "next": found.older, "unread": count_unread(viewer)}


@router.post("/notifications/read", response=ReadCount)
def read_notifications(request: HttpRequest, given: ReadNotifications) -> Any:
    """Mark notifications as read: the given ones, or all. Doing it twice changes nothing."""
    viewer = viewer_of(request)
    return once(request, "read", given.ids, lambda: {"read": read_notices(viewer, given.ids)})
