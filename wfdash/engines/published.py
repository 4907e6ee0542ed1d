"""A workflow that this process has not loaded: served as a worker has published it, and asked of a worker. Pure.

What a description says is served as ever: forms, graphs, schemas, titles. What needs the author's code is asked of a
worker: messages and answers are judged by their schemas alone if none replies, the rest is refused then.

Each is a function of what it is given and changes nothing, so a reply that comes late, twice or never does no harm.
That is why the ability is asked for, not the verb of a person: the verb would send the person with it, and would need a
word for "begun, and not known how it ended". No identity and no right is sent.

Between two releases what a newer one adds to a description is left out by an older server, and a question or reply that
the other side cannot read counts as none.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from checkpoints.content.canonical_json import dumps
from checkpoints.errors import CheckpointsError, Damaged, Incompatible, InvalidValue, Unsupported
from checkpoints.limits import depth_of
from checkpoints.records import Checkpoint, Json, JsonObject, Record, Request, frozen
from checkpoints.storage import Recorder
from wfdash.contract import (
    Addressees,
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
    Outcome,
    RunInput,
    TakesEdits,
    TellsInFlight,
)
from wfdash.installation.workflow_sources import SourceFile
from wfdash.values.schemas.validate import Problem, problems_of

LARGEST_ASKED = 16_000_000
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


@frozen
class Ability:
    """A method of an engine that may be asked for. ``given``: its arguments behind the definition, by name."""

    protocol: type
    """Which engines have it; every engine has those of ``Engine``."""
    given: type[Record]
    result: TypeAdapter[Any]


ABILITIES: Mapping[str, Ability] = {
    "check_input": Ability(protocol=object, given=GivenMessage, result=TypeAdapter(Json)),
    "check_answer": Ability(protocol=ChecksAnswers, given=GivenRequest, result=TypeAdapter(list[JsonObject])),
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
    invalid: tuple[JsonObject, ...] | None = None
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
    """Return whether a question or a reply is larger than ``LARGEST_ASKED``."""
    return len(dumps(document)) > LARGEST_ASKED


LARGEST = 256_000
"""Bytes of a published description; a worker publishes no larger one, and no server reads one."""
UNSERVED = timedelta(days=1)
"""What no worker had for so long is not served any more; its secrets stay masked."""
CODE_SECONDS = 60.0
"""For so long the code that a worker has shown is not asked for again."""
DEEPEST = 100
"""Levels of lists and objects in it."""


class Published(Record):
    """What a worker publishes of a workflow. ``description``: None where it cannot be published; ``secrets``: the names
    of its secret fields; ``abilities``: what a worker may be asked of it.
    """

    description: Description | None
    secrets: tuple[str, ...] = ()
    abilities: tuple[str, ...] = ()
    addressees: tuple[Addressees, ...] | None = None
    """Whom its steps ask, as far as the code says; None where its engine does not know."""


class Unpublishable(ValueError):
    """The description is too large, nested too deeply, or no JSON."""


def document_of(published: Published) -> tuple[Json, str]:
    """Return the JSON that is stored, and its hash. ``Unpublishable``."""
    try:
        document: Json = published.model_dump(mode="json")
    except ValueError as error:
        raise Unpublishable(f"its description is no JSON that can be stored: {error}") from error
    text = json.dumps(document, sort_keys=True).encode()
    if len(text) > LARGEST:
        raise Unpublishable(f"its description has {len(text):,} bytes: at most {LARGEST:,} are published")
    if depth_of(document, DEEPEST) > DEEPEST:
        raise Unpublishable(f"its description is nested deeper than {DEEPEST} levels")
    return document, sha256(text).hexdigest()


def read_document(document: Json) -> Published:
    """Return what a stored document says, without what a newer release adds. ``ValueError`` for anything that no worker
    wrote.
    """
    if depth_of(document, DEEPEST) > DEEPEST:
        raise Unpublishable(f"it is nested deeper than {DEEPEST} levels")
    # A worker that is updated first would otherwise take its workflows from every server that is not yet.
    return Published.model_validate(document, extra="ignore")


class PublishedEngine:
    """The engine of a published workflow in a process without its code; its definition is the description."""

    def __init__(self, published: Published, description: Description, consult: Consult) -> None:
        self.name = description.engine
        self._published, self._description, self._consult = published, description, consult

    def accepts(self, definition: object) -> bool:
        """Return False: no object of a module is one."""
        return False

    def describe(self, definition: object) -> Description:
        """Return the published description."""
        return self._description

    def check_input(self, definition: object, message: Json) -> Json:
        """Return the message as the run will receive it; ``InvalidInput`` with errors per field.

        By the published schema alone if no worker replies: what else the author's types refuse fails the run then.
        """
        _refuse_unfitting(self._description.input_schema, message)
        reply = self._ask("check_input", GivenMessage(message=message), required=False)
        return message if reply is None else result_of("check_input", reply)

    async def drive(self, definition: object, given: RunInput, recorder: Recorder) -> Outcome:
        """Refuse: workers have the code."""
        raise RuntimeError(f"The code of {self._description.workflow!r} is loaded in workers alone")

    def secret_names(self, definition: object) -> frozenset[str]:
        """Return the names of its secret fields."""
        return frozenset(self._published.secrets)

    def _ask(self, ability: str, given: Record, *, required: bool) -> WorkerReply | None:
        described = self._description
        return self._consult(described.workflow, described.version, ability, given, required=required)

    def _result(self, ability: str, given: Record) -> Any:
        reply = self._ask(ability, given, required=True)
        assert reply is not None  # noqa: S101, as it is required
        return result_of(ability, reply)


class _Continues(PublishedEngine):
    def check_follow_up(self, definition: object, checkpoint: Checkpoint, message: Json) -> Json:
        """Return the message as the run that follows will receive it; ``InvalidInput``, ``Incompatible``.

        By the published schema alone if no worker replies and the checkpoint is of the published version: only the code
        says whether it continues from another one's.
        """
        _refuse_unfitting(self._description.follow_up_schema or {}, message)
        given = GivenFollowUp(checkpoint=checkpoint, message=message)
        required = checkpoint.version != self._description.version
        reply = self._ask("check_follow_up", given, required=required)
        return message if reply is None else result_of("check_follow_up", reply)


class _ChecksAnswers(PublishedEngine):
    def check_answer(self, definition: object, request: Request, value: Json) -> list[Problem] | None:
        """Return what the author's types refuse of an answer that is valid by its schema; None if no worker replies."""
        reply = self._ask("check_answer", GivenRequest(request=request, value=value), required=False)
        return None if reply is None else list(result_of("check_answer", reply))


