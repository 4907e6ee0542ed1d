"""What restoring, forking, migrating and following up need, for actions and queries alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from hashlib import sha256
from typing import TypeVar

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from checkpoints import records
from checkpoints.database.runs import read_row
from checkpoints.errors import CheckpointsError, Incompatible
from checkpoints.events import EventKind, Trait, kinds_with
from checkpoints.models import FOR_PEOPLE, Answer, AuditEntry, Claim, Effect, Event, HumanRequest, Run, WorkflowVersion
from checkpoints.models import Checkpoint as CheckpointRow
from checkpoints.records import Checkpoint, Json, JsonObject, Phase, Reason, Request, frozen
from checkpoints.rules import DEADLINE, MESSAGE_DUE, card_subject
from wfdash.access.viewer import Origin, Viewer, origin_of
from wfdash.contract import (
    ActivationInfo,
    Carried,
    ChecksAnswers,
    Continues,
    Description,
    Edited,
    Edits,
    InFlight,
    InvalidInput,
    LooksAhead,
    Migrates,
    Shown,
    Shows,
    TakesEdits,
    TellsInFlight,
    pack_transcript,
)
from wfdash.domain.errors import Invalid, WrongState, wrong
from wfdash.domain.graph_diff import GraphDiff, compare
from wfdash.domain.json_patch import Operation, make
from wfdash.engines import catalog
from wfdash.engines.catalog import Entry, TimeLimit
from wfdash.engines.published import AuthorCodeFailed
from wfdash.questions.policy import Policy
from wfdash.questions.tools import Masking
from wfdash.values.fingerprints import note_of, renewed
from wfdash.values.schemas import validate
from wfdash.values.schemas.secrets import masked, secret_names, unmasked, without
from wfdash.values.schemas.validate import Problem, flaws_of

# A run and the graph it belongs to: what has changed since, and what it would become under the current one.

T = TypeVar("T")

HELD = "Incompatible"
"""The type of the error of a held run."""
CARRY_SECONDS = 10.0
"""For an author's migration of one run: one that hangs must keep neither a worker's jobs nor a web's thread."""
BEGINS = "nothing had run yet: it starts on the new version"
_calls = TimeLimit(CARRY_SECONDS)


def is_held(run: Run) -> bool:
    """Return whether the run waits for its old code or for an operator's choice."""
    return run.phase == Phase.PAUSED and not run.acted_by


def is_behind(run: Run) -> bool:
    """Return whether the run belongs to another graph than the loaded one, or to none that is loaded."""
    return not is_loaded(run.workflow, run.version)


def is_loaded(workflow: str, version: str) -> bool:
    """Return whether this graph of a workflow is loaded; an empty version fits any."""
    entry = catalog.find(workflow)
    return entry is not None and (not version or version == entry.description.version)


def find_description(workflow: str, version: str) -> Description | None:
    """Return the stored graph of a version, None if there is none."""
    row = WorkflowVersion.objects.filter(workflow=workflow, version=version).first()
    return Description.model_validate(row.description, extra="ignore") if row is not None else None


def diff_since(workflow: str, version: str) -> GraphDiff | None:
    """Return what changed since a version; None where one of the two graphs is unknown."""
    entry, old = catalog.find(workflow), find_description(workflow, version)
    return compare(old, entry.description) if entry is not None and old is not None else None


def has_way(run: Run) -> bool:
    """Return whether the run's own graph is loaded, or a declared migration leads from its head to the loaded one."""
    entry = catalog.find(run.workflow)
    if entry is None:
        return False
    if entry.description.version == run.version:
        return True
    try:
        carry_head(run, override=False)
    except CheckpointsError:
        return False
    return True


def carry_head(run: Run, *, override: bool) -> tuple[Checkpoint | None, Carried]:
    """Return the run's head (None before the first) and its migrated form. ``Incompatible`` with the reason."""
    entry = catalog.find(run.workflow)
    if entry is None:
        raise Incompatible(f"Workflow {run.workflow!r} is not loaded. The run resumes once it is")
    head = CheckpointRow.objects.filter(run=run).order_by("-n").first()
    if head is None:
        return None, _start_over(run, entry)
    if not isinstance(entry.engine, Migrates):
        raise Incompatible(_changed(run, entry) + f". The engine {entry.engine.name!r} cannot migrate runs")
    record = read_row(head)
    old = find_description(run.workflow, record.version)
    return record, _in_time(run, entry, partial(entry.engine.carry, entry.definition, record, old, override=override))


