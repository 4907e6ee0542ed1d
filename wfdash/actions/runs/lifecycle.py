"""Start, retry and follow up a run; cancel, pause and resume it.

The runs that follow one another are a thread. It has one end: a second follow-up on the same run is refused, because
its author has not read the first one. A thread branches where someone takes a run back (restore, fork) and follows up
on that. Cancelling and pausing are at once, which fences the worker, or once the running step has ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db import IntegrityError
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now
from django.utils import timezone
from pydantic import BaseModel, ConfigDict, Field

from checkpoints import ids, records
from checkpoints.database.alias import atomic
from checkpoints.database.clock import database_now
from checkpoints.database.runs import copy_row, info_of, made_ready, read_row
from checkpoints.database.storage import write
from checkpoints.errors import ClaimLost
from checkpoints.events import EventKind
from checkpoints.models import Checkpoint, Claim, Event, HumanRequest, Run, WorkflowVersion
from checkpoints.models.user_model import User
from checkpoints.records import ENDED, Json, Phase, Reason, frozen
from checkpoints.rules import BUDGET, NANOS, TIMED, USED, Priority, cost_of, money_text, used_in
from checkpoints.sql.tables import request_row, run_row
from wfdash import pubsub
from wfdash.access.directory import is_service
from wfdash.access.viewer import Viewer, origin_of
from wfdash.actions import audit, pacing
from wfdash.actions.common import append_event, fence, find_run, lock_run, move_run, notify_inbox, notify_workers
from wfdash.actions.pacing import SweepBackoff, idempotent, made_before, previous_result
from wfdash.actions.runs import search_index
from wfdash.contract import Continues, Description, InvalidInput
from wfdash.domain.errors import (
    AlreadyFollowed,
    Invalid,
    KeyReused,
    NotAllowed,
    NotFound,
    TooOften,
    WfdashError,
    WrongState,
)
from wfdash.domain.search_attributes import summary_of, title_of
from wfdash.engines import catalog
from wfdash.queries import timemachine
from wfdash.queries.unreadable import data_of
from wfdash.questions.cards import Approval, make_request, prepare
from wfdash.questions.evidence import Table
from wfdash.questions.policy import Policy
from wfdash.values.schemas.secrets import masked
from wfdash.values.schemas.validate import flaws_of
from wfdash.workflow.asking import QUESTIONS

MOST_OPEN = 2_000
"""Questions of one account that wait for people at a time."""


def start_run(
    viewer: Viewer,
    workflow: str,
    message: Json,
    *,
    key: str | None = None,
    requesters: Iterable[str] = (),
    begun: Callable[[Run], None] | None = None,
) -> Run:
    """Start a run and return it. The same ``key`` from the same person starts it once and returns that run again.

    ``requesters``: who else counts as its requester, as in ``begin_run``. ``begun`` is called in the transaction that
    creates the run.

    ``Invalid`` with errors per field when the message does not match the workflow's input.
    """
    entry, message = _startable(viewer, workflow, message)
    start_key = _start_key(viewer, key) if key else None
    with write():
        known = Run.objects.filter(start_key=start_key).first() if start_key else None
        if known is not None:
            return _same_start(known, workflow, message)
        pacing.charge(viewer, "start")
        if workflow in QUESTIONS:
            _charge_question(viewer)
        try:
            run = begin_run(viewer, entry, message, start_key=start_key, requesters=requesters)
        except IntegrityError:
            return _same_start(Run.objects.get(start_key=start_key), workflow, message)
        if begun is not None:
            begun(run)
    return run


def _charge_question(viewer: Viewer) -> None:
    """Count a question of this account in the caller's transaction. ``TooOften``."""
    pacing.charge(viewer, "question")
    unfinished = Run.objects.filter(created_by=viewer.user.pk, workflow__in=QUESTIONS, finished__isnull=True)
    if unfinished[:MOST_OPEN].count() == MOST_OPEN:
        words = f"{MOST_OPEN:,} questions of {viewer.name} are open. Wait for answers, or cancel some of them"
        raise TooOften(words, retry_after=60)


