"""Signals: messages to a run, stored until a step receives them. Each is received once, in the order they were sent.

A request of kind ``signal`` waits for one. Whichever comes second matches the two: the action that sends, the worker
that has committed the request, or the sweep. The run's lock lets one of them do it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from django.db.models import Exists, OuterRef, QuerySet, Value
from django.db.models.functions import Concat
from django.db.models.lookups import StartsWith
from django.utils import timezone

from checkpoints import ids
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import FOR_PEOPLE, OPEN, Answer, HumanRequest, Run, Signal
from checkpoints.records import SIGNAL, Json, Phase
from wfdash.access.viewer import Viewer
from wfdash.actions import audit, pacing
from wfdash.actions.common import append_event, find_run, lock_run, notify_workers
from wfdash.actions.pacing import SweepBackoff, idempotent, made_before
from wfdash.actions.requests.answer import validate_answer
from wfdash.domain.errors import Invalid, NotAllowed, WrongState
from wfdash.engines import catalog
from wfdash.queries.timemachine import secrets_in
from wfdash.questions.choices import RULE, is_name, key_prefix, name_in
from wfdash.values.schemas.secrets import masked
from wfdash.values.schemas.validate import Problem, flaws_of, problems_of

_backoff = SweepBackoff("Signals of run %s could not be received")

OVER = frozenset({Phase.CANCELLED, Phase.COMPLETED})
MOST_KEPT = 1_000
"""Signals that one run stores for later steps."""
AT_ONCE = 20
NOTHING: Mapping[tuple[str, str], list[Problem]] = {}
PREFIX = Concat(Value(f"{SIGNAL}:"), "name", Value(":"))
STORED = Signal.objects.filter(taken__isnull=True)
RECEIVABLE = HumanRequest.objects.filter(
    OPEN & ~FOR_PEOPLE,
    Exists(STORED.filter(StartsWith(OuterRef("key"), PREFIX), run=OuterRef("run_id"))),
    run__in=STORED.values("run"),
)
"""Requests that wait for a signal of which their run has stored one. Those of another name would always be found; runs
with stored signals are fewer than open requests.
"""


def send_signal(
    viewer: Viewer, run_id: str, name: str, value: Json = None, *, key: str | None = None, others: Iterable[str] = ()
) -> Signal:
    """Send a signal to a run and return it: to the step that waits for it (``taken``: its request), else stored until
    one does. ``others``: whose act it is besides the viewer's.

    For operators and those who may start runs of the workflow. ``Invalid`` with errors per field if it does not match
    what the step waits for; ``WrongState`` if the run has ended, or stores too many already.
    """
    if not is_name(name):
        raise Invalid.at("name", f"A signal's name is {RULE}")
    if flaws := flaws_of(value):
        raise Invalid(_at_value(flaws))
    found = find_run(viewer, run_id)
    right = _right(viewer, found)
    judged = _judge(found, name, value)
    with write(), idempotent(viewer, key, "signal", [run_id, name, value]) as call:
        if call.previous_result is not None:
            return made_before(Signal, call.previous_result["signal"])
        run = lock_run(found)
        if run.phase in OVER:
            raise WrongState(f"The run is {run.phase} and no longer receives signals")
        if STORED.filter(run=run).count() >= MOST_KEPT:
            raise WrongState(f"The run already has {MOST_KEPT} unreceived signals")
        pacing.charge(viewer, "signal")
        _match(run)
        if problems := judged or _problems(run, name, value):
            raise Invalid(_at_value(problems))
        named = sorted({*viewer.names, *others} - {viewer.name})
        given = {"by": viewer.user, "at": timezone.now(), "others": json.dumps(named) if named else ""}
        signal = Signal.objects.create(id=ids.new_request_id(), run=run, name=name, value=value, **given)
        append_event(run, EventKind.SIGNAL_SENT.draft(by=viewer.name, name=name, value=value))
        call.record(signal=signal.pk)
        shown = masked(value, _secrets(run, name))
        audit.record_run(viewer, "signal", run, right, name=name, signal=signal.pk, value=shown)
        _match(run)
        signal.refresh_from_db(fields=["taken"])
    return signal


def _secrets(run: Run, name: str) -> frozenset[str]:
    """Return the names of a signal's secret fields: by what waits for it, or by the workflow."""
    waiting = HumanRequest.objects.filter(~FOR_PEOPLE, run=run, key__startswith=key_prefix(name)).order_by("-created")
    return catalog.secrets_of(run.workflow).union(*(secrets_in(one) for one in waiting[:1]))