def _in_time(run: Run, entry: Entry, call: Callable[[], T]) -> T:
    """Return what the author's code returns. ``Incompatible`` if it takes longer than ``CARRY_SECONDS``."""
    try:
        return _calls.call(run.workflow, run.pk, call)
    except TimeoutError as error:
        raise Incompatible(f"{_changed(run, entry)}. {error}") from error


def _start_over(run: Run, entry: Entry) -> Carried:
    try:
        _in_time(run, entry, partial(entry.engine.check_input, entry.definition, run.input))
    except InvalidInput as error:
        raise Incompatible(_changed(run, entry) + f". Its input is no longer valid: {error}") from error
    return Carried(how="start", body={}, words=(BEGINS,))


def _changed(run: Run, entry: Entry) -> str:
    difference = diff_since(run.workflow, run.version)
    now = entry.description.version
    return f"Workflow {run.workflow!r} changed since this run started ({run.version[:8]} then, {now[:8]} now)" + (
        f": {difference.summary}" if difference else ""
    )


# What is shown of a checkpoint: by its engine, secrets hidden. Nothing of a body is read in another way.


class NotShown(Exception):
    """A checkpoint is intact, but its content cannot be shown here. The message says why, as a sentence."""


def shown_of(record: Checkpoint) -> Shown:
    """Return a checkpoint as its engine shows it, with its workflow's secrets hidden. ``NotShown``."""
    shown, names = unmasked_of(record), secrets_of(record)
    return Shown(
        state=masked(shown.state, names),
        transcript=Masking().masked(shown.transcript, names, [shown.state, *shown.inputs.values()]),
        inputs={activation: masked(one, names) for activation, one in shown.inputs.items()},
    )


def unmasked_of(record: Checkpoint) -> Shown:
    """Return a checkpoint as its engine shows it, secrets included. ``NotShown``."""
    engine = catalog.find_engine(record.engine)
    if engine is None:
        raise NotShown(f"It is of the engine {record.engine!r}, which is not loaded here, so its values are not shown.")
    if not isinstance(engine, Shows):
        raise NotShown(f"The engine {record.engine!r} does not say what is in its checkpoints, so no values are shown.")
    try:
        return engine.show(record)
    except ValueError as error:
        raise NotShown(f"The engine {record.engine!r} cannot show it: {error}") from error


def shown_json(shown: Shown) -> JsonObject:
    """Return what is shown of a checkpoint as JSON: ``state``, ``transcript``, ``inputs``."""
    transcript = pack_transcript(shown.transcript)
    return {"state": shown.state, "transcript": transcript, "inputs": dict(shown.inputs)}


def patch_of(record: Checkpoint, edited: Edited) -> list[Operation]:
    """Return the RFC 6902 patch that leads from what is shown of a checkpoint to what is of the edited one."""
    after = record.model_copy(update={"body": edited.body, "requests": edited.requests})
    return make(shown_json(shown_of(record)), shown_json(shown_of(after)))


# What restoring and forking need, the same for actions and previews.

REMARKS = kinds_with(Trait.REMARK)
"""Events that do not change what restoring would do."""
MOST_PAUSES = 5
"""Checkpoints that are read, from the last, to find where a question was asked."""
ALTERED = ("restored", "edited", "overridden")
"""How people change a run's course, in the order in which they are listed."""


