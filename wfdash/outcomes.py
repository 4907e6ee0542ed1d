"""How a call of ``run`` ends: ``Finished``, ``Waiting`` or ``Failed``. No Django.

Each has ``output``, ``requests``, ``request`` and ``answer``, so that one may write down what one expects: what an
outcome does not have raises an error that says why, such as the error of the step that failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NoReturn, TypeAlias

from checkpoints.ids import RequestKey
from checkpoints.records import Checkpoint, ErrorInfo, Json, Record, Request


class RunFailed(Exception):
    """The run failed: the message names the step, the error and what it said. ``error``: all that is known of it."""

    def __init__(self, error: ErrorInfo) -> None:
        where = f"step {error.step!r}: " if error.step else ""
        super().__init__(f"{where}{error.type}: {error.message}")
        self.error = error


class StillWaiting(Exception):
    """The run has no output yet: it waits for people or for a time."""


class _Outcome(Record):
    def __bool__(self) -> NoReturn:
        """Raise ``TypeError``: a run that failed must not count as true because it ended."""
        raise TypeError(
            f"The truth of an outcome ({type(self).__name__}) is not whether the run has completed: "
            "say outcome.result(), or isinstance(outcome, Finished)"
        )


class Ended(_Outcome):
    """A run that waits for no one."""

    checkpoint: Checkpoint

    @property
    def requests(self) -> tuple[Request, ...]:
        """Return nothing: it asks no one."""
        return ()

    @property
    def request(self) -> NoReturn:
        """Raise ``LookupError``, or ``RunFailed``."""
        self._refuse()

    def answer(self, value: Json, **fields: Json) -> NoReturn:
        """Raise ``LookupError``, or ``RunFailed``."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        self.result()
        raise LookupError("the run has ended: it has no open request")

    def result(self) -> Json:
        """Return its output, or raise ``RunFailed``."""
        raise NotImplementedError


class Finished(Ended):
    """The run is complete; ``output`` is JSON."""

    output: Json = None

    def result(self) -> Json:
        """Return its output. Every outcome has this method."""
        return self.output


class Failed(Ended):
    """A step failed permanently. Resuming the same checkpoint retries that step."""

    error: ErrorInfo

    @property
    def output(self) -> NoReturn:
        """Raise ``RunFailed``."""
        self.result()

    def result(self) -> NoReturn:
        """Raise ``RunFailed``."""
        raise RunFailed(self.error)


class Waiting(_Outcome):
    """The run is suspended: for people (``requests``), for a time (``until``), or both."""

    requests: tuple[Request, ...] = ()
    until: datetime | None = None
    checkpoint: Checkpoint

    @property
    def request(self) -> Request:
        """Return its only request. ``LookupError`` if there is none, or there are several."""
        if len(self.requests) != 1:
            asked = ", ".join(f"{one.step}: {one.card.get('subject', one.kind)!r}" for one in self.requests)
            raise LookupError(f"the run has {len(self.requests)} open requests, not one: {asked or 'it sleeps'}")
        return self.requests[0]

    def answer(self, value: Json, **fields: Json) -> dict[RequestKey, Json]:
        """Return the ``answers`` of ``run`` that answer its only request: ``waiting.answer("reject", reason="no")``.

        ``value``: the name of an action, with its fields, or the answer itself where the question has no actions.
        """
        request = self.request
        return {request.key: answer_to(request.answer_schema, value, fields)}

    @property
    def output(self) -> NoReturn:
        """Raise ``StillWaiting``."""
        self.result()

    def result(self) -> NoReturn:
        """Raise ``StillWaiting``."""
        asked = ", ".join(str(one.card.get("subject", one.kind)) for one in self.requests)
        raise StillWaiting(f"The run waits: {asked or 'it sleeps'}")


Outcome: TypeAlias = Finished | Waiting | Failed


def answer_to(schema: Mapping[str, Json], value: Json, fields: Mapping[str, Json]) -> Json:
    """Return an answer in full: the name of an action and its fields become the object that is sent.

    ``ValueError`` for fields beside the answer to a question that has no actions.
    """
    if isinstance(value, str) and "action" in schema.get("properties", {}):
        return {"action": value, **fields}
    if isinstance(value, Mapping):
        return {**value, **fields}
    if fields:
        raise ValueError(f"{', '.join(fields)}: this question takes a value alone, nothing beside it")
    return value
