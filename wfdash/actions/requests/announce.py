"""Tells those who may answer that a request has opened, and operators and voters when it can no longer be decided.

Requests are found by their rows, whatever opened them. Ten thousand at once must not flood anyone: a person with many
unread announcements gets no more until they have read some; the inbox shows the count.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence

from django.db.models import Count
from django.utils import timezone

from checkpoints.database.alias import connection
from checkpoints.database.storage import write
from checkpoints.errors import Unreadable
from checkpoints.events import EventKind
from checkpoints.models import OPEN, HumanRequest, Notice
from checkpoints.models.user_model import User
from checkpoints.records import SIGNAL
from wfdash.access.directory import decidability_of, people_who, votes_of
from wfdash.access.viewer import Viewer, origin_of
from wfdash.actions.common import REQUEST, append_request_event, lock_request, notify_inbox
from wfdash.actions.pacing import SweepBackoff
from wfdash.notifications.preferences import BROWSER
from wfdash.notifications.write import notify

log = logging.getLogger(__name__)

MAX_UNREAD_ANNOUNCEMENTS = 50
"""Unread announcements per person beyond which no more are sent."""
AT_ONCE = 25
"""Requests announced in one transaction."""
UNANNOUNCED = HumanRequest.objects.filter(
    told__isnull=True, closed__isnull=True, answered__isnull=True, settles__isnull=True
)

_backoff = SweepBackoff("Request %s could not be announced")


def announce_opened(limit: int = 100) -> int:
    """Announce requests that opened, the oldest first. Returns how many."""
    rows = UNANNOUNCED.exclude(pk__in=_backoff.backed_off()).order_by("created").values_list("pk", flat=True)
    found = list(rows[:limit])
    return sum(_backoff.run_batch(found[at : at + AT_ONCE], _announce) for at in range(0, len(found), AT_ONCE))


def _announce(requests: Sequence[str]) -> int:
    with write():
        rows = UNANNOUNCED.filter(pk__in=requests).select_related("run", "run__created_by").order_by("created")
        if connection().features.has_select_for_update_skip_locked:
            rows = rows.select_for_update(of=("self",), skip_locked=True)
        found = list(rows)
        HumanRequest.objects.filter(pk__in=[request.pk for request in found]).update(told=timezone.now())
        reviewers = {name: people_who("answer", name, limit=MAX_PEOPLE) for name in {row.workflow for row in found}}
        unread = _unread({viewer.user.pk for viewers in reviewers.values() for viewer in viewers})
        for request in found:
            if request.kind == SIGNAL:
                continue  # It waits for a signal, so there is no one to notify.
            _notify_reviewers(request, reviewers[request.workflow], unread)
    # After the transaction: each that cannot be decided locks its run, and runs are locked before requests.
    check_opened(found, reviewers)
    return len(found)


def _notify_reviewers(request: HumanRequest, reviewers: Sequence[Viewer], unread: Counter[int]) -> None:
    people = [user for user in may_answer(request, reviewers=reviewers) if unread[user.pk] < MAX_UNREAD_ANNOUNCEMENTS]
    unread.update(user.pk for user in people)
    try:
        notify("opened", request, people)
    except Unreadable as error:
        # The others of its batch are announced; its reviewers find it in the inbox.
        log.error("A request was not announced: %s", error)


def _unread(people: set[int]) -> Counter[int]:
    rows = Notice.objects.filter(user_id__in=people, kind="opened", channel=BROWSER, read__isnull=True)
    return Counter(dict(rows.values_list("user_id").annotate(n=Count("id")).order_by()))


# The people a request concerns: those who may answer it, and those who are notified of the decision.

MAX_PEOPLE = 2_000
"""How many people with the right to answer are examined."""
MAX_NOTIFIED = 200
"""How many of them are notified at most."""


def may_answer(
    request: HumanRequest, *, by: Sequence[str] | None = None, reviewers: Iterable[Viewer] | None = None
) -> list[User]:
    """Return the people who may answer now, including delegates and the assignee. ``request.run`` is loaded.

    ``by``: only those of them that are named here, by user or group. ``reviewers``: everyone who may answer requests of
    its workflow, if they are known already.
    """
    origin = origin_of(request.run)
    known = people_who("answer", request.workflow, limit=MAX_PEOPLE) if reviewers is None else reviewers
    named = request.by if by is None else by
    found = [
        viewer.user
        for viewer in known
        if viewer.addressed(list(named), request.not_by, origin)
        or (by is None and viewer.user.pk == request.assignee_id and viewer.addressed((), request.not_by, origin))
    ]
    return found[:MAX_NOTIFIED]


_unchecked = SweepBackoff("Could not check whether request %s can be decided")


def update_decidability(request: HumanRequest) -> None:
    """Store whether the request can be decided, inside the caller's transaction, the request locked.

    When it no longer can: an event, and a notification to the operators and to those who voted.
    """
    if request.kind == SIGNAL:
        return
    votes = votes_of(request)
    found = decidability_of(request, replies=votes)
    if found.problem == request.stuck:
        return
    if HumanRequest.objects.filter(OPEN, pk=request.pk).update(stuck=found.problem) != 1:
        return
    request.stuck = found.problem
    if found.problem:
        append_request_event(request, EventKind.REQUEST_UNANSWERABLE, problem=found.problem, words=found.words)
        operators = [person.user for person in people_who("operate", request.workflow)]
        voters: list[User] = [vote.by for vote in votes if vote.by is not None]
        notify("unanswerable", request, [*operators, *voters], facts={"text": f"{found.words} {found.remedy}"})
    notify_inbox(request.workflow)


def check_opened(requests: Sequence[HumanRequest], reviewers: dict[str, list[Viewer]]) -> None:
    """Record which of these new requests no one can decide. ``reviewers``: by workflow, everyone who may answer."""
    asked = {request.pk: request for request in requests if request.kind != SIGNAL}

    def check(request_id: str) -> int:
        request = asked[request_id]
        found = decidability_of(request, reviewers=reviewers[request.workflow], replies=())
        return _check(request_id) if found.problem else 0

    _unchecked.run_each(list(asked), check)


def recheck_stuck(limit: int = 100) -> int:
    """Check undecidable open requests again, because groups get members. Returns how many were checked."""
    stuck = HumanRequest.objects.filter(OPEN).exclude(stuck="").order_by("?").values_list("pk", flat=True)
    return _unchecked.run_each(list(stuck.exclude(pk__in=_unchecked.backed_off())[:limit]), _check)


def _check(request_id: str) -> int:
    with write():
        found = REQUEST().first(id=request_id)
        if found is not None:
            update_decidability(lock_request(found))
    return 1
