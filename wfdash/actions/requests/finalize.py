"""How a reply becomes the answer: at once, or when the time to undo it has passed."""

from __future__ import annotations

import json
from datetime import datetime

from django.utils import timezone

from checkpoints.database.clock import SETTLING, database_now
from checkpoints.database.compiled import Placeholder, Update, compiled_update, insert
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import OPEN, Answer, HumanRequest, Reply
from checkpoints.records import Json, Phase
from wfdash.access.voters import names_of_voters, votes_of
from wfdash.actions.audit import entries
from wfdash.actions.common import append_request_event, lock_request, notify_inbox, notify_workers
from wfdash.actions.requests.audience import followers
from wfdash.actions.sweep_backoff import SweepBackoff
from wfdash.domain import line_comments
from wfdash.errors import NoLongerOpen
from wfdash.notifications.write import notify
from wfdash.questions.policy import Policy

ID = Placeholder("id", HumanRequest._meta.pk)

_backoff = SweepBackoff("Reply %s could not take effect")


def finalize_answer(request: HumanRequest, reply: Reply, *, heard: bool = True) -> Answer:
    """Make a reply the answer and the run due, inside the caller's transaction, the request locked. Returns the answer.

    ``NoLongerOpen`` if the request has an answer or was closed. ``reply.by`` None: a deadline. ``IntegrityError`` if
    there is an answer anyway: the transaction must end. ``heard``: False if no one else voted or commented.
    """
    now = timezone.now()
    if _answered().execute(id=request.pk, at=now) != 1:
        raise NoLongerOpen("The request has already been answered or closed")
    outcome = {"value": _with_comments_of_others(request, reply), "verdict": reply.verdict}
    given = {"by": reply.by, "at": reply.at, "acting_for": reply.acting_for}
    others = names_of_voters(request, but=reply)
    answer = Answer(request=request, others=json.dumps(others) if others else "", **outcome, **given)
    insert(answer.bound())
    request.answered, request.settles = now, None
    if reply.settles is not None:
        Reply.objects.filter(pk=reply.pk).update(settles=None)
    run = request.run
    append_request_event(
        request,
        EventKind.REQUEST_ANSWERED,
        wake=True,
        by=entries.name_of(reply.by),
        verdict=reply.verdict,
        **comments_on_lines(reply.value),
    )
    facts = {"by": reply.by.get_username() if reply.by else "", "verdict": reply.verdict}
    notify("decided", request, followers(request, but=reply.by_id, heard=heard), facts=facts)
    notify_workers(run.id)
    return answer


def mark_settling(request: HumanRequest, until: datetime) -> bool:
    """Mark a request as answered by a reply that can be undone until then. Returns False if it is no longer open."""
    if _settling().execute(id=request.pk, until=until) != 1:
        return False
    request.settles = until
    return True


@compiled_update
def _answered() -> Update:
    waiting = HumanRequest.objects.filter(pk=ID, answered__isnull=True, closed__isnull=True)
    return waiting, {"answered": Placeholder("at", HumanRequest._meta.get_field("answered")), "settles": None}


@compiled_update
def _settling() -> Update:
    until = Placeholder("until", HumanRequest._meta.get_field("settles"))
    return HumanRequest.objects.filter(OPEN, pk=ID), {"settles": until}


def comments_on_lines(value: Json) -> dict[str, Json]:
    """Return what an event says of an answer's line comments: nothing where there is none."""
    found = line_comments.listed(value)
    return {line_comments.FIELD: found} if found else {}


def _with_comments_of_others(request: HumanRequest, reply: Reply) -> Json:
    """Return the reply's value; where several people voted, the step gets what all of them said of single lines."""
    if not line_comments.shows_lines(request.card) or Policy.model_validate(request.policy or {}).need == 1:
        return reply.value
    return line_comments.with_those_of(reply.value, [vote.value for vote in votes_of(request) if vote.pk != reply.pk])


def finalize_due(limit: int = 100) -> int:
    """Finalize every reply whose time to undo has passed, one transaction each, from any process. Returns how many."""
    due = SETTLING.filter(settles__lte=database_now()).exclude(pk__in=_backoff.backed_off())
    return _backoff.run_each(list(due.values_list("id", flat=True)[:limit]), _finalize_one)


def next_finalization(after: datetime | None = None) -> datetime | None:
    """Return when the next reply takes effect (after that time), None if there is none."""
    waiting = SETTLING if after is None else SETTLING.filter(settles__gt=after)
    return waiting.values_list("settles", flat=True).first()


def _finalize_one(reply_id: str) -> bool:
    with write():
        reply = Reply.objects.select_related("request", "request__run", "by").get(pk=reply_id)
        request = lock_request(reply.request)
        reply.refresh_from_db(fields=["settles", "undone"])
        if reply.settles is None or reply.undone is not None:
            return False
        if request.closed is not None or request.run.phase in {Phase.CANCELLED, Phase.COMPLETED}:
            # Withdrawn, superseded or cancelled within those seconds: there is nothing left to answer.
            Reply.objects.filter(pk=reply.pk).update(settles=None)
            return False
        finalize_answer(request, reply)
        notify_inbox(request.workflow)
        return True