def check_start(viewer: Viewer, workflow: str, message: Json) -> Json:
    """Return the message as a run would receive it, without secrets; starts nothing. ``Invalid`` with errors per
    field.
    """
    entry, message = _startable(viewer, workflow, message)
    return masked(message, entry.secrets)


def _startable(viewer: Viewer, workflow: str, message: Json) -> tuple[catalog.Entry, Json]:
    """Return the workflow and the message as its run will receive it."""
    if not viewer.may("start", workflow):
        raise _refusal(viewer, workflow, "start runs of this workflow")
    entry = catalog.get(workflow)
    return entry, checked_input(entry, message)


def checked_input(entry: catalog.Entry, message: Json) -> Json:
    """Return the message as a run of this workflow will receive it. ``Invalid`` with errors per field. Runs author's
    code.
    """
    if flaws := flaws_of(message):
        raise Invalid(flaws)
    try:
        return entry.engine.check_input(entry.definition, message)
    except InvalidInput as error:
        raise Invalid(error.errors) from error


def begin_run(
    viewer: Viewer,
    entry: catalog.Entry,
    message: Json,
    *,
    start_key: str | None = None,
    right: str = "start",
    facts: Mapping[str, Json] | None = None,
    requesters: Iterable[str] = (),
    priority: Priority = Priority.STARTED,
) -> Run:
    """Create a run for this person inside the caller's transaction, with event and audit entry, and return it.

    ``message`` as ``checked_input`` returned it. ``facts`` are added to event and audit entry. ``requesters``: who else
    counts as its requester. ``IntegrityError``: there is a run with this ``start_key``; the transaction can continue as
    if nothing had been tried.
    """
    recorded = dict(facts or {})
    remember_version(entry.description)
    with atomic():
        run = _create_run(viewer, entry, message, start_key, requesters, priority)
    search_index.index_run(run, message)
    append_event(run, EventKind.RUN_QUEUED.draft(by=viewer.name, **recorded))
    audit.record_run(viewer, "start", run, right=right, **recorded)
    notify_workers(run.id)
    return run


def retry_run(viewer: Viewer, run_id: str, *, key: str | None = None) -> Run:
    """Retry a failed run from its latest checkpoint and return it: only failed and interrupted steps run again."""
    with write(), idempotent(viewer, key, "retry", [run_id]) as call:
        run = find_run(viewer, run_id, right="operate")
        if call.previous_result is not None:
            return run
        again = {"error": None, "finished": None, "attempts": 0, **made_ready(Priority.STARTED)}
        move_run(run, Q(phase=Phase.FAILED), "retry", viewer, **again)
        append_event(run, EventKind.RUN_RETRIED.draft(by=viewer.name))
        audit.record_run(viewer, "retry", run)
        notify_workers(run.id)
    return run


def _start_key(viewer: Viewer, key: str) -> str:
    """Return the key as stored: at most 200 characters that any database accepts."""
    short = len(key) <= 40 and key.isascii() and key.isprintable()
    return f"{viewer.name}:{key if short else sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:48]}"


def _refusal(viewer: Viewer, workflow: str, what: str) -> Exception:
    if viewer.may("see", workflow):
        return NotAllowed(f"You cannot {what}. Ask an operator or admin of the workflow")
    return NotFound(f"No workflow named {workflow!r}")


def _create_run(
    viewer: Viewer,
    entry: catalog.Entry,
    message: Json,
    start_key: str | None,
    requesters: Iterable[str],
    priority: Priority,
) -> Run:
    description = entry.description
    named = {name: getattr(description, name) for name in ("workflow", "version", "engine")}
    return Run.objects.create(
        **run_row(ids.new_run_id(), **named, title=description.title[:300], priority=priority),
        **names_of(entry, message),
        **_begun(viewer, message),
        start_key=start_key,
        requesters=sorted({*requesters, *viewer.names} - {viewer.name}) or None,
    )


