"""What restoring and forking rest on, for the verbs and for the preview alike: both see the same.

Reads only. Checking edits runs the author's own types, so it is not for the inside of a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from checkpoints.models import Answer, Effect, Event, HumanRequest, Run
from checkpoints.models import Checkpoint as Row
from checkpoints.records import Checkpoint, Json, Request
from wfdash import catalog
from wfdash.catalog import Entry
from wfdash.contract import ChecksAnswers, InvalidInput
from wfdash.edits import Edited, Edits, LooksAhead, TakesEdits
from wfdash.errors import Invalid, WrongState
from wfdash.hidden import masked, secret_names, unmasked
from wfdash.patch import Operation, make
from wfdash.schema import Problem, flaws_of, problems_of

NOISE = ("log", "progress", "custom")
"""Events that change nothing about what restoring would do."""
ALTERED = ("restored", "edited", "overridden")
"""How people change a run's course, in the order in which it is told."""


def mark(run: Run, chosen: Row, verb: str) -> str:
    """Return what a preview is bound to: another one means that what it said may not hold any more.

    To restore, all that happened to the run counts; to fork only what would happen a second time.
    """
    facts: list[object]
    if verb == "fork":
        effects = Effect.objects.filter(run=run, n__gt=chosen.n).values_list("id", "state").order_by("id")
        answers = Answer.objects.filter(request__run=run).order_by("-at").values_list("at", flat=True).first()
        facts = [chosen.pk, list(effects), str(answers) if chosen.waiting else ""]
    else:
        events = Event.objects.filter(run=run).exclude(kind__in=NOISE).order_by("-seq").values_list("seq", flat=True)
        facts = [chosen.pk, [run.epoch, run.n, events.first() or 0]]
    return sha256(repr([verb, facts]).encode()).hexdigest()[:32]


def earlier_answers(run_id: str, keys: Iterable[str]) -> dict[str, Answer]:
    """Return the last answer that each of these questions had in the run (one query)."""
    rows = Answer.objects.filter(request__run_id=run_id, request__key__in=list(keys)).select_related("by", "request")
    return {answer.request.key: answer for answer in rows.order_by("at")}


def alterations(*told: str) -> str:
    """Return several of ``Run.altered`` as one, each once."""
    said = {word for text in told for word in text.split(",")}
    return ",".join(word for word in ALTERED if word in said)


def edit_checkpoint(record: Checkpoint, edits: Edits) -> Edited:
    """Return a checkpoint's content after edits. Changes nothing, runs no step.

    ``Invalid`` with errors per field (``state``, ``messages``, ``answers``), ``Incompatible`` for a checkpoint of
    another graph, ``WrongState`` where the engine cannot.
    """
    entry = catalog.get(record.workflow)
    if not isinstance(entry.engine, TakesEdits):
        raise WrongState(f"The engine {entry.engine.name!r} cannot edit checkpoints: restore or fork them as they are")
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
        raise Invalid([{"loc": [], "msg": "Nothing is changed: restore or fork it as it is"}])
    return edited


def _with_secrets(entry: Entry, record: Checkpoint, edits: Edits) -> Edits:
    """Return the edits with the secrets that were left hidden as they are."""
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
    """Return the names of what a checkpoint must not show: what the workflow calls secret of its input and state."""
    entry = catalog.find(record.workflow)
    if entry is None:
        return frozenset()
    names = entry.secrets
    if not isinstance(entry.engine, LooksAhead) or record.version != entry.description.version:
        return names
    outlook = entry.engine.look_ahead(entry.definition, record, record.created)
    return names.union(secret_names(outlook.state_schema), *(secret_names(one.takes) for one in outlook.doing))


def answer_problems(entry: Entry, edited: Edited, edits: Edits) -> list[dict[str, Json]]:
    """Return what is wrong with the answers, each at its field."""
    pending = {request.key: request for request in edited.requests}
    found: list[dict[str, Json]] = []
    for key, value in edits.answers.items():
        if key in edited.closed:
            text = "Its step starts over and asks anew: answer it then"
            found.append({"loc": ["answers", key], "msg": text})
        elif key not in pending:
            found.append({"loc": ["answers", key], "msg": "No such question is pending at this checkpoint"})
        else:
            problems = _judge(entry, pending[key], value)
            found += [{"loc": ["answers", key, *one["loc"]], "msg": one["msg"]} for one in problems]
    return found


def _judge(entry: Entry, request: Request, value: Json) -> list[Problem]:
    found = problems_of(request.answer_schema, value)
    if found or not isinstance(entry.engine, ChecksAnswers):
        return found
    return entry.engine.check_answer(entry.definition, request, value)


def patch_of(record: Checkpoint, edited: Edited) -> list[Operation]:
    """Return the RFC 6902 patch that leads from a checkpoint's body to the edited one; secrets stay hidden in it."""
    names = secrets_of(record)
    return make(masked(record.body, names), masked(edited.body, names))


def subject_of(request: Request | HumanRequest) -> str:
    """Return a question's headline."""
    return str(request.card.get("subject") or request.step)
