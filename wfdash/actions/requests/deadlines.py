"""Reminders, escalations and deadlines of a policy. Each is a row and fires once.

Any number of processes may sweep, late or repeatedly: the row's lock and a conditional update let one of them do it.
The clock is the database's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from checkpoints import ids
from checkpoints.database.clock import ALARMS, WAITING, database_now
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import HumanRequest, Reply, Run
from checkpoints.models.fields import encrypted_for
from checkpoints.models.user_model import User
from checkpoints.records import SIGNAL, ErrorInfo, Phase
from checkpoints.rules import DEADLINE, TIMED, card_subject
from wfdash.access.viewer import Viewer
from wfdash.actions import audit, pacing
from wfdash.actions.common import (
    REQUEST,
    append_event,
    append_request_event,
    fence,
    find_request,
    lock_request,
    notify_inbox,
    notify_workers,
)
from wfdash.actions.pacing import SweepBackoff, idempotent
from wfdash.actions.requests.announce import may_answer
from wfdash.actions.requests.answer import reason_in, verdict_of
from wfdash.actions.requests.finalize import finalize_answer, right_of
from wfdash.domain.errors import Invalid, NotAllowed, WrongState
from wfdash.domain.hash_chain import fingerprint
from wfdash.domain.votes import outcome_of
from wfdash.notifications.write import notify
from wfdash.questions.choices import name_in
from wfdash.questions.policy import Moment, Policy, default_answer
from wfdash.values.schemas.validate import answer_problems

_backoff = SweepBackoff("The alarm of request %s could not be dealt with")

FURTHEST = timedelta(days=3653)
"""How far ahead a deadline may be. The databases' last days become years that Python cannot read in other zones."""


def next_alarm(after: datetime) -> datetime | None:
    """Return when the next alarm is due after this time, None if none is set."""
    return ALARMS.filter(alarm__gt=after).values_list("alarm", flat=True).first()


def fire_alarms(limit: int = 100) -> int:
    """Apply what is due by policy, the oldest first, one transaction each. Returns for how many requests."""
    late = ALARMS.filter(alarm__lte=database_now()).exclude(pk__in=_backoff.backed_off())
    return _backoff.run_each(list(late.order_by("alarm", "pk").values_list("pk", flat=True)[:limit]), _fire)


def extend_deadline(viewer: Viewer, request_id: str, due: datetime, *, key: str | None = None) -> HumanRequest:
    """Move an open request's deadline, with its reminder, escalation and default answer, and return the request.

    For operators and the assignee. Bringing it forward where a default answer counts at the deadline: only for people
    who could give that answer. ``Invalid`` for a time that has passed, ``WrongState`` if it is no longer pending,
    ``NotAllowed``, ``NotFound``.
    """
    with write(), idempotent(viewer, key, "extend", [request_id, due.isoformat()]) as call:
        request = lock_request(find_request(viewer, request_id))
        if call.previous_result is not None:
            return request
        if not viewer.may("operate", request.workflow) and request.assignee_id != viewer.user.pk:
            raise NotAllowed("Only operators and the assignee can change the due date")
        pacing.charge(viewer, "extend")
        now = database_now()
        if due <= now or due - now > FURTHEST:
            words = "Enter a time in the future" if due <= now else "Enter a time within the next ten years"
            raise Invalid.at("due", words)
        # Raise ``NotAllowed`` for people who would make a default answer count sooner and may not decide the request.
        later = request.due is not None and due >= request.due
        default = Policy.model_validate(request.policy).on_timeout
        if not later and default is not None and default != "fail":
            right_of(viewer, request, override=viewer.right_to(request) is None, on_behalf_of="")
        alarm = Policy.model_validate(request.policy).next_alarm(request.created, due, now)
        if HumanRequest.objects.filter(WAITING, pk=request.pk).update(due=due, alarm=alarm) != 1:
            raise WrongState("This request no longer needs an answer")
        moved = {"from": request.due.isoformat() if request.due else None, "to": due.isoformat()}
        request.due, request.alarm = due, alarm
        append_request_event(request, EventKind.REQUEST_EXTENDED, by=viewer.name, due=due.isoformat())
        right = "operate" if viewer.may("operate", request.workflow) else "assigned"
        _record(viewer, request, "extend", moved, right)
        notify_inbox(request.workflow)
    return request


