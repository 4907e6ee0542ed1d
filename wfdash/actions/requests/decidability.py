"""Records whether a request can still be decided, and notifies operators and voters when it no longer can."""

from __future__ import annotations

from collections.abc import Sequence

from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import OPEN, HumanRequest
from checkpoints.models.user_model import User
from checkpoints.records import SIGNAL
from wfdash.access.directory import decidability_of, people_who, votes_of
from wfdash.access.viewer import Viewer
from wfdash.actions.common import append_request_event, lock_request, notify_inbox
from wfdash.actions.pacing import SweepBackoff
from wfdash.notifications.write import notify

_backoff = SweepBackoff("Could not check whether request %s can be decided")


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

    _backoff.run_each(list(asked), check)


def recheck_stuck(limit: int = 100) -> int:
    """Check undecidable open requests again, because groups get members. Returns how many were checked."""
    stuck = HumanRequest.objects.filter(OPEN).exclude(stuck="").order_by("?").values_list("pk", flat=True)
    return _backoff.run_each(list(stuck.exclude(pk__in=_backoff.backed_off())[:limit]), _check)


def _check(request_id: str) -> int:
    with write():
        rows = HumanRequest.objects.select_related("run", "run__created_by").filter(pk=request_id)
        found = rows.first()
        if found is not None:
            update_decidability(lock_request(found))
    return 1