def mark(run: Run, chosen: CheckpointRow, verb: str) -> str:
    """Return the fingerprint of a preview: when it changes, the preview is out of date.

    For a restore, every event of the run counts; for a fork only what would happen a second time.
    """
    facts: list[object]
    if verb == "fork":
        effects = Effect.objects.filter(run=run, n__gt=chosen.n).values_list("id", "state").order_by("id")
        answers = Answer.objects.filter(request__run=run).order_by("-at").values_list("at", flat=True).first()
        facts = [chosen.pk, list(effects), str(answers) if chosen.waiting else ""]
    else:
        events = Event.objects.filter(run=run).exclude(kind__in=REMARKS).order_by("-seq").values_list("seq", flat=True)
        facts = [chosen.pk, [run.epoch, run.n, events.first() or 0]]
    return sha256(repr([verb, facts]).encode()).hexdigest()[:32]


def earlier_answers(run_id: str, keys: Iterable[str]) -> dict[str, Answer]:
    """Return the last answer that each of these questions had in the run (one query)."""
    rows = Answer.objects.filter(request__run_id=run_id, request__key__in=list(keys)).select_related("by", "request")
    return {answer.request.key: answer for answer in rows.order_by("at")}


def replaced_by(request: HumanRequest) -> HumanRequest | None:
    """Return the question that replaced this one: after a restore, or because it changed."""
    same = Q(key=renewed(request.key), created__gte=request.created)
    later = HumanRequest.objects.filter(Q(replaces=request.pk) | same, run_id=request.run_id)
    return later.order_by("-created").first()


def replaced(request: HumanRequest) -> HumanRequest | None:
    """Return the question that this one replaced because something of it changed (one query)."""
    was = note_of(request.card).get("was")
    if not isinstance(was, str):
        return None
    rows = HumanRequest.objects.filter(run_id=request.run_id, key=was, created__lte=request.created)
    return rows.select_related("answer", "answer__by").exclude(pk=request.pk).order_by("-created").first()


def as_suggestion(answer: Answer) -> JsonObject:
    """Return an earlier answer as a suggestion for the same question."""
    by = answer.by.get_username() if answer.by else None
    # A secret has to be entered again: it is stored only where it was given.
    value = without(answer.value, secrets_in(answer.request))
    return {"value": value, "verdict": answer.verdict, "by": by, "at": answer.at.isoformat()}


def value_shown(answer: Answer) -> Json:
    """Return an answer's value with its secrets hidden."""
    return masked(answer.value, secrets_in(answer.request))


def secrets_in(request: HumanRequest) -> frozenset[str]:
    """Return the names of the secret fields of a request's answer: by its form, or by its workflow."""
    return secret_names(request.answer_schema) | catalog.secrets_of(request.workflow)


def last_pause(run: Run) -> CheckpointRow | None:
    """Return the checkpoint at which a failed run asked what it was answered last, if the step that asked has failed.

    To retry would give the step the same answer; restored there, the run asks again.
    """
    step = (run.error or {}).get("step")
    last = Answer.objects.filter(request__run=run).select_related("request").order_by("-at").first()
    if run.phase != Phase.FAILED or last is None or not f"{last.request.step}/".startswith(f"{step}/"):
        return None
    paused = CheckpointRow.objects.filter(run=run, waiting__gt=0).order_by("-n")[:MOST_PAUSES]
    return next((row for row in paused if last.request.key in {one.key for one in read_row(row).requests}), None)


def alterations(*values: str) -> str:
    """Return several values of ``Run.altered`` as one, without duplicates."""
    present = {word for text in values for word in text.split(",")}
    return ",".join(word for word in ALTERED if word in present)


def edit_checkpoint(record: Checkpoint, edits: Edits) -> Edited:
    """Return a checkpoint's content after edits. Changes nothing, runs no step.

    ``Invalid`` with errors per field (``state``, ``messages``, ``answers``), ``Incompatible`` for a checkpoint of
    another graph, ``WrongState`` where the engine cannot.
    """
    entry = catalog.get(record.workflow)
    if not isinstance(entry.engine, TakesEdits):
        raise WrongState(f"The engine {entry.engine.name!r} cannot edit checkpoints. Restore or fork without edits")
    if flaws := flaws_of(edits.model_dump(mode="json")):
        raise Invalid(flaws)
    try:
        edited = entry.engine.edit(entry.definition, record, _with_secrets(entry, record, edits))
        problems: list[JsonObject] = []
    except InvalidInput as error:
        edited, problems = Edited(body=record.body, requests=record.requests), list(error.errors)
    problems += answer_problems(entry, edited, edits)
    if problems:
        raise Invalid(problems)
    if not edited.words and not edits.answers:
        raise Invalid.at("", "No changes: restore or fork it without edits")
    return edited


