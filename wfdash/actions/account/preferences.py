"""Notification preferences and read notifications. Everyone changes only their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import time

from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.models import Notice, Preference
from wfdash import pubsub
from wfdash.access.administration import refuse_narrow
from wfdash.access.viewer import Viewer
from wfdash.domain.cron import known_zones
from wfdash.errors import Invalid
from wfdash.notifications.kinds import BROWSER, KINDS, PERSONAL
from wfdash.notifications.preferences import DIGESTS, Preferences, read_time
from wfdash.schemas.validate import Problem


def set_preferences(
    viewer: Viewer,
    *,
    channels: Mapping[str, Collection[str]],
    zone: str,
    quiet: Sequence[str] = (),
    digest: str = "",
    digest_at: str = "08:00",
) -> Preferences:
    """Store a person's notification preferences. ``quiet``: from and to (``"22:00"``), or None.

    ``Invalid`` with errors per field.
    """
    refuse_narrow(viewer)
    problems: list[Problem] = []
    clocks = {name: _time(name, text, problems) for name, text in zip(("quiet_from", "quiet_to"), quiet, strict=False)}
    at = _time("digest_at", digest_at, problems)
    if zone not in known_zones():
        problems.append({"loc": ["zone"], "msg": "Unknown time zone. Use a name such as Europe/Berlin"})
    if digest not in DIGESTS:
        problems.append({"loc": ["digest"], "msg": "Select one of the list"})
    if problems:
        raise Invalid(problems)
    wishes = Preferences(
        channels={kind: frozenset(chosen) & frozenset(PERSONAL) for kind, chosen in channels.items() if kind in KINDS},
        zone=zone,
        quiet=(clocks["quiet_from"], clocks["quiet_to"]) if len(clocks) == 2 else None,
        digest=digest,
        digest_at=at,
    )
    with write():
        Preference.objects.update_or_create(user=viewer.user, defaults={"data": wishes.stored()})
    return wishes


def read_notices(viewer: Viewer, ids: Sequence[str] | None = None, *, request: str = "") -> int:
    """Mark a person's notifications as read: the given ones, those of a request, or all. Returns how many were
    unread.
    """
    refuse_narrow(viewer)
    mine = Notice.objects.filter(user=viewer.user, channel=BROWSER, read__isnull=True)
    if ids is not None:
        mine = mine.filter(pk__in=list(ids))
    if request:
        mine = mine.filter(request_id=request)
    if not mine.exists():
        return 0
    with write():
        count = mine.update(read=timezone.now())
    pubsub.notifications_changed.publish(viewer.user.pk)
    return count


def _time(name: str, text: str, problems: list[Problem]) -> time:
    try:
        return read_time(text)
    except ValueError:
        problems.append({"loc": [name], "msg": "Enter a time such as 22:00"})
        return time()
