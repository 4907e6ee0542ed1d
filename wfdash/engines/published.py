"""A workflow that this process has not loaded, by the description that a worker has published. Pure.

What a description says is served as ever: forms, graphs, schemas, titles. What needs the author's code is asked of a
worker: messages and answers are judged by their schemas alone if none replies, the rest is refused then.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any

from checkpoints.records import Checkpoint, Json, Record, Request
from checkpoints.storage import Recorder
from wfdash.contract import (
    Addressees,
    Carried,
    Description,
    Edited,
    Edits,
    InFlight,
    InvalidInput,
    LookAhead,
    Outcome,
    RunInput,
)
from wfdash.engines import consultation
from wfdash.engines.consultation import Consult, WorkerReply
from wfdash.installation.workflow_sources import SourceFile
from wfdash.values.schemas.validate import Problem, depth_of, problems_of

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
        reply = self._ask("check_input", consultation.GivenMessage(message=message), required=False)
        return message if reply is None else consultation.result_of("check_input", reply)

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
        return consultation.result_of(ability, reply)


class _Continues(PublishedEngine):
    def check_follow_up(self, definition: object, checkpoint: Checkpoint, message: Json) -> Json:
        """Return the message as the run that follows will receive it; ``InvalidInput``, ``Incompatible``.

        By the published schema alone if no worker replies and the checkpoint is of the published version: only the code
        says whether it continues from another one's.
        """
        _refuse_unfitting(self._description.follow_up_schema or {}, message)
        given = consultation.GivenFollowUp(checkpoint=checkpoint, message=message)
        required = checkpoint.version != self._description.version
        reply = self._ask("check_follow_up", given, required=required)
        return message if reply is None else consultation.result_of("check_follow_up", reply)


class _ChecksAnswers(PublishedEngine):
    def check_answer(self, definition: object, request: Request, value: Json) -> list[Problem] | None:
        """Return what the author's types refuse of an answer that is valid by its schema; None if no worker replies."""
        reply = self._ask("check_answer", consultation.GivenRequest(request=request, value=value), required=False)
        return None if reply is None else list(consultation.result_of("check_answer", reply))


class _TellsInFlight(PublishedEngine):
    def in_flight(self, definition: object, checkpoint: Checkpoint) -> InFlight:
        """Return what is in progress at a checkpoint; nothing if no worker replies."""
        reply = self._ask("in_flight", consultation.GivenCheckpoint(checkpoint=checkpoint), required=False)
        return InFlight() if reply is None else InFlight.model_validate(consultation.result_of("in_flight", reply))


class _LooksAhead(PublishedEngine):
    def look_ahead(self, definition: object, checkpoint: Checkpoint, now: datetime) -> LookAhead:
        """Return what happens next at a checkpoint. ``Incompatible``."""
        found: LookAhead = self._result("look_ahead", consultation.GivenMoment(checkpoint=checkpoint, now=now))
        return found


class _TakesEdits(PublishedEngine):
    def edit(self, definition: object, checkpoint: Checkpoint, edits: Edits) -> Edited:
        """Return the checkpoint's content with state and messages changed. ``InvalidInput``, ``Incompatible``."""
        found: Edited = self._result("edit", consultation.GivenEdits(checkpoint=checkpoint, edits=edits))
        return found


class _Migrates(PublishedEngine):
    def carry(
        self, definition: object, checkpoint: Checkpoint, old: Description | None, *, override: bool = False
    ) -> Carried:
        """Return the checkpoint's content under the published graph. ``Incompatible`` with the reason."""
        given = consultation.GivenGraph(checkpoint=checkpoint, old=old, override=override)
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
            reply = self._ask(consultation.CODE, consultation.GivenNothing(), required=False)
            if reply is None:
                return ()
            self._files, self._until = consultation.code_in(reply), time.monotonic() + CODE_SECONDS
        return self._files


_KINDS: Mapping[str, type[PublishedEngine]] = {
    "check_follow_up": _Continues,
    "check_answer": _ChecksAnswers,
    "in_flight": _TellsInFlight,
    "look_ahead": _LooksAhead,
    "edit": _TakesEdits,
    "carry": _Migrates,
    consultation.CODE: ShowsCode,
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
