"""What a policy says of time, carried out: reminders, escalations, deadlines. Rows, and each fires once.

Any number of processes may sweep, late or again: the row's lock and a conditional update let one of them do it.
The clock is the database's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import DatabaseError, connection
from django.db.models import Q
from django.utils import timezone

from checkpoints import ids
from checkpoints.fields import sealed_for
from checkpoints.models import OPEN, HumanRequest, Reply, Run
from checkpoints.orm import run_statement, write
from checkpoints.records import ErrorInfo, Phase
from checkpoints.rules import TIMED
from wfdash.access import Viewer
from wfdash.desk import audit
from wfdash.desk.audience import may_answer
from wfdash.desk.common import append_event, append_request_event, fence, find_request, hint, lock_request, tell_inbox
from wfdash.desk.keys import once
from wfdash.desk.requests import reason_in, verdict_of
from wfdash.desk.settling import settle
from wfdash.desk.tally import stands_as
from wfdash.desk.tell import tell
from wfdash.errors import Invalid, NotAllowed, WrongState
from wfdash.schema import problems_of
from wfdash.seen import fingerprint
from wfdash.workflow.policy import Moment, Policy, default_answer
from wfdash.workflow.signals import KIND, name_in

log = logging.getLogger(__name__)

OVER = (Phase.CANCELLED, Phase.COMPLETED)
WAITING = OPEN & ~Q(run__phase__in=OVER)
"""Requests whose clock runs. One that is decided but may be taken back waits with its alarm: the answer came first."""
CLOCKS = {"postgresql": "SELECT clock_timestamp()", "mysql": "SELECT UTC_TIMESTAMP(6)"}


def database_now() -> datetime:
    """Return the database's time; SQLite's is this process's."""
    if connection.vendor not in CLOCKS:
        return timezone.now()
    now: datetime = run_statement(connection, CLOCKS[connection.vendor])[0][0]
    return now if now.tzinfo else now.replace(tzinfo=UTC)


def next_alarm(after: datetime) -> datetime | None:
    """Return when the next alarm goes off after this moment, None if none is set."""
    set_ = HumanRequest.objects.filter(WAITING, alarm__gt=after).order_by("alarm")
    return set_.values_list("alarm", flat=True).first()


def fire_alarms(limit: int = 100) -> int:
    """Do what is due by policy, the oldest first, one transaction each; returns for how many requests."""
    late = HumanRequest.objects.filter(WAITING, alarm__lte=database_now()).order_by("alarm", "pk")
    return sum(_fire_safely(request) for request in list(late.values_list("pk", flat=True)[:limit]))


def extend_deadline(viewer: Viewer, request_id: str, due: datetime, *, key: str | None = None) -> HumanRequest:
    """Move an open request's deadline; reminder, escalation and default answer move along. Operators, the assignee.

    ``Invalid`` for a time that has passed, ``WrongState`` if it no longer waits, ``NotAllowed``, ``NotFound``.
    """
    with write(), once(viewer, key, "extend", [request_id, due.isoformat()]) as deed:
        request = lock_request(find_request(viewer, request_id))
        if deed.before is not None:
            return request
        if not viewer.may("operate", request.workflow) and request.assignee_id != viewer.user.pk:
            raise NotAllowed("Only an operator, or whom it is assigned to, may move a deadline")
        now = database_now()
        if due <= now:
            raise Invalid([{"loc": ["due"], "msg": "Give a time that has not passed"}])
        alarm = Policy.model_validate(request.policy).next_alarm(request.created, due, now)
        if HumanRequest.objects.filter(WAITING, pk=request.pk).update(due=due, alarm=alarm) != 1:
            raise WrongState("This request no longer waits for an answer")
        moved = {"from": request.due.isoformat() if request.due else None, "to": due.isoformat()}
        request.due, request.alarm = due, alarm
        append_request_event(request, "request.extended", by=viewer.name, due=due.isoformat())
        right = "operate" if viewer.may("operate", request.workflow) else "assigned"
        _record(viewer, request, "extend", moved, right)
        tell_inbox(request.workflow)
    return request


def due_moments(
    policy: Policy, opened: datetime, due: datetime | None, alarm: datetime, now: datetime
) -> tuple[list[Moment], datetime | None]:
    """Return what an alarm that went off asks for, in order, and when the next one is. Pure.

    The alarm was set by another clock than ``opened``, so it stands for the moment nearest to it. A reminder of what
    has passed is left out.
    """
    moments = list(policy.moments(opened, due))
    if not moments:
        return [], None
    first = min(range(len(moments)), key=lambda n: abs(moments[n][0] - alarm))
    passed = max([first, *(n for n, (at, _) in enumerate(moments) if at <= now)])
    asked = [what for _, what in moments[first : passed + 1] if what != "remind" or due is None or due > now]
    return asked, moments[passed + 1][0] if passed + 1 < len(moments) else None