def _with_secrets(entry: Entry, record: Checkpoint, edits: Edits) -> Edits:
    """Return the edits with the secrets that were left hidden unchanged."""
    if not isinstance(entry.engine, LooksAhead):
        return edits
    outlook = entry.engine.look_ahead(entry.definition, record, record.created)
    known = {one.activation: one for one in outlook.doing}
    messages = {
        act: unmasked(value, known[act].message, secret_names(known[act].takes)) if act in known else value
        for act, value in edits.messages.items()
    }
    state = unmasked(edits.state, record.body.get("state"), secret_names(outlook.state_schema))
    return edits.model_copy(update={"messages": messages, "state": state})


def secrets_of(record: Checkpoint) -> frozenset[str]:
    """Return the names of a checkpoint's secret fields: those of the workflow's input and state."""
    entry = catalog.find(record.workflow)
    if entry is None:
        return frozenset()
    names = entry.secrets
    # What is published names all of them: to show a checkpoint no worker is asked.
    if entry.published or not isinstance(entry.engine, LooksAhead) or record.version != entry.description.version:
        return names
    outlook = entry.engine.look_ahead(entry.definition, record, record.created)
    return names.union(secret_names(outlook.state_schema), *(secret_names(one.takes) for one in outlook.doing))


def doing_at(record: Checkpoint) -> tuple[ActivationInfo, ...]:
    """Return what a checkpoint does next; empty where its engine cannot tell."""
    entry = catalog.find(record.workflow)
    if entry is None or not isinstance(entry.engine, LooksAhead):
        return ()
    return entry.engine.look_ahead(entry.definition, record, record.created).doing


def answer_problems(entry: Entry, edited: Edited, edits: Edits) -> list[JsonObject]:
    """Return what is wrong with the answers, each at its field."""
    pending = {request.key: request for request in edited.requests}
    found: list[JsonObject] = []
    for key, value in edits.answers.items():
        if key in edited.closed:
            text = "Its step restarts and asks again. Answer it then"
            found.append({"loc": ["answers", key], "msg": text})
        elif key not in pending:
            found.append({"loc": ["answers", key], "msg": "No such request is pending at this checkpoint"})
        else:
            problems = _judge(entry, pending[key], value)
            found += [{"loc": ["answers", key, *one["loc"]], "msg": one["msg"]} for one in problems]
    return found


def _judge(entry: Entry, request: Request, value: Json) -> list[Problem]:
    found = validate.answer_problems(request.card, request.answer_schema, value)
    if found or not isinstance(entry.engine, ChecksAnswers):
        return found
    return entry.engine.check_answer(entry.definition, request, value) or []


# What was answered before a checkpoint, and whether a person may still change values there. Read-only.

JUMPS = (Reason.RESTORE.value, Reason.EDIT.value, Reason.FORK.value, Reason.FOLLOW_UP.value)
"""Copies of their parent: what happened between the two is another branch, or did not change the values."""
LOST = "what was answered there. Values can no longer be changed here. Start a new run with them."
Span = tuple[str, int, int, int]
"""A run, the events after this one and up to that one, and the number of the checkpoint before them."""


def answered_before(chosen: CheckpointRow, *, but: Collection[str]) -> list[tuple[HumanRequest, int]]:
    """Return the questions to people whose answers a checkpoint depends on, newest first.

    Each with the number of the checkpoint at which it was still open. ``but``: keys of questions that are asked again.
    Follows the branch of the checkpoint, into the runs it was forked from or follows up on.
    """
    spans = list(_spans(chosen))
    runs: dict[str, list[tuple[int, str]]] = {}
    for run_id in dict.fromkeys(span[0] for span in spans):
        answered = Event.objects.filter(run_id=run_id, kind=EventKind.REQUEST_ANSWERED).order_by("-seq")
        runs[run_id] = [(event.seq, str(event.data.get("request"))) for event in answered]
    places = {one: n for run_id, after, until, n in spans for seq, one in runs[run_id] if after < seq <= until}
    rows = HumanRequest.objects.filter(FOR_PEOPLE).select_related("answer", "answer__by").in_bulk(list(places))
    return [(rows[one], n) for one, n in places.items() if one in rows and rows[one].key not in but]