def _begun(viewer: Viewer, message: Json) -> dict[str, Any]:
    """Return the columns of every run that this person begins now and that is indexed at once."""
    now = timezone.now()
    by = viewer.user if isinstance(viewer.user, User) else None
    return {"input": message, "created_by": by, "created": now, "updated": now, "listed": True}


def _same_start(run: Run, workflow: str, message: Json) -> Run:
    if run.workflow != workflow or run.input != message:
        raise KeyReused("This idempotency key was already used for a different start. Use a new key")
    return run


def remember_version(description: Description) -> None:
    """Store the graph, so that runs started under it can be drawn and compared later.

    What an earlier release stored without the graph's channels is stored again.
    """
    document = description.model_dump(mode="json")
    row, _ = WorkflowVersion.objects.get_or_create(
        workflow=description.workflow, version=description.version, defaults={"description": document}
    )
    if description.channels and not row.description.get("channels"):
        row.description = document
        row.save(update_fields=["description"])


# What a run is called when it is created: stored as content, so encrypted where the settings name keys.


def names_of(entry: catalog.Entry, message: Json) -> dict[str, str | None]:
    """Return the columns that name a run with this input: its own title, and the summary of its input."""
    described = entry.description
    own = title_of(described.run_title, message, entry.secrets) if described.run_title else ""
    return {"own_title": own or None, "summary": summary_of(message, described.input_schema, entry.secrets) or None}


def names_of_follow_up(earlier: Run, entry: catalog.Entry, message: Json) -> dict[str, str | None]:
    """Return those of a run that follows another: the thread keeps its title, the summary is that of the message."""
    summary = summary_of(message, entry.description.follow_up_schema or {}, entry.secrets)
    return {"own_title": earlier.own_title, "summary": summary or None}


def names_of_fork(origin: Run, message: Json) -> dict[str, str | None]:
    """Return those of a fork: its origin's, unless it has another input."""
    entry = catalog.find(origin.workflow)
    if entry is None or message == origin.input:
        return {"own_title": origin.own_title, "summary": origin.summary}
    return names_of(entry, message)


VERB = "follow-up"


@frozen
class FollowUp:
    """A message for a completed run, as the run that follows will receive it."""

    entry: catalog.Entry
    head: Checkpoint
    message: Json


def follow_up(viewer: Viewer, run_id: str, message: Json, *, key: str | None = None) -> Run:
    """Start a run that follows a completed one with a message, and return it. The same ``key`` starts it once.

    People who may start runs of the workflow may follow up on its runs. ``Invalid`` with errors per field when
    the message does not match ``follow_up_schema``; ``WrongState`` if the run is not completed or its workflow takes no
    follow-ups; ``AlreadyFollowed`` if another run has followed from the same end; ``Incompatible`` if the workflow has
    changed so that it cannot continue from there, ``CodeElsewhere`` if it has and no worker with its code
    answers; ``Damaged``.
    """
    run = find_run(viewer, run_id, right="start")
    command = (VERB, [run_id, message])
    if known := previous_result(viewer, key, *command):
        return made_before(Run, known["run"])
    given = _checked(run, message)
    with write(), idempotent(viewer, key, *command) as call:
        if call.previous_result is not None:
            return made_before(Run, call.previous_result["run"])
        pacing.charge(viewer, VERB)
        # Pruning takes the same lock: what the new run shares cannot be deleted in between.
        earlier = lock_run(run)
        _refuse(earlier, given)
        later = _create_follow_up(viewer, earlier, given)
        copy_row(
            given.head,
            later,
            n=1,
            reason=Reason.FOLLOW_UP,
            seq=1,
            version=later.version,
            facts=timemachine.with_message_due(info_of(given.head).facts),
        )
        search_index.index_run(later, given.message)
        append_event(later, EventKind.RUN_QUEUED.draft(by=viewer.name, run=earlier.pk))
        append_event(earlier, EventKind.RUN_FOLLOWED_UP.draft(by=viewer.name, run=later.pk))
        audit.record_run(viewer, VERB, later, right="start", origin=earlier.pk, n=given.head.n)
        notify_workers(later.pk)
        call.record(run=later.pk)
    return later