def match_signals(run_id: str) -> int:
    """Match a run's stored signals with the requests that wait for them. Returns how many were received."""
    # By the authors' own checks too, which must not run in a transaction.
    unfit = {
        (request.pk, signal.pk): problems
        for request in _all_waiting(run_id)
        for signal in _kept_for(request)[:AT_ONCE]
        if (problems := validate_answer(request, signal.value))
    }
    with write():
        return _match(Run.objects.select_for_update().get(pk=run_id), unfit)


def match_waiting(limit: int = 100) -> int:
    """Match signals in every run that has both, one transaction per run. Returns how many signals were received."""
    waiting = RECEIVABLE.exclude(run_id__in=_backoff.backed_off())
    runs = dict.fromkeys(waiting.order_by("created").values_list("run_id", flat=True)[:limit])
    return _backoff.run_each(list(runs), match_signals)


def _match(run: Run, unfit: Mapping[tuple[str, str], list[Problem]] = NOTHING) -> int:
    """Give each waiting request, the oldest first, the oldest valid signal of its name; the run is locked."""
    done = 0
    for request in _all_waiting(run.pk) if run.phase not in OVER else ():
        for signal in _kept_for(request):
            problems = unfit.get((request.pk, signal.pk)) or problems_of(request.answer_schema, signal.value)
            if problems:
                # Set aside a stored signal that is invalid for the waiting step, so that it does not block those
                # behind it.
                Signal.objects.filter(pk=signal.pk).update(taken="")
                facts = {"name": signal.name, "by": audit.name_of(signal.by), "problem": str(problems[0]["msg"])}
                append_event(run, EventKind.SIGNAL_REFUSED.draft(request.step, **facts))
            else:
                _deliver(run, request, signal)
                done += 1
                break
    return done


def _all_waiting(run_id: str) -> QuerySet[HumanRequest]:
    return (
        HumanRequest.objects.filter(OPEN & ~FOR_PEOPLE, run_id=run_id).select_related("run").order_by("created", "id")
    )


def _kept_for(request: HumanRequest) -> QuerySet[Signal]:
    kept = STORED.filter(run_id=request.run_id, name=name_in(request.key))
    return kept.select_related("by").order_by("at", "id")


def _deliver(run: Run, request: HumanRequest, signal: Signal) -> None:
    now = timezone.now()
    HumanRequest.objects.filter(pk=request.pk).update(answered=now, alarm=None)
    answer = Answer(request=request, value=signal.value, verdict="received", by=signal.by, at=signal.at)
    answer.others = signal.others
    answer.bound().save(force_insert=True)
    Signal.objects.filter(pk=signal.pk).update(taken=request.pk)
    facts = {"name": signal.name, "key": request.key, "by": audit.name_of(signal.by)}
    append_event(run, EventKind.SIGNAL_RECEIVED.draft(request.step, **facts), wake=True)
    notify_workers(run.id)


def _judge(run: Run, name: str, value: Json) -> list[Problem]:
    """Return the problems of a value by the author's own checks, which must not run in a transaction."""
    waiting = _waiting(run, name)
    return (validate_answer(waiting, value) or []) if waiting else []


def _problems(run: Run, name: str, value: Json) -> list[Problem]:
    waiting = _waiting(run, name)
    return problems_of(waiting.answer_schema, value) if waiting else []


def _waiting(run: Run, name: str) -> HumanRequest | None:
    return _all_waiting(run.pk).filter(key__startswith=key_prefix(name)).first()


def _right(viewer: Viewer, run: Run) -> str:
    right = next((right for right in ("operate", "start") if viewer.may(right, run.workflow)), "")
    if not right:
        raise NotAllowed("Only operators and users who can start this workflow can send signals")
    return right


def _at_value(problems: list[Problem]) -> list[Problem]:
    return [{**problem, "loc": ["value", *problem["loc"]]} for problem in problems]
