"""Verbs on requests: answer. First answer wins; a refused one leaves the request open."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.utils import timezone

from checkpoints.models import Answer, HumanRequest, Run
from checkpoints.orm import write
from checkpoints.records import Json, Phase
from checkpoints.rules import TIMED
from wfdash.access import Viewer
from wfdash.desk.common import append_event, find_request, hint, lock_request, tell_inbox
from wfdash.errors import AlreadyAnswered, Invalid, NoLongerOpen, NotAllowed
from wfdash.schema import Problem, problems_of


def answer_request(viewer: Viewer, request_id: str, value: Json, *, verdict: str = "") -> Answer:
    """Accept an answer, durably, and make the run due. The first one wins.

    ``Invalid`` (nothing changed, the request stays open), ``AlreadyAnswered`` (facts: by, at, value, verdict),
    ``NoLongerOpen``, ``NotAllowed``, ``NotFound``.
    """
    with write():
        request = lock_request(find_request(viewer, request_id))
        _refuse_unless_addressed(viewer, request)
        _refuse_unless_open(request)
        problems = problems_of(request.answer_schema, value) or _contradiction(value, verdict)
        if problems:
            raise Invalid(problems)
        answer = _accept(viewer, request, value, verdict_of(value))
        run = request.run
        append_event(
            run,
            "request.answered",
            {
                "request": request.id,
                "key": request.key,
                "by": viewer.name,
                "verdict": answer.verdict,
                "subject": str(request.card.get("subject") or ""),
            },
            step=request.step,
        )
        Run.objects.filter(pk=run.pk, phase__in=TIMED).update(phase=Phase.READY)
        hint(run.id)
        tell_inbox(request.workflow)
    return answer


def verdict_of(value: Json) -> str:
    """Return the action an answer chose, ``answered`` where the request has no actions."""
    action = value.get("action") if isinstance(value, dict) else None
    return str(action)[:40] if action else "answered"


def _contradiction(value: Json, verdict: str) -> list[Problem]:
    """A verdict is what the answer itself says: the record must not tell of an approval that was none."""
    said = verdict_of(value)
    return [{"loc": ["verdict"], "msg": f"The answer says {said}"}] if verdict[:40] not in {"", said} else []


def _refuse_unless_addressed(viewer: Viewer, request: HumanRequest) -> None:
    requester = request.run.created_by.get_username() if request.run.created_by else None
    if not viewer.may("answer", request.workflow):
        raise NotAllowed("You may not answer requests of this workflow: ask one of its admins")
    if not viewer.addressed(request.by, request.not_by, requester):
        raise NotAllowed("This request is addressed to others, or needs a second person")


def _refuse_unless_open(request: HumanRequest) -> None:
    if request.answered is not None:
        raise _already(request)
    if request.closed is not None:
        raise NoLongerOpen(f"This request is closed: {request.closed_as}", closed_as=request.closed_as)
    if request.run.phase in {Phase.CANCELLED, Phase.COMPLETED}:
        raise NoLongerOpen(f"The run is {request.run.phase}")


def _accept(viewer: Viewer, request: HumanRequest, value: Json, verdict: str) -> Answer:
    """Insert the answer; of any number at once exactly one gets through, by the row and by the primary key."""
    now = timezone.now()
    still_open = HumanRequest.objects.filter(pk=request.pk, answered__isnull=True, closed__isnull=True)
    if still_open.update(answered=now) != 1:
        raise _already(HumanRequest.objects.get(pk=request.pk))
    try:
        with transaction.atomic():
            return Answer.objects.create(request=request, value=value, verdict=verdict, by=viewer.user, at=now)
    except IntegrityError:
        raise _already(request) from None


def _already(request: HumanRequest) -> Exception:
    first = Answer.objects.select_related("by").filter(request=request).first()
    if first is None:
        return NoLongerOpen(f"This request is closed: {request.closed_as}", closed_as=request.closed_as)
    by = first.by.get_username() if first.by else "somebody"
    facts = {"by": by, "at": first.at.isoformat(), "value": first.value, "verdict": first.verdict}
    return AlreadyAnswered(f"{by} answered first ({first.verdict}, {first.at:%Y-%m-%d %H:%M} UTC)", **facts)
