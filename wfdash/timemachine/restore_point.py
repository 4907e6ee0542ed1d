"""What restoring and forking need, the same for actions and previews.

Read-only. Checking edits runs the author's own types, so it must not run inside a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from django.db.models import Q

from checkpoints.database.runs import read_row
from checkpoints.events import Trait, kinds_with
from checkpoints.models import Answer, Effect, Event, HumanRequest, Run
from checkpoints.models import Checkpoint as Row
from checkpoints.records import Checkpoint, Json, Phase, Request
from wfdash import catalog
from wfdash.catalog import Entry
from wfdash.contract import ActivationInfo, ChecksAnswers, Edited, Edits, InvalidInput, LooksAhead, TakesEdits
from wfdash.errors import Invalid, WrongState
from wfdash.schemas import validate
from wfdash.schemas.secrets import masked, secret_names, unmasked, without
from wfdash.schemas.validate import Problem, flaws_of
from wfdash.values.fingerprints import note_of, renewed

REMARKS = kinds_with(Trait.REMARK)
"""Events that do not change what restoring would do."""
MOST_PAUSES = 5
"""Checkpoints that are read, from the last, to find where a question was asked."""
ALTERED = ("restored", "edited", "overridden")
"""How people change a run's course, in the order in which they are listed."""


def mark(run: Run, chosen: Row, verb: str) -> str:
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


def as_suggestion(answer: Answer) -> dict[str, Any]:
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


def last_pause(run: Run) -> Row | None:
    """Return the checkpoint at which a failed run asked what it was answered last, if the step that asked has failed.

    To retry would give the step the same answer; restored there, the run asks again.
    """
    step = (run.error or {}).get("step")
    last = Answer.objects.filter(request__run=run).select_related("request").order_by("-at").first()
    if run.phase != Phase.FAILED or last is None or last.request.step != step:
        return None
    paused = Row.objects.filter(run=run, waiting__gt=0).order_by("-n")[:MOST_PAUSES]
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
        problems: list[dict[str, Json]] = []
    except InvalidInput as error:
        edited, problems = Edited(body=record.body, requests=record.requests), list(error.errors)
    problems += answer_problems(entry, edited, edits)
    if problems:
        raise Invalid(problems)
    if not edited.words and not edits.answers:
        raise Invalid([{"loc": [], "msg": "No changes: restore or fork it without edits"}])
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


def answer_problems(entry: Entry, edited: Edited, edits: Edits) -> list[dict[str, Json]]:
    """Return what is wrong with the answers, each at its field."""
    pending = {request.key: request for request in edited.requests}
    found: list[dict[str, Json]] = []
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
