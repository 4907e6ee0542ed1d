"""What a process without a workflow's code asks a worker that has it: abilities of its engine, by name, as JSON. Pure.

Each is a function of what it is given and changes nothing, so a reply that comes late, twice or never does no harm.
That is why the ability is asked for, not the verb of a person: the verb would send the person with it, and would need a
word for "begun, and not known how it ended". No identity and no right is sent.

Between two releases what a newer one adds to a description is left out by an older server, and a question or reply that
the other side cannot read counts as none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from checkpoints.content.canonical_json import dumps
from checkpoints.errors import CheckpointsError, Damaged, Incompatible, InvalidValue, Unsupported
from checkpoints.records import Checkpoint, Json, Record, Request
from wfdash.contract import (
    Carried,
    ChecksAnswers,
    Continues,
    Description,
    Edited,
    Edits,
    Engine,
    InFlight,
    InvalidInput,
    LookAhead,
    LooksAhead,
    Migrates,
    TakesEdits,
    TellsInFlight,
)
from wfdash.installation.workflow_sources import SourceFile

LARGEST = 16_000_000
"""Bytes of JSON in a question, and in a reply."""


OTHER_RELEASE = (
    "the worker that has it runs another release of wfdash. Nothing was changed. Update servers and workers to the same"
    " one, then try again"
)


class GivenMessage(Record):
    """What ``check_input`` is given."""

    message: Json


class GivenRequest(Record):
    """What ``check_answer`` is given."""

    request: Request
    value: Json


class GivenCheckpoint(Record):
    """What ``in_flight`` is given."""

    checkpoint: Checkpoint


class GivenMoment(GivenCheckpoint):
    """What ``look_ahead`` is given."""

    now: datetime


class GivenEdits(GivenCheckpoint):
    """What ``edit`` is given."""

    edits: Edits


class GivenFollowUp(GivenCheckpoint):
    """What ``check_follow_up`` is given."""

    message: Json


class GivenGraph(GivenCheckpoint):
    """What ``carry`` is given."""

    old: Description | None
    override: bool


class GivenNothing(Record):
    """What ``code`` is given."""


class FileOfWorker(Record):
    """A file with steps as a worker has loaded it. ``changed``: it is another one on its disk by now."""

    path: str
    text: str
    steps: dict[str, tuple[int, int]]
    changed: bool


@dataclass(frozen=True, kw_only=True)
class Ability:
    """A method of an engine that may be asked for. ``given``: its arguments behind the definition, by name."""

    protocol: type
    """Which engines have it; every engine has those of ``Engine``."""
    given: type[Record]
    result: TypeAdapter[Any]


ABILITIES: Mapping[str, Ability] = {
    "check_input": Ability(protocol=object, given=GivenMessage, result=TypeAdapter(Json)),
    "check_answer": Ability(protocol=ChecksAnswers, given=GivenRequest, result=TypeAdapter(list[dict[str, Json]])),
    "check_follow_up": Ability(protocol=Continues, given=GivenFollowUp, result=TypeAdapter(Json)),
    "in_flight": Ability(protocol=TellsInFlight, given=GivenCheckpoint, result=TypeAdapter(InFlight)),
    "look_ahead": Ability(protocol=LooksAhead, given=GivenMoment, result=TypeAdapter(LookAhead)),
    "edit": Ability(protocol=TakesEdits, given=GivenEdits, result=TypeAdapter(Edited)),
    "carry": Ability(protocol=Migrates, given=GivenGraph, result=TypeAdapter(Carried)),
}
"""All that an engine is ever asked for. Nothing else of a question is looked up or called by name."""

CODE = "code"
"""What is asked of the worker itself: the files with the steps of a workflow, as they were when it was loaded."""
CODE_RESULT = TypeAdapter(tuple[FileOfWorker, ...])
MOST_CODE = 1_000_000
"""Characters of code in a reply; files beyond that are left out."""

REFUSALS: Mapping[str, type[CheckpointsError]] = {
    kind.__name__: kind for kind in (Incompatible, Damaged, Unsupported, InvalidValue)
}
"""The errors by which an ability says no, beside ``InvalidInput``."""


class WorkerReply(Record):
    """What a worker says: a result, or how the ability refused."""

    result: Json = None
    invalid: tuple[dict[str, Json], ...] | None = None
    """The errors of an ``InvalidInput``."""
    refusal: str = ""
    """One of ``REFUSALS``, with ``words``."""
    words: str = ""
    failure: str = ""
    """The class of an exception of the author's code, which the worker has logged."""
    unread: bool = False
    """Whether it could not be read: the server and the worker are of two releases of this package."""
    unread_by: tuple[str, ...] = ()
    """The workers of which that is known: the question is left to others."""