def refuse_edits(
    viewer: Viewer,
    run: Run,
    chosen: CheckpointRow,
    record: records.Checkpoint,
    edited: Edited,
    *,
    asked_again: Collection[str],
    reason: str,
) -> None:
    """Raise ``Invalid`` where edits would change what was approved, and this person may not decide that.

    ``record``: the chosen checkpoint. ``asked_anew``: keys of questions of steps that restart.
    """
    if edited.words:
        again = {*(request.key for request in record.requests), *asked_again}
        problem = edit_problem(viewer, run, chosen, but=again, reason=reason)
        if problem is not None:
            raise Invalid([problem])


def edit_problem(
    viewer: Viewer, run: Run, chosen: CheckpointRow, *, but: Collection[str], reason: str
) -> Problem | None:
    """Return why this person must not change values at a checkpoint; None if they may.

    Changing what was approved is deciding in place of its approvers: only people who could override the answers may,
    and with a reason. Others change the values where the question is still open, so that it is asked again.
    """
    if gone := _deleted_origin(run.pk):
        return wrong("", f"Run {gone}, from which this one comes, was deleted with {LOST}")
    found = answered_before(chosen, but=but)
    known = origin_of(run)
    editing = Origin(starter=known.starter, others=known.others | {viewer.name})
    for request, n in found:
        policy = Policy.model_validate(request.policy or {})
        if viewer.excluded(request.not_by, editing) or not policy.override:
            return wrong("", _approval_text(request, n, run))
    if found and not reason.strip():
        first, _ = found[0]
        subject = card_subject(first.card, first.step)
        msg = f"“{subject}” was answered before this. Give a reason for changing what was decided"
        return wrong("reason", msg)
    return None


def _deleted_origin(run_id: str) -> str:
    """Return a deleted ancestor of this run that asked people; empty if there is none.

    Runs and their answers can be deleted, entries of the audit cannot.
    """
    while True:
        forked = AuditEntry.objects.filter(run=run_id, verb__in=("fork", "follow-up")).first()
        run_id = str(forked.facts.get("origin") or "") if forked else ""
        if not run_id:
            return ""
        asked = AuditEntry.objects.filter(run=run_id).exclude(request="")
        if asked.exists() and not Run.objects.filter(pk=run_id).exists():
            return run_id


def _approval_text(request: HumanRequest, n: int, run: Run) -> str:
    answer = getattr(request, "answer", None)
    by = answer.decider if answer is not None else DEADLINE
    where = f"checkpoint {n}" if n else "the checkpoint where it is asked"
    where += "" if request.run_id == run.pk else f" of run {request.run_id}"
    return (
        f"“{card_subject(request.card, request.step)}” was answered by {by} before this and requires a second "
        f"person. Values can no longer be changed here. Change them at {where} to ask again."
    )


def _spans(chosen: CheckpointRow) -> Iterator[Span]:
    """Yield the events that led to a checkpoint, one step back at a time (one query per run).

    Where the previous checkpoint was pruned, everything earlier counts: too much rather than too little.
    """
    known = _checkpoints_of(chosen.run_id, chosen.n)
    here: CheckpointRow | None = known[chosen.pk]
    while here is not None:
        parent = known.get(here.parent or "")
        if parent is None and here.parent:
            origin = CheckpointRow.objects.filter(pk=here.parent).only("run_id", "n").first()
            known = _checkpoints_of(origin.run_id, origin.n) if origin else {}
            parent = known.get(here.parent)
        if parent is None:
            yield here.run_id, 0, here.seq, 0
            yield from _everything_in_family(here) if here.parent else ()
        elif here.reason not in JUMPS:
            yield here.run_id, parent.seq, here.seq, parent.n
        here = parent