def due_moments(
    policy: Policy, opened: datetime, due: datetime | None, alarm: datetime, now: datetime
) -> tuple[list[Moment], datetime | None]:
    """Return what is due when an alarm goes off, in order, and when the next one is. Pure.

    The alarm was set by another clock than ``opened``, so it means the moment nearest to it. A reminder of what has
    passed is left out.
    """
    moments = list(policy.moments(opened, due))
    if not moments:
        return [], None
    first = min(range(len(moments)), key=lambda n: abs(moments[n][0] - alarm))
    passed = max([first, *(n for n, (at, _) in enumerate(moments) if at <= now)])
    asked = [what for _, what in moments[first : passed + 1] if what != "remind" or due is None or due > now]
    return asked, moments[passed + 1][0] if passed + 1 < len(moments) else None


def _fire(request_id: str) -> bool:
    """Apply one request's alarm. False if another process did, or an answer came first."""
    with write():
        found = REQUEST().first(id=request_id)
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
        notify_inbox(request.workflow)
        return True


def _remind(request: HumanRequest, policy: Policy, now: datetime) -> None:
    voted = Reply.objects.filter(request=request, undone__isnull=True).values_list("by_id", flat=True)
    people = [user for user in may_answer(request) if user.pk not in set(voted)]
    _notify_once(request, "reminder", people)
    append_request_event(request, EventKind.REQUEST_REMINDED, people=len(people))
    _record(None, request, "remind", {"people": [user.get_username() for user in people]})


def _escalate(request: HumanRequest, policy: Policy, now: datetime) -> None:
    if request.by:
        request.by = [*request.by, *(name for name in policy.escalate if name not in request.by)]
        HumanRequest.objects.filter(pk=request.pk).update(by=request.by)
    people = may_answer(request, by=policy.escalate)
    _notify_once(request, "escalated", people)
    append_request_event(request, EventKind.REQUEST_ESCALATED, to=list(policy.escalate))
    _record(None, request, "escalate", {"to": list(policy.escalate), "by": request.by})


def _time_out(request: HumanRequest, policy: Policy, now: datetime) -> None:
    value = default_answer(policy.on_timeout, request.answer_schema)
    if policy.on_timeout == "fail":
        _fail(request, _late(request))
    elif problems := answer_problems(request.card, request.answer_schema, value):
        _fail(request, f"{_unanswered(request)}, and the default answer is invalid: {problems[0]['msg']}")
    else:
        _answer(request, value, now)


def _late(request: HumanRequest) -> str:
    if request.kind == SIGNAL:
        return f"Signal {name_in(request.key)!r} was not received in time"
    return _unanswered(request)


def _answer(request: HumanRequest, value: Any, now: datetime) -> None:
    verdict, seen = verdict_of(value), fingerprint(request.card, request.answer_schema)
    reply = Reply.objects.create(
        id=ids.new_request_id(),
        request=request,
        via="deadline",
        right=DEADLINE,
        value=value,
        verdict=verdict,
        stands=outcome_of(verdict, request.card, override=False),
        reason=reason_in(value),
        seen=seen,
        at=now,
    )
    finalize_answer(request, reply)
    _record(None, request, "answer", {"verdict": verdict, "value": value, "reply": reply.pk, "seen": seen})


def _fail(request: HumanRequest, words: str) -> None:
    """Fail the run; the request stays open. A paused or failed run is not changed."""
    run, now = request.run, timezone.now()
    error = ErrorInfo(type="DeadlinePassed", message=words, step=request.step).model_dump()
    stored = encrypted_for(Run, "error", error, run.pk)
    going = Run.objects.filter(pk=run.pk, phase__in=[Phase.READY, *TIMED])
    failed = going.update(phase=Phase.FAILED, error=stored, finished=now, wake_at=None, updated=now) == 1
    if failed:
        fence(run)
        shown = {name: value for name, value in error.items() if name != "traceback"}
        append_event(run, EventKind.RUN_FAILED.draft(error=shown))
        notify_workers(run.pk)
    if request.kind != SIGNAL:
        notify("expired", request, [], facts={"text": words})
    _record(None, request, "fail", {"words": words, "failed": failed})


ACTS: dict[Moment, Callable[[HumanRequest, Policy, datetime], None]] = {
    "remind": _remind,
    "escalate": _escalate,
    "timeout": _time_out,
}


def _notify_once(request: HumanRequest, kind: str, people: Sequence[User]) -> None:
    at = request.due.isoformat() if request.due else ""
    notify(kind, request, people, once=f"{kind}:{request.pk}:{at}")


def _record(viewer: Viewer | None, request: HumanRequest, verb: str, facts: dict[str, Any], right: str = "") -> None:
    recorded = {"subject": card_subject(request.card, request.step), **facts}
    audit.record_request(viewer, verb, request, recorded, right=right or DEADLINE)


def _unanswered(request: HumanRequest) -> str:
    return f"{card_subject(request.card, request.step)!r} was not answered in time"