class Consult(Protocol):
    """Asks a worker that has loaded this version of a workflow."""

    def __call__(
        self, workflow: str, version: str, ability: str, given: Record, *, required: bool
    ) -> WorkerReply | None:
        """Return its reply; None if none comes soon. ``required``: it is waited for longer, and refused with the reason
        if none comes.
        """


class AuthorCodeFailed(RuntimeError):
    """The author's code raised what it should not, in a worker, whose log has the traceback."""


def abilities_of(engine: Engine) -> tuple[str, ...]:
    """Return the names of what may be asked of an engine."""
    return tuple(name for name, one in ABILITIES.items() if isinstance(engine, one.protocol))


def perform(engine: Engine, definition: object, ability: str, given: Json) -> WorkerReply:
    """Return the reply to a question: ``unread`` to one that no process of this release asks. What the author's code
    raises passes.
    """
    if ability not in abilities_of(engine):
        return WorkerReply(unread=True)
    known = ABILITIES[ability]
    try:
        arguments = dict(known.given.model_validate(given))
    except ValidationError:
        return WorkerReply(unread=True)
    try:
        result = getattr(engine, ability)(definition, **arguments)
    except InvalidInput as error:
        return WorkerReply(invalid=tuple(error.errors))
    except CheckpointsError as error:
        kind = next((name for name, one in REFUSALS.items() if isinstance(error, one)), "")
        if not kind:
            raise
        return WorkerReply(refusal=kind, words=str(error))
    return WorkerReply(result=known.result.dump_python(result, mode="json"))


def result_of(ability: str, reply: WorkerReply) -> Any:
    """Return what the ability returned, or raise what it raised. ``AuthorCodeFailed``; ``Incompatible`` for what a
    worker of another release returned.
    """
    if reply.failure:
        raise AuthorCodeFailed(f"{ability} failed in a worker: {reply.failure}. Its log has the traceback")
    if reply.invalid is not None:
        raise InvalidInput(list(reply.invalid))
    if reply.refusal:
        raise REFUSALS.get(reply.refusal, Incompatible)(reply.words)
    try:
        return ABILITIES[ability].result.validate_python(reply.result)
    except ValidationError as error:
        raise Incompatible(f"{OTHER_RELEASE[:1].upper()}{OTHER_RELEASE[1:]}") from error


def reply_with_code(files: Iterable[SourceFile]) -> WorkerReply:
    """Return the reply to ``CODE``."""
    left, found = MOST_CODE, []
    for one in files:
        left -= len(one.text)
        if left < 0:
            break
        steps = dict(one.steps)
        found.append(FileOfWorker(path=str(one.path), text=one.text, steps=steps, changed=one.has_changed()))
    return WorkerReply(result=CODE_RESULT.dump_python(tuple(found), mode="json"))


def code_in(reply: WorkerReply) -> tuple[SourceFile, ...]:
    """Return the files of a reply to ``CODE``; none of one that has none, or that no worker wrote."""
    try:
        found = CODE_RESULT.validate_python(reply.result or ())
    except ValidationError:
        return ()
    return tuple(map(_file, found))


def _file(said: FileOfWorker) -> SourceFile:
    count = said.text.count("\n") + 1
    steps = {step: lines for step, lines in said.steps.items() if 1 <= lines[0] <= lines[1] <= count}
    return SourceFile(path=Path(said.path), text=said.text, steps=steps, changed_there=said.changed)


def is_too_large(document: Json) -> bool:
    """Return whether a question or a reply is larger than ``LARGEST``."""
    return len(dumps(document)) > LARGEST
