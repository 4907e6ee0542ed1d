"""How a reply becomes the answer: at once, or when the time has passed in which it may be taken back."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from checkpoints.models import Answer, HumanRequest, Reply
from checkpoints.orm import write
from checkpoints.records import Phase
from wfdash.desk import audit
from wfdash.desk.audience import followers
from wfdash.desk.common import append_request_event, hint, lock_request, tell_inbox
from wfdash.desk.tell import tell
from wfdash.errors import NoLongerOpen


def settle(request: HumanRequest, reply: Reply) -> Answer:
    """Make a reply the answer and the run due, inside the caller's transaction, the request locked.

    ``NoLongerOpen`` if the request has an answer or was closed. ``reply.by`` None: a deadline. ``IntegrityError`` if
    there is an answer all the same: the transaction must end.
    """
    now = timezone.now()
    unanswered = HumanRequest.objects.filter(pk=request.pk, answered__isnull=True, closed__isnull=True)
    if unanswered.update(answered=now, settles=None) != 1:
        raise NoLongerOpen("The request was answered or closed meanwhile")
    answer = Answer.objects.create(request=request, value=reply.value, verdict=reply.verdict, by=reply.by, at=reply.at)
    request.answered, request.settles = now, None
    if reply.settles is not None:
        Reply.objects.filter(pk=reply.pk).update(settles=None)
    run = request.run
    append_request_event(request, "request.answered", wake=True, by=audit.name_of(reply.by), verdict=reply.verdict)
    told = {"by": reply.by.get_username() if reply.by else "", "verdict": reply.verdict}
    tell("decided", request, followers(request, but=reply.by_id), facts=told)
    hint(run.id)
    return answer


def settle_due(limit: int = 100) -> int:
    """Let every reply take effect whose time has come; returns how many. One transaction each, from any process."""
    now = timezone.now()
    due = Reply.objects.filter(settles__lte=now, undone__isnull=True).order_by("settles").values_list("id", flat=True)
    return sum(_settle_one(reply) for reply in list(due[:limit]))


def next_settling(after: datetime | None = None) -> datetime | None:
    """Return when the next reply takes effect (after that moment), None if none waits."""
    waiting = Reply.objects.filter(settles__isnull=False, undone__isnull=True).order_by("settles")
    if after is not None:
        waiting = waiting.filter(settles__gt=after)
    return waiting.values_list("settles", flat=True).first()


def _settle_one(reply_id: str) -> bool:
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
        settle(request, reply)
        tell_inbox(request.workflow)
        return True