def _checked(run: Run, message: Json) -> FollowUp:
    """Check a message before the transaction, because that runs the author's code."""
    entry = timemachine.taking(run.workflow)
    if entry is None:
        raise WrongState("Runs of this workflow take no follow-up. Start a new run instead")
    if run.phase != Phase.COMPLETED:
        raise WrongState(f"Only a completed run can be followed up, and this one is {run.phase}")
    head = Checkpoint.objects.filter(run=run).order_by("-n").first()
    if head is None:
        raise WrongState("This run has no checkpoint to continue from. Start a new run instead")
    if flaws := flaws_of(message):
        raise Invalid(flaws)
    assert isinstance(entry.engine, Continues)  # noqa: S101, as taking() found
    try:
        checked = entry.engine.check_follow_up(entry.definition, read_row(head), message)
    except InvalidInput as error:
        raise Invalid(error.errors) from error
    return FollowUp(entry=entry, head=head, message=checked)


def _refuse(earlier: Run, given: FollowUp) -> None:
    """Raise ``WrongState`` if the run has moved on or was followed up since it was read; the caller has its lock."""
    if earlier.phase != Phase.COMPLETED or earlier.n != given.head.n:
        raise WrongState("The run has continued in the meantime. Wait until it has ended")
    other = timemachine.successors(earlier).select_related("created_by").order_by("created", "id").first()
    if other is not None:
        by = origin_of(other).starter
        raise AlreadyFollowed(
            f"{by or 'Someone'} has followed up on this run already. Read run {other.pk[-8:]} and continue there",
            run=other.pk,
            by=by,
            at=other.created.isoformat(),
        )


def _create_follow_up(viewer: Viewer, earlier: Run, given: FollowUp) -> Run:
    described = given.entry.description
    remember_version(described)
    thread = earlier.thread or earlier.pk
    if earlier.thread is None:
        Run.objects.filter(pk=earlier.pk).update(thread=thread)
    named = {name: getattr(described, name) for name in ("workflow", "version", "engine")}
    # Who wrote earlier turns has shaped what this one starts with: they count as its requesters, too.
    asked = {origin_of(earlier).starter, *(earlier.requesters or ()), *viewer.names} - {viewer.name, ""}
    return Run.objects.create(
        **run_row(ids.new_run_id(), **named, title=described.title[:300], n=1, family=earlier.family),
        **names_of_follow_up(earlier, given.entry, given.message),
        **_begun(viewer, given.message),
        follows=earlier.pk,
        follows_n=given.head.n,
        thread=thread,
        requesters=sorted(asked) or None,
    )


ENDING = Run.objects.exclude(ending="")
"""Runs that someone asked to end after a step."""
_backoff = SweepBackoff("Run %s could not be ended")


def cancel_run(viewer: Viewer, run_id: str, *, after_step: bool = False, key: str | None = None) -> Run:
    """Cancel a run, close its open requests and return it. This is final.

    Its worker is fenced at once, and the event names what was interrupted: the steps that ran (``fenced``) and the
    ``once`` calls whose outcome is unknown (``unsure``). ``after_step``: let the running step end, keep its result and
    start no other; where nothing runs, that is at once.
    """
    found = find_run(viewer, run_id, right="operate")
    before = timemachine.asked_before(found)
    with write(), idempotent(viewer, key, "cancel", [run_id, after_step]) as call:
        run = lock_run(found)
        if call.previous_result is not None:
            return run
        if after_step and run.phase == Phase.READY and timemachine.is_driven(run):
            return _end_later(viewer, run, Phase.CANCELLED)
        cut = timemachine.of_run(run, before)
        now = timezone.now()
        move_run(run, ~Q(phase__in=ENDED), "cancel", viewer, phase=Phase.CANCELLED, finished=now, wake_at=None)
        _close(run, viewer.name, fenced=list(cut.steps), unsure=list(cut.calls))
        audit.record_run(viewer, "cancel", run, fenced=list(cut.steps), unsure=list(cut.calls))
    return run


