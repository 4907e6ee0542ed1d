"""A workflow that this process has not loaded, by the description that a worker has published. Pure.

What a description says is served as ever: forms, graphs, schemas, titles. Messages are judged by their schemas. What
needs the author's code is not there: it has no other of an engine's abilities.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256

from checkpoints.records import Checkpoint, Json, Record
from checkpoints.storage import Recorder
from wfdash.contract import Description, InvalidInput, Outcome, RunInput
from wfdash.schemas.validate import depth_of, problems_of

LARGEST = 256_000
"""Bytes of a published description; a worker publishes no larger one, and no server reads one."""
UNSERVED = timedelta(days=1)
"""What no worker had for so long is not served any more; its secrets stay masked."""
DEEPEST = 100
"""Levels of lists and objects in it."""


class Published(Record):
    """What a worker publishes of a workflow. ``description``: None where it cannot be published; ``secrets``: the names
    of its secret fields.
    """

    description: Description | None
    secrets: tuple[str, ...] = ()


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
    """Return what a stored document says. ``ValueError`` for anything that no worker wrote."""
    if depth_of(document, DEEPEST) > DEEPEST:
        raise Unpublishable(f"it is nested deeper than {DEEPEST} levels")
    return Published.model_validate(document)


class PublishedEngine:
    """The engine of a published workflow in a process without its code; its definition is the description."""

    def __init__(self, description: Description, secrets: frozenset[str]) -> None:
        self.name = description.engine
        self._description, self._secrets = description, secrets

    def accepts(self, definition: object) -> bool:
        """Return False: no object of a module is one."""
        return False

    def describe(self, definition: object) -> Description:
        """Return the published description."""
        return self._description

    def check_input(self, definition: object, message: Json) -> Json:
        """Return the message if it fits the published schema; ``InvalidInput`` with errors per field.

        What the author's own checks refuse beyond that, the run's worker does.
        """
        return _fitting(self._description.input_schema, message)

    def check_follow_up(self, definition: object, checkpoint: Checkpoint, message: Json) -> Json:
        """Return the message if it fits the published schema; ``InvalidInput`` with errors per field.

        For a checkpoint of the published version: only the code says whether it continues from another one's.
        """
        return _fitting(self._description.follow_up_schema or {}, message)

    async def drive(self, definition: object, given: RunInput, recorder: Recorder) -> Outcome:
        """Refuse: workers have the code."""
        raise RuntimeError(f"The code of {self._description.workflow!r} is loaded in workers alone")

    def secret_names(self, definition: object) -> frozenset[str]:
        """Return the names of its secret fields."""
        return self._secrets


def _fitting(schema: Mapping[str, Json], message: Json) -> Json:
    if problems := problems_of(schema, message):
        raise InvalidInput(problems)
    return message
