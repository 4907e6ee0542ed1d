"""Tells those who may answer that a request has opened. Found by its row, so nothing that opens requests need know.

Ten thousand at once must not bury anybody: who has many unread announcements gets no more, the inbox's count says it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from django.db import connection
from django.db.models import Count
from django.utils import timezone

from checkpoints.models import HumanRequest, Notice
from checkpoints.orm import write
from wfdash.access import Viewer
from wfdash.desk.audience import MOST, may_answer
from wfdash.desk.tell import tell
from wfdash.directory import people_who
from wfdash.notices.kinds import BROWSER
from wfdash.workflow.signals import KIND

UNREAD = 50
"""So many unread announcements, and a person gets no more until they have read some."""
AT_ONCE = 25
"""Requests announced in one transaction."""


def announce_opened(limit: int = 100) -> int:
    """Announce requests that opened, the oldest first; returns how many."""
    done = 0
    while done < limit and (count := _announce(min(AT_ONCE, limit - done))):
        done += count
    return done


def _announce(limit: int) -> int:
    untold = HumanRequest.objects.filter(told__isnull=True, closed__isnull=True, answered__isnull=True)
    if not untold.exists():
        return 0
    with write():
        rows = untold.select_related("run", "run__created_by").order_by("created")
        if connection.features.has_select_for_update_skip_locked:
            rows = rows.select_for_update(of=("self",), skip_locked=True)
        found = list(rows[:limit])
        HumanRequest.objects.filter(pk__in=[request.pk for request in found]).update(told=timezone.now())
        reviewers = {name: people_who("answer", name, limit=MOST) for name in {row.workflow for row in found}}
        unread = _unread({viewer.user.pk for viewers in reviewers.values() for viewer in viewers})
        for request in found:
            if request.kind == KIND:
                continue  # It waits for a signal: there is nobody to tell.
            _tell(request, reviewers[request.workflow], unread)
    return len(found)


def _tell(request: HumanRequest, reviewers: Sequence[Viewer], unread: Counter[int]) -> None:
    people = [user for user in may_answer(request, reviewers=reviewers) if unread[user.pk] < UNREAD]
    unread.update(user.pk for user in people)
    tell("opened", request, people)


def _unread(people: set[int]) -> Counter[int]:
    rows = Notice.objects.filter(user_id__in=people, kind="opened", channel=BROWSER, read__isnull=True)
    return Counter(dict(rows.values_list("user_id").annotate(n=Count("id")).order_by()))