def pause_run(viewer: Viewer, run_id: str, *, now: bool = False, key: str | None = None) -> Run:
    """Pause a run until someone resumes it, and return it: no worker runs it, answers are kept.

    Running steps end first, and no other starts; where nothing runs, that is at once. ``now``: its worker is fenced at
    once, and interrupted steps run again from the top when the run is resumed.
    """
    found = find_run(viewer, run_id, right="operate")
    before = timemachine.asked_before(found)
    with write(), idempotent(viewer, key, "pause", [run_id, now]) as call:
        run = lock_run(found)
        if call.previous_result is not None:
            return run
        if not now and run.phase == Phase.READY and timemachine.is_driven(run):
            return _end_later(viewer, run, Phase.PAUSED)
        cut = timemachine.of_run(run, before).steps
        move_run(run, Q(phase__in=[Phase.READY, *TIMED]), "pause", viewer, phase=Phase.PAUSED)
        facts: dict[str, Any] = {"fenced": list(cut)} if cut else {}
        append_event(run, EventKind.RUN_PAUSED.draft(by=viewer.name, **facts))
        audit.record_run(viewer, "pause", run, **facts)
        notify_workers(run.id)
    return run


def resume_run(viewer: Viewer, run_id: str, *, force: bool = False, key: str | None = None) -> Run:
    """Resume a paused run from its latest checkpoint and return it; a held one is checked again. One that a program
    drives is handed over to workers, paused or not, unless the program executes it now (``WrongState``).

    It waits for synchronous functions that still run in the worker it was taken from. ``force``: it does not wait, also
    where it was resumed before; the same step may then run twice at once. A requested pause is withdrawn.
    """
    with write(), idempotent(viewer, key, "resume", [run_id, force]) as call:
        run = lock_run(find_run(viewer, run_id, right="operate"))
        if call.previous_result is not None:
            return run
        # The claim that keeps other workers off goes.
        forced = force and bool(Claim.objects.filter(run=run, epoch__lt=run.epoch).delete()[0])
        if run.phase == Phase.READY and run.ending and run.ending_as == Phase.PAUSED:
            Run.objects.filter(pk=run.pk).update(ending="")
        elif not (forced and run.phase == Phase.READY):
            if not run.for_workers and (program := timemachine.driver_of(run.pk)):
                raise WrongState(
                    f"The run's own program executes it now ({program}). Resume the run once that has ended"
                )
            resumable = Q(phase=Phase.PAUSED) | Q(phase__in=[Phase.READY, *TIMED], for_workers=False)
            move_run(run, resumable, "resume", viewer, error=None, **made_ready(Priority.STARTED))
        facts: dict[str, Any] = {"forced": True} if forced else {}
        append_event(run, EventKind.RUN_RESUMED.draft(by=viewer.name, **facts))
        audit.record_run(viewer, "resume", run, **facts)
        notify_workers(run.id)
        run.refresh_from_db()
    return run


def keep_claim(claim: records.Claim) -> None:
    """Keep other workers off a run that has ended while something of it still runs in its worker."""
    expires = database_now() + timedelta(seconds=claim.ttl)
    kept = {"token": claim.token, "worker": claim.worker, "epoch": -1, "ttl": claim.ttl, "expires": expires}
    with write():
        Claim.objects.get_or_create(run_id=claim.run, defaults=kept)