def _everything_in_family(checkpoint: CheckpointRow) -> Iterator[Span]:
    run = Run.objects.only("family", "forked_from", "follows").get(pk=checkpoint.run_id)
    if run.forked_from or run.follows:
        others = Run.objects.filter(family=run.family).exclude(pk=run.pk).values_list("id", "seq")
        yield from ((run_id, 0, seq, 0) for run_id, seq in others)


def _checkpoints_of(run_id: str, n: int) -> dict[str, CheckpointRow]:
    rows = CheckpointRow.objects.filter(run_id=run_id, n__lte=n).only("id", "run_id", "n", "parent", "reason", "seq")
    return {row.pk: row for row in rows}


@frozen
class AtCheckpoint:
    """What a worker said of a run before a transaction, in which none is asked: true of that checkpoint alone."""

    checkpoint: str
    found: InFlight


def asked_before(run: Run) -> AtCheckpoint | None:
    """Ask a worker what is in progress, before the transaction that fences it; None where this process has the code."""
    entry = catalog.find(run.workflow)
    head = _head_of(run) if entry is not None and entry.published else None
    return AtCheckpoint(checkpoint=head.pk, found=_found_at(run, head)) if head is not None else None


def of_run(run: Run, before: AtCheckpoint | None = None) -> InFlight:
    """Return the steps that a worker is running now, and calls whose outcome is unknown. ``before``: what was asked.

    Empty where the workflow is not loaded, its engine cannot tell, or the checkpoint cannot be read.
    """
    head = _head_of(run)
    if head is None:
        return InFlight()
    found = before.found if before is not None and before.checkpoint == head.pk else _found_at(run, head)
    return found if is_driven(run) else found.model_copy(update={"steps": ()})


def _head_of(run: Run) -> CheckpointRow | None:
    return CheckpointRow.objects.filter(run=run, n=F("run__n")).first()


def _found_at(run: Run, head: CheckpointRow) -> InFlight:
    entry = catalog.find(run.workflow)
    if entry is None or not isinstance(entry.engine, TellsInFlight):
        return InFlight()
    try:
        return entry.engine.in_flight(entry.definition, read_row(head))
    except (CheckpointsError, AuthorCodeFailed):
        # To name what is interrupted must not keep a run from being ended: the worker's log has the error.
        return InFlight()


def is_driven(run: Run) -> bool:
    """Return whether a worker has the run."""
    return Claim.objects.filter(run=run, epoch__gte=F("run__epoch")).exists()


def driver_of(run_id: str) -> str:
    """Return the worker that has the run now, empty if none has."""
    driven = Claim.objects.filter(run=run_id, epoch__gte=F("run__epoch"), expires__gt=Now())
    return driven.values_list("worker", flat=True).first() or ""


# Runs that follow a completed one: which workflows take a follow-up, who follows whom, whose message is still due.


def with_message_due(facts: JsonObject) -> JsonObject:
    """Return the facts of a finished run's checkpoint as those of the first one of the run that follows it."""
    return {**facts, MESSAGE_DUE: True}


def taking(workflow: str) -> catalog.Entry | None:
    """Return a loaded workflow whose completed runs take a follow-up; None for every other."""
    entry = catalog.find(workflow)
    if entry is None or entry.description.follow_up_schema is None or not isinstance(entry.engine, Continues):
        return None
    return entry


def successors(run: Run) -> QuerySet[Run]:
    """Return the runs that follow from the present end of a run, but for those that failed or were cancelled."""
    following = Run.objects.filter(thread=run.thread or run.pk, follows=run.pk, follows_n=run.n)
    return following.exclude(phase__in=[Phase.FAILED, Phase.CANCELLED])


def is_open(viewer: Viewer, run: Run) -> bool:
    """Return whether a person may follow up on a run now (one query, if nothing else forbids it)."""
    may = run.phase == Phase.COMPLETED and viewer.may("start", run.workflow)
    return may and taking(run.workflow) is not None and not successors(run).exists()
