"""Signals: messages into a run, kept until a step receives them. Each is received once, in the order they were sent.

A request of kind ``signal`` waits for one. Whoever is second brings the two together: the verb that sends, the worker
that has committed the request, or the sweep. The run's lock lets one of them do it.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import OPEN, Answer, HumanRequest, Run, Signal
from checkpoints.orm import write
from checkpoints.records import Json, Phase
from wfdash.access import Viewer
from wfdash.desk import audit
from wfdash.desk.common import append_event, find_run, hint, lock_run
from wfdash.desk.judging import judge
from wfdash.desk.keys import once
from wfdash.errors import Invalid, NotAllowed, WrongState
from wfdash.schema import Problem, flaws_of, problems_of
from wfdash.workflow.signals import KIND, RULE, is_name, key_prefix, name_in

OVER = frozenset({Phase.CANCELLED, Phase.COMPLETED})
MOST_KEPT = 1_000
"""Signals that one run keeps for steps to come."""
AT_ONCE = 20
NOTHING: Mapping[tuple[str, str], list[Problem]] = {}


def send_signal(viewer: Viewer, run_id: str, name: str, value: Json = None, *, key: str | None = None) -> Signal:
    """Send a message into a run: to the step that waits for it (``taken``: its request), else kept until one does.

    For operators and those who may start runs of the workflow. ``Invalid`` with errors per field if it does not fit
    what the step waits for; ``WrongState`` if the run has ended, or keeps too many already.
    """
    if not is_name(name):
        raise Invalid([{"loc": ["name"], "msg": f"A signal's name is {RULE}"}])
    if flaws := flaws_of(value):
        raise Invalid(_at_value(flaws))
    found = find_run(viewer, run_id)
    right = _right(viewer, found)
    judged = _judge(found, name, value)
    with write(), once(viewer, key, "signal", [run_id, name, value]) as deed:
        if deed.before is not None:
            return Signal.objects.get(pk=deed.before["signal"])
        run = lock_run(found)
        _refuse_unless_open(run, name)
        _match(run)
        if problems := judged or _problems(run, name, value):
            raise Invalid(_at_value(problems))
        signal = _keep(viewer, run, name, value)
        deed.keep(signal=signal.pk)
        audit.record_run(viewer, "signal", run, right, name=name, signal=signal.pk, value=value)
        _match(run)
        signal.refresh_from_db(fields=["taken"])
    return signal


def match_signals(run_id: str) -> int:
    """Bring together what a run keeps and what waits for it; returns how many were received."""
    # By the authors' own checks too, for which a transaction is no place.
    unfit = {
        (request.pk, signal.pk): problems
        for request in _all_waiting(run_id)
        for signal in _kept_for(request)[:AT_ONCE]
        if (problems := judge(request, signal.value))
    }
    with write():
        return _match(Run.objects.select_for_update().get(pk=run_id), unfit)


def match_waiting(limit: int = 100) -> int:
    """Do so for every run in which both are there; returns for how many signals. One transaction per run."""
    kept = Signal.objects.filter(run=OuterRef("run_id"), taken__isnull=True)
    waiting = HumanRequest.objects.filter(OPEN, Exists(kept), kind=KIND).order_by("created")
    runs = dict.fromkeys(waiting.values_list("run_id", flat=True)[:limit])
    return sum(match_signals(run_id) for run_id in runs)


def _match(run: Run, unfit: Mapping[tuple[str, str], list[Problem]] = NOTHING) -> int:
    """Give each waiting request, the oldest first, the oldest signal of its name that fits; the run is locked."""
    done = 0
    for request in _all_waiting(run.pk) if run.phase not in OVER else ():
        for signal in _kept_for(request):
            problems = unfit.get((request.pk, signal.pk)) or problems_of(request.answer_schema, signal.value)
            if problems:
                _refuse(run, request, signal, problems)
            else:
                _deliver(run, request, signal)
                done += 1
                break
    return done


def _all_waiting(run_id: str) -> QuerySet[HumanRequest]:
    return HumanRequest.objects.filter(OPEN, run_id=run_id, kind=KIND).select_related("run").order_by("created", "id")


def _kept_for(request: HumanRequest) -> QuerySet[Signal]:
    kept = Signal.objects.filter(run_id=request.run_id, name=name_in(request.key), taken__isnull=True)
    return kept.select_related("by").order_by("at", "id")


def _deliver(run: Run, request: HumanRequest, signal: Signal) -> None:
    now = timezone.now()
    HumanRequest.objects.filter(pk=request.pk).update(answered=now, alarm=None)
    Answer.objects.create(request=request, value=signal.value, verdict="received", by=signal.by, at=signal.at)
    Signal.objects.filter(pk=signal.pk).update(taken=request.pk)
    told = {"name": signal.name, "key": request.key, "by": audit.name_of(signal.by)}
    append_event(run, "signal.received", told, step=request.step, wake=True)
    hint(run.id)


def _refuse(run: Run, request: HumanRequest, signal: Signal, problems: list[Problem]) -> None:
    """Put a signal aside that was kept and does not fit the step that waits: it must not hold up those behind it."""
    Signal.objects.filter(pk=signal.pk).update(taken="")
    told = {"name": signal.name, "by": audit.name_of(signal.by), "problem": str(problems[0]["msg"])}
    append_event(run, "signal.refused", told, step=request.step)


def _keep(viewer: Viewer, run: Run, name: str, value: Json) -> Signal:
    now = timezone.now()
    signal = Signal.objects.create(id=ids.new_request_id(), run=run, name=name, value=value, by=viewer.user, at=now)
    append_event(run, "signal.sent", {"by": viewer.name, "name": name, "value": value})
    return signal


def _judge(run: Run, name: str, value: Json) -> list[Problem]:
    """Judge it by the author's own checks, for which a transaction is no place."""
    waiting = _waiting(run, name)
    return judge(waiting, value) if waiting else []


def _problems(run: Run, name: str, value: Json) -> list[Problem]:
    waiting = _waiting(run, name)
    return problems_of(waiting.answer_schema, value) if waiting else []


def _waiting(run: Run, name: str) -> HumanRequest | None:
    return _all_waiting(run.pk).filter(key__startswith=key_prefix(name)).first()


def _right(viewer: Viewer, run: Run) -> str:
    right = next((right for right in ("operate", "start") if viewer.may(right, run.workflow)), "")
    if not right:
        raise NotAllowed("Only operators, and those who may start runs of this workflow, may send it signals")
    return right


def _refuse_unless_open(run: Run, name: str) -> None:
    if run.phase in OVER:
        raise WrongState(f"The run is {run.phase}: no step of it receives anything any more")
    if Signal.objects.filter(run=run, taken__isnull=True).count() >= MOST_KEPT:
        raise WrongState(f"The run keeps {MOST_KEPT} signals already that no step has received")


def _at_value(problems: list[Problem]) -> list[Problem]:
    return [{**problem, "loc": ["value", *problem["loc"]]} for problem in problems]