def forget_claims() -> int:
    """Remove claims that were fenced and have expired since. Returns how many."""
    with write():
        return Claim.objects.filter(epoch__lt=F("run__epoch"), expires__lte=Now()).delete()[0]


def claimed_run(claim: records.Claim) -> Run:
    """Return the run, locked, if the claim is still valid; ``ClaimLost``."""
    run = Run.objects.select_for_update(of=("self",)).filter(pk=claim.run, epoch=claim.epoch).first()
    if run is None or not Claim.objects.filter(run=run, token=claim.token).exists():
        raise ClaimLost(run=claim.run)
    return run


def end_after_step(
    claim: records.Claim, after: str = "", begun: frozenset[str] | None = frozenset(), *, drained: bool = True
) -> str:
    """Cancel or pause the run of this claim after a step has ended, if that was requested.

    Returns ``ended``; ``waits`` if it is to pause and other steps may still run (``drained`` false); else an empty
    string. ``after``: that step. ``begun``: the steps that were to start next, and did not; None where none runs.
    """
    with write():
        run = Run.objects.select_for_update().filter(pk=claim.run, epoch=claim.epoch).first()
        if run is None or not run.ending:
            return ""
        if run.ending_as == Phase.PAUSED and not drained and run.phase == Phase.READY:
            return "waits"
        return "ended" if _end(run, after, begun) else ""


def end_abandoned(limit: int = 100) -> int:
    """Cancel or pause runs that were to end after a step and have no worker any more; notify the workers of the
    others.
    """
    live = Exists(Claim.objects.filter(run=OuterRef("pk"), expires__gt=Now()))
    asked = ENDING.exclude(pk__in=_backoff.backed_off()).annotate(driven=live)
    found = list(asked.values_list("pk", "driven")[:limit])
    for run_id, driven in found:
        if driven:
            pubsub.runs_due.publish(run_id)
    return _backoff.run_each([run_id for run_id, driven in found if not driven], _end_abandoned)


def _end_abandoned(run_id: str) -> bool:
    with write():
        run = Run.objects.select_for_update().exclude(ending="").filter(pk=run_id).first()
        return bool(
            run and not Claim.objects.filter(run=run, expires__gt=Now()).exists() and _end(run, "", frozenset())
        )


def _end_later(viewer: Viewer, run: Run, how: Phase) -> Run:
    if run.ending and (run.ending_as == how or how is Phase.PAUSED):
        raise WrongState(f"{run.ending} already requested this. The run ends after the current step")
    Run.objects.filter(pk=run.pk).update(ending=viewer.name, ending_as=how)
    cancels = how is Phase.CANCELLED
    append_event(run, (EventKind.RUN_ENDING if cancels else EventKind.RUN_PAUSING).draft(by=viewer.name))
    audit.record_run(viewer, "cancel" if cancels else "pause", run, after_step=True)
    notify_workers(run.id)
    run.refresh_from_db()
    return run


def _end(run: Run, after: str, begun: frozenset[str] | None) -> bool:
    by = run.ending
    if run.phase in ENDED:
        Run.objects.filter(pk=run.pk).update(ending="")
        return False
    cut, now = timemachine.of_run(run), timezone.now()
    steps = [] if begun is None else [step for step in cut.steps if step not in begun]
    if run.ending_as == Phase.PAUSED:
        Run.objects.filter(pk=run.pk).update(phase=Phase.PAUSED, updated=now, acted_by=by)
        fence(run)
        append_event(run, EventKind.RUN_PAUSED.draft(by=by, **_facts(after=after, fenced=steps)))
        notify_workers(run.id)
        return True
    ended: dict[str, Any] = {"phase": Phase.CANCELLED, "finished": now, "wake_at": None, "updated": now, "acted_by": by}
    Run.objects.filter(pk=run.pk).update(**ended)
    fence(run)
    _close(run, by, after=after, fenced=steps, unsure=list(cut.calls))
    return True