def _fire_safely(request_id: str) -> bool:
    """Let no request that cannot be dealt with keep the others waiting; it is tried again."""
    try:
        return _fire(request_id)
    except DatabaseError:
        raise
    except Exception:
        log.exception("The alarm of request %s could not be dealt with; trying again", request_id)
        return False


def _fire(request_id: str) -> bool:
    """Do what one request's alarm asks for; False if somebody else did, or an answer came first."""
    with write():
        found = HumanRequest.objects.select_related("run", "run__created_by").filter(pk=request_id).first()
        if found is None:
            return False
        request, now = lock_request(found), database_now()
        if request.alarm is None or request.alarm > now:
            return False
        policy = Policy.model_validate(request.policy)
        asked, alarm = due_moments(policy, request.created, request.due, request.alarm, now)
        ours = HumanRequest.objects.filter(WAITING, pk=request.pk, alarm__lte=now)
        if ours.update(alarm=alarm) != 1:
            return False
        for what in asked:
            ACTS[what](request, policy, now)
        tell_inbox(request.workflow)
        return True


def _remind(request: HumanRequest, policy: Policy, now: datetime) -> None:
    voted = Reply.objects.filter(request=request, undone__isnull=True).values_list("by_id", flat=True)
    people = [user for user in may_answer(request) if user.pk not in set(voted)]
    _tell(request, "reminder", people)
    append_request_event(request, "request.reminded", people=len(people))
    _record(None, request, "remind", {"people": [user.get_username() for user in people]})


def _escalate(request: HumanRequest, policy: Policy, now: datetime) -> None:
    if request.by:
        request.by = [*request.by, *(name for name in policy.escalate if name not in request.by)]
        HumanRequest.objects.filter(pk=request.pk).update(by=request.by)
    people = may_answer(request, by=policy.escalate)
    _tell(request, "escalated", people)
    append_request_event(request, "request.escalated", to=list(policy.escalate))
    _record(None, request, "escalate", {"to": list(policy.escalate), "by": request.by})


def _time_out(request: HumanRequest, policy: Policy, now: datetime) -> None:
    value = default_answer(policy.on_timeout, request.answer_schema)
    if policy.on_timeout == "fail":
        _fail(request, _late(request))
    elif problems := problems_of(request.answer_schema, value):
        _fail(
            request,
            f"Nobody answered {_subject(request)!r} in time, and the default answer is none: {problems[0]['msg']}",
        )
    else:
        _answer(request, value, now)


def _late(request: HumanRequest) -> str:
    if request.kind == KIND:
        return f"The signal {name_in(request.key)!r} did not come in time"
    return f"Nobody answered {_subject(request)!r} in time"


def _answer(request: HumanRequest, value: Any, now: datetime) -> None:
    verdict, seen = verdict_of(value), fingerprint(request.card, request.answer_schema)
    reply = Reply.objects.create(
        id=ids.new_request_id(),
        request=request,
        via="deadline",
        right=audit.DEADLINE,
        value=value,
        verdict=verdict,
        stands=stands_as(verdict, request.card, override=False),
        reason=reason_in(value),
        seen=seen,
        at=now,
    )
    settle(request, reply)
    _record(None, request, "answer", {"verdict": verdict, "value": value, "reply": reply.pk, "seen": seen})


def _fail(request: HumanRequest, words: str) -> None:
    """Let the run fail; the request stays open. A run that is paused, or has failed already, is left as it is."""
    run, now = request.run, timezone.now()
    error = ErrorInfo(type="DeadlinePassed", message=words, step=request.step).model_dump()
    stored = sealed_for(Run, "error", error, run.pk)
    going = Run.objects.filter(pk=run.pk, phase__in=[Phase.READY, *TIMED])
    failed = going.update(phase=Phase.FAILED, error=stored, finished=now, wake_at=None, updated=now) == 1
    if failed:
        fence(run)
        shown = {name: value for name, value in error.items() if name != "traceback"}
        append_event(run, "run.failed", {"error": shown})
        hint(run.pk)
    _record(None, request, "fail", {"words": words, "failed": failed})


ACTS: dict[Moment, Callable[[HumanRequest, Policy, datetime], None]] = {
    "remind": _remind,
    "escalate": _escalate,
    "timeout": _time_out,
}


def _tell(request: HumanRequest, kind: str, people: Sequence[User]) -> None:
    at = request.due.isoformat() if request.due else ""
    tell(kind, request, people, once=f"{kind}:{request.pk}:{at}")


def _record(viewer: Viewer | None, request: HumanRequest, verb: str, facts: dict[str, Any], right: str = "") -> None:
    told = {"subject": _subject(request), **facts}
    audit.record_request(viewer, verb, request, told, right=right or audit.DEADLINE)


def _subject(request: HumanRequest) -> str:
    return str(request.card.get("subject") or request.step)