class _TellsInFlight(PublishedEngine):
    def in_flight(self, definition: object, checkpoint: Checkpoint) -> InFlight:
        """Return what is in progress at a checkpoint; nothing if no worker replies."""
        reply = self._ask("in_flight", GivenCheckpoint(checkpoint=checkpoint), required=False)
        return InFlight() if reply is None else InFlight.model_validate(result_of("in_flight", reply))


class _LooksAhead(PublishedEngine):
    def look_ahead(self, definition: object, checkpoint: Checkpoint, now: datetime) -> LookAhead:
        """Return what happens next at a checkpoint. ``Incompatible``."""
        found: LookAhead = self._result("look_ahead", GivenMoment(checkpoint=checkpoint, now=now))
        return found


class _TakesEdits(PublishedEngine):
    def edit(self, definition: object, checkpoint: Checkpoint, edits: Edits) -> Edited:
        """Return the checkpoint's content with state and messages changed. ``InvalidInput``, ``Incompatible``."""
        found: Edited = self._result("edit", GivenEdits(checkpoint=checkpoint, edits=edits))
        return found


class _Migrates(PublishedEngine):
    def carry(
        self, definition: object, checkpoint: Checkpoint, old: Description | None, *, override: bool = False
    ) -> Carried:
        """Return the checkpoint's content under the published graph. ``Incompatible`` with the reason."""
        given = GivenGraph(checkpoint=checkpoint, old=old, override=override)
        found: Carried = self._result("carry", given)
        return found


class _NamesPeople(PublishedEngine):
    def addressees(self, definition: object) -> Sequence[Addressees]:
        """Return whom each step's questions are addressed to, as published."""
        return self._published.addressees or ()


class ShowsCode(PublishedEngine):
    """The engine of a workflow whose code workers show."""

    _files: tuple[SourceFile, ...] = ()
    _until = -math.inf

    def source_files(self) -> tuple[SourceFile, ...]:
        """Return the files with its steps as a worker has loaded them, kept for a minute; none if no worker replies."""
        if time.monotonic() >= self._until:
            reply = self._ask(CODE, GivenNothing(), required=False)
            if reply is None:
                return ()
            self._files, self._until = code_in(reply), time.monotonic() + CODE_SECONDS
        return self._files


_KINDS: Mapping[str, type[PublishedEngine]] = {
    "check_follow_up": _Continues,
    "check_answer": _ChecksAnswers,
    "in_flight": _TellsInFlight,
    "look_ahead": _LooksAhead,
    "edit": _TakesEdits,
    "carry": _Migrates,
    CODE: ShowsCode,
}


def published_engine(published: Published, description: Description, consult: Consult) -> PublishedEngine:
    """Return an engine with the abilities that the workflow's own has, by its ``description``."""
    kind = _kind_of(frozenset(published.abilities), published.addressees is not None)
    return kind(published, description, consult)


@lru_cache
def _kind_of(abilities: Iterable[str], names_people: bool) -> type[PublishedEngine]:
    """Return a class with these abilities: what an engine can do is asked by ``isinstance``."""
    kinds = [kind for name, kind in _KINDS.items() if name in abilities]
    kinds += [_NamesPeople] if names_people else []
    return type("PublishedEngine", tuple(kinds) or (PublishedEngine,), {})


def _refuse_unfitting(schema: Mapping[str, Json], message: Json) -> None:
    if problems := problems_of(schema, message):
        raise InvalidInput(problems)