def _close(run: Run, by: str, **cut: list[str] | str) -> None:
    open_ = HumanRequest.objects.filter(run=run, closed__isnull=True)
    open_.update(closed=timezone.now(), closed_as="cancelled")
    append_event(run, EventKind.RUN_CANCELLED.draft(by=by, **_facts(**cut)))
    notify_workers(run.id)
    notify_inbox(run.workflow)


def _facts(**cut: list[str] | str) -> dict[str, Any]:
    return {name: found for name, found in cut.items() if found}


# What a run may use. One that has reached its budget waits, before its next step, until a person decides.

CENT = Decimal("0.01")
MOST_READ = 5_000
"""Uses of models that are added up for a card, the latest."""
MOST_MODELS = 20
"""Models that a card names, those that cost the most."""


def tokens_of(run: Run) -> int:
    """Return the tokens that a run's models have used, in and out."""
    return (run.input_tokens or 0) + (run.output_tokens or 0)


class BudgetReached(WfdashError):
    """A person has ended the run at its budget. ``facts``: the key of what they were asked."""


class RunBudget(BaseModel):
    """What a run may use in all. What is left empty has no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    cost: Decimal | None = Field(None, ge=0, le=10**13, decimal_places=9, title="Cost")
    tokens: int | None = Field(None, ge=0, le=10**15, title="Tokens")

    def is_reached(self, run: Run) -> bool:
        """Return whether a run has used as much."""
        beyond = self.cost is not None and (run.cost or 0) >= self.cost * NANOS
        return beyond or (self.tokens is not None and tokens_of(run) >= self.tokens)

    def raised(self, run: Run, by: RunBudget) -> RunBudget:
        """Return the budget with as much again, on top of what the run has used where that is more; with what it has
        used, where ``by`` has no such limit: it must not be reached already.
        """
        used, cost = tokens_of(run), Decimal(run.cost or 0) / NANOS
        more, beyond = by.cost or cost or CENT, by.tokens or used or 1
        return RunBudget(
            cost=None if self.cost is None else (max(self.cost, cost) + more).quantize(CENT, ROUND_UP),
            tokens=None if self.tokens is None else max(self.tokens, used) + beyond,
        )

    def __str__(self) -> str:
        money = None if self.cost is None else f"{money_text(int(self.cost * NANOS))} {settings.WFDASH_CURRENCY}"
        return " or ".join(filter(None, (money, None if self.tokens is None else f"{self.tokens:,} tokens")))


def budget_of(workflow: str) -> RunBudget | None:
    """Return the budget that the operator sets for each run of a workflow, None if there is none."""
    pairs: Mapping[str, Any] = settings.WFDASH_BUDGETS
    found = next((pair for pattern, pair in pairs.items() if fnmatchcase(workflow, pattern)), None)
    if found is None:
        return None
    cost, tokens = (None if amount is None else Decimal(str(amount)) for amount in found)
    return RunBudget(cost=cost and cost.quantize(1 / Decimal(NANOS)), tokens=tokens and int(tokens))


def allowed_for(run: Run) -> RunBudget | None:
    """Return what a run may use by now: its budget, or what a person has raised that to."""
    budget = budget_of(run.workflow)
    if budget is None or not budget.is_reached(run):
        return budget
    rows = HumanRequest.objects.filter(run=run, key__startswith=BUDGET, closed_as="taken")
    last = rows.exclude(answer__verdict="reject").select_related("answer").order_by("-created", "-id").first()
    if last is None:
        return budget
    return RunBudget.model_validate(last.answer.value.get("edited") or last.card["proposal"])


def is_over_budget(run_id: str) -> bool:
    """Return whether a run has reached its budget (one query, two where a person has raised it)."""
    run = Run.objects.only("workflow", *USED).get(pk=run_id)
    budget = allowed_for(run)
    return budget is not None and budget.is_reached(run)


def within_budget(claim: records.Claim) -> bool:
    """Return whether a claimed run, of which no step runs, may start one. If not, it is released: it waits for a
    person.

    Only under the claim: ``ClaimLost``. ``BudgetReached``: that person has ended it.
    """
    with write():
        run, now = claimed_run(claim), timezone.now()
        asked = HumanRequest.objects.filter(run=run, key__startswith=BUDGET, closed__isnull=True).first()
        if asked is not None and asked.answered is not None:
            given = asked.answer
            if given.verdict == "reject":
                by, why = audit.name_of(given.by) or "A deadline", given.value.get("reason") or "no reason was given"
                raise BudgetReached(f"{by} ended the run at its budget: {why}", key=asked.key)
            HumanRequest.objects.filter(pk=asked.pk).update(closed=now, closed_as="taken")
            asked = None
        budget = allowed_for(run)
        if budget is None or not budget.is_reached(run):
            if asked is not None:
                HumanRequest.objects.filter(pk=asked.pk).update(closed=now, closed_as="withdrawn")
                append_event(run, EventKind.REQUEST_WITHDRAWN.draft(asked.step, request=asked.pk, key=asked.key))
                notify_inbox(run.workflow)
            return True
        if asked is None:
            _ask_for_more(run, budget, now)
        Run.objects.filter(pk=run.pk).update(phase=Phase.WAITING, wake_at=None, updated=now)
        Claim.objects.filter(run=run).delete()
        append_event(run, EventKind.RUN_WAITING.draft())
    return False


def _ask_for_more(run: Run, budget: RunBudget, now: datetime) -> None:
    """Ask people whether a run continues beyond its budget."""
    used = defaultdict[str, list[int]](lambda: [0, 0, 0, 0])
    events = Event.objects.filter(run=run).order_by("-seq")
    for event in events.filter(kind=EventKind.USAGE)[:MOST_READ]:
        data = data_of(event)
        for place, count in enumerate(used_in(data)):
            used[str(data.get("model") or "unknown")][place] += count
    ranked = sorted(used.items(), key=lambda pair: (-pair[1][2], -sum(pair[1][:2]), pair[0]))
    rows = [
        {"Model": model, "In": f"{row[0]:,}", "Out": f"{row[1]:,}", "Cost": cost_of(row[2], row[3]) or "unknown"}
        for model, row in ranked[:MOST_MODELS]
    ]
    more = budget.raised(run, budget_of(run.workflow) or budget)
    used_up = RunBudget(cost=(Decimal(run.cost or 0) / NANOS).quantize(CENT, ROUND_UP), tokens=tokens_of(run))
    card = Approval(
        subject=f"Continue beyond {budget}?",
        body=f"This run has used {str(used_up).replace(' or ', ' and ')}. No step of it runs until someone decides.",
        proposal=more,
        current=budget,
        edit=RunBudget,
        labels={"approve": "Continue", "edit": "Set another budget", "reject": "End the run"},
        consequence={"approve": f"It may use {more} in all.", "reject": "It fails. A retry asks again."},
        risk="low",
        undo="Cancel the run whenever it has used enough.",
        evidence=[Table(title="Tokens and cost so far", rows=rows)],
    )
    step = events.filter(step__isnull=False).values_list("step", flat=True).first() or run.workflow
    number = HumanRequest.objects.filter(run=run, key__startswith=BUDGET).count() + 1
    # A program that starts runs does not decide what they may cost; the people behind it do.
    program = run.created_by if run.created_by and is_service(run.created_by) else None
    policy = Policy(not_by=program.get_username() if program else (), rules=False)
    request = make_request(f"{BUDGET}{number}", step, prepare(card, None), policy, due=None, now=now)
    row = HumanRequest.objects.create(**request_row(ids.new_request_id(), run.pk, run.workflow, request), created=now)
    facts = {"request": row.pk, "key": row.key, "subject": card.subject}
    append_event(run, EventKind.REQUEST_OPENED.draft(step, **facts))
    notify_inbox(run.workflow)
