"""The protocol between the dashboard and an engine that executes workflows. No Django.

In: ``Start | Continue | Resume``. Out: ``Finished | Waiting | Failed``. Recovery after a crash and an answer are the
same call: after a crash it is a ``Resume`` without answers.

Every engine is an ``Engine``. Further abilities are the optional protocols at the end; without them the dashboard does
less: runs of an older graph are held, checkpoints are restored and forked unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NoReturn, Protocol, TypeAlias, runtime_checkable

from pydantic import AwareDatetime, Field, TypeAdapter

from checkpoints.ids import RequestKey, RunId, WorkflowId
from checkpoints.records import (
    Answer,
    Checkpoint,
    ErrorInfo,
    EventDraft,
    Json,
    JsonObject,
    Pairs,
    Record,
    Request,
    frozen,
)
from checkpoints.storage import PortType, Recorder

# Where runs of a workflow execute, and how many at once: its queue and its limit. Pure.

DEFAULT_QUEUE = "default"
"""The queue of a workflow that names none."""
LONGEST_QUEUE = 60
QUEUE = re.compile(r"\w[\w.-]*")


def problem_of_queue(name: Any) -> str:
    """Return what is wrong with the name of a queue; empty: nothing."""
    if isinstance(name, str) and len(name) <= LONGEST_QUEUE and QUEUE.fullmatch(name):
        return ""
    return f"queue {name!r}: give up to {LONGEST_QUEUE} letters, digits, . _ and -"


def problem_of_limit(limit: Any) -> str:
    """Return what is wrong with a limit of runs at once; empty: nothing. None is no limit."""
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit > 0):
        return ""
    return f"limit {limit!r}: give how many of its runs may execute at once, 1 or more"


# What an engine is, and what it may offer.

AGAIN = ("runs", "waits", "sleeps", "retries", "queues")
"""What an activation does when the run continues: at once; after an answer; at a time (``until``); in its turn."""

EVENT_DELAY = 0.1
"""Seconds that events of a running step may wait for company before they are committed on their own."""


class StepInfo(Record):
    """A node of the graph. ``person``: it may ask people. ``parent``: the sub-workflow step it is folded into."""

    name: str
    title: str = ""
    doc: str = ""
    person: bool = False
    parent: str | None = None
    takes: str = ""
    gives: str = ""
    was: tuple[str, ...] = ()
    """Names it had in earlier versions, as its author declares."""


class EdgeInfo(Record):
    """An arrow of the graph. ``kind``: plain | when | otherwise | case | each | gather | join."""

    source: str
    target: str
    kind: str = "plain"
    label: str = ""


class ChannelInfo(Record):
    """A value that is kept between the steps of a graph (``parent``: of the graph in that step), where steps do not
    hand on their own. ``kind``: how what steps write to it is combined; ``hidden``: it is the engine's own.
    """

    name: str
    kind: str
    parent: str = ""
    hidden: bool = False


class Description(Record):
    """A workflow as the dashboard shows it. ``version`` is the graph signature a run is pinned to."""

    workflow: WorkflowId
    title: str
    run_title: str = ""
    """The template of its runs' titles, with fields of the input; empty where its author gave none."""
    doc: str = ""
    engine: str
    version: str
    input_schema: JsonObject = Field(default_factory=dict)
    output_schema: JsonObject = Field(default_factory=dict)
    follow_up_schema: JsonObject | None = None
    """The JSON Schema of the message that follows up on a finished run; None: its runs take none."""
    examples: tuple[Json, ...] = ()
    queue: str = DEFAULT_QUEUE
    """Only workers that serve this queue take its runs. It is no part of the version."""
    limit: int | None = None
    """How many of its runs may execute at once, in all workers; None: any number. No part of the version either."""
    steps: tuple[StepInfo, ...] = ()
    edges: tuple[EdgeInfo, ...] = ()
    channels: tuple[ChannelInfo, ...] = ()
    """Empty where its engine names none."""


class InvalidInput(ValueError):
    """The value does not match the schema. ``errors``: list of ``{"loc": [...], "msg": "..."}``."""

    def __init__(self, errors: list[JsonObject]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, e['loc'])) or 'value'}: {e['msg']}" for e in errors))
        self.errors = errors


class Engine(Protocol, metaclass=PortType):
    """Executes definitions of one kind. Loaded by dotted path, never imported by others."""

    name: str

    def accepts(self, definition: object) -> bool:
        """Return whether this object is a workflow of this engine's kind."""

    def describe(self, definition: object) -> Description:
        """Return a workflow's description. Raises the engine's own error when the definition is not valid."""

    def check_input(self, definition: object, message: Json) -> Json:
        """Return the message as the run will receive it. ``InvalidInput`` with errors per field.

        It is checked against ``input_schema``, as forms are, and against anything else the engine knows about it.
        """

    async def drive(self, definition: object, given: RunInput, recorder: Recorder) -> Outcome:
        """Run until finished, suspended or failed, and return the outcome; every durable state is committed by
        ``recorder``.
        """


class InFlight(Record):
    """What is in progress in a run: steps whose functions run, and calls whose outcome is unknown."""

    steps: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


class Carried(Record):
    """A checkpoint of an older graph, migrated to the current one. ``how``: hook | alias | added | override."""

    how: str
    body: JsonObject
    requests: tuple[Request, ...] = ()
    closed: tuple[RequestKey, ...] = ()
    """Questions that are no longer asked, because their step was dropped or moved."""
    events: tuple[EventDraft, ...] = ()
    words: tuple[str, ...] = ()
    """What was done, one sentence each."""
    names: dict[str, str] = Field(default_factory=dict)
    """Old name -> new name of steps; the name of a sub-workflow counts for every step in it."""
    ended: tuple[str, ...] = ()
    """Activations that were dropped, or restarted as another step."""


class CallInfo(Record):
    """A recorded call of an activation in progress.

    ``state``: done (its result is recorded: it is not repeated), again (it was interrupted and is repeated), unknown
    (it may have happened: a person is asked).
    """

    name: str
    state: str
    once: bool = False


class ActivationInfo(Record):
    """An activation of a step in progress at a checkpoint. It runs again from its top, replaying its recorded calls."""

    activation: str
    step: str
    item: int | None = None
    does: str = "runs"
    until: datetime | None = None
    message: Json = None
    takes: JsonObject | None = None
    """The schema of its message; None where there is none to change."""
    first: bool = False
    """Its message is the run's input."""
    shown: bool = True
    """Whether it is a step shown to people; False for the entry of a sub-workflow."""
    calls: tuple[CallInfo, ...] = ()
    answers: tuple[RequestKey, ...] = ()
    """Its questions that were answered: the answers are recorded."""
    asks: tuple[RequestKey, ...] = ()
    """Its questions that are pending."""


class LookAhead(Record):
    """What happens when a run continues from a checkpoint, as far as it can be known without running a step."""

    doing: tuple[ActivationInfo, ...] = ()
    asks: tuple[Request, ...] = ()
    """Questions that are not pending there, but are asked first: whether a call has happened."""
    state_schema: JsonObject = Field(default_factory=dict)


class Edits(Record):
    """A person's changes to a checkpoint before a run continues from it. What is not named, or is the same, stays.

    ``state``: the whole new state. ``messages``: activation -> its message; it restarts with that. ``answers``: request
    key -> the answer to a question pending there. ``reason``: for the audit; needed to answer on behalf of others.
    """

    state: JsonObject | None = None
    messages: Mapping[str, Json] = Field(default_factory=dict)
    answers: Mapping[RequestKey, Json] = Field(default_factory=dict)
    reason: str = ""


class Edited(Record):
    """A checkpoint's content after edits, valid in its graph."""

    body: JsonObject
    requests: tuple[Request, ...] = ()
    closed: tuple[RequestKey, ...] = ()
    """Questions that are no longer asked, because their step restarts."""
    words: tuple[str, ...] = ()
    """What was done, one sentence each."""
    input: tuple[Json, ...] = ()
    """The run's input, if it was changed."""


@runtime_checkable
class ChecksAnswers(Protocol, metaclass=PortType):
    """An engine that can check answers beyond their schema. For others only the schema decides."""

    def check_answer(self, definition: object, request: Request, value: Json) -> list[JsonObject] | None:
        """Return what is wrong (``{"loc": [...], "msg": "..."}``) with a value that is valid by the request's schema.

        Empty: the step that asked will accept it, as far as can be known here. None: no one with the author's checks
        could be asked. Runs no code of any step.
        """


@frozen
class Addressees:
    """Users and groups that a step's questions name. ``certain``: nothing of it is decided only when the step runs."""

    step: str
    by: tuple[str, ...] = ()
    not_by: tuple[str, ...] = ()
    escalate: tuple[str, ...] = ()
    need: int = 1
    override: bool = True
    certain: bool = True


@runtime_checkable
class NamesSecrets(Protocol, metaclass=PortType):
    """An engine that knows which fields its definitions call secret besides their input and output."""

    def secret_names(self, definition: object) -> frozenset[str]:
        """Return the names of such fields in messages and state."""


@runtime_checkable
class LocatesFlaws(Protocol, metaclass=PortType):
    """An engine that knows where in the code the problems of an invalid definition are."""

    def flaws(self, definition: object, error: Exception) -> Pairs:
        """Return each problem that ``describe`` raised, with ``file:line``."""


@runtime_checkable
class JudgesCode(Protocol, metaclass=PortType):
    """An engine that finds mistakes in the code of valid definitions, which ``wfdash check`` prints."""

    def code_flaws(self, definition: object) -> Iterable[tuple[str, str]]:
        """Return each mistake, with ``file:line``; runs no code of any step."""

    def code_notes(self, definition: object) -> Iterable[tuple[str, str]]:
        """Return what works and may not be meant, with ``file:line``; runs no code of any step."""


@runtime_checkable
class LocatesCode(Protocol, metaclass=PortType):
    """An engine that knows where the functions of its steps are written. The code of others is not shown."""

    def code_places(self, definition: object) -> tuple[tuple[str, str, int], ...]:
        """Return each step that is a Python function: its name, its file and its first line."""


@runtime_checkable
class NamesPeople(Protocol, metaclass=PortType):
    """An engine that knows from a definition whom its steps ask."""

    def addressees(self, definition: object) -> Sequence[Addressees]:
        """Return whom each step's questions are addressed to, as far as the code says; runs no code of any step."""


@runtime_checkable
class TellsInFlight(Protocol, metaclass=PortType):
    """An engine that knows what is in progress at a checkpoint. For others it is unknown what was interrupted."""

    def in_flight(self, definition: object, checkpoint: Checkpoint) -> InFlight:
        """Return what is in progress at a checkpoint; runs no code of any step."""


@runtime_checkable
class Migrates(Protocol, metaclass=PortType):
    """An engine that can migrate checkpoints to a changed graph. Runs of others are held."""

    def carry(
        self, definition: object, checkpoint: Checkpoint, old: Description | None, *, override: bool = False
    ) -> Carried:
        """Return the checkpoint's content under the current graph, checked. ``Incompatible`` with the reason.

        By a declared hook or alias, or where the graph only gained what the checkpoint does not depend on; with
        ``override`` unchanged, if it is valid there. Changes nothing. ``old``: the
        graph it was made under, where that is known.
        """


@runtime_checkable
class LooksAhead(Protocol, metaclass=PortType):
    """An engine that can predict what a checkpoint does next. For others there are only the events."""

    def look_ahead(self, definition: object, checkpoint: Checkpoint, now: datetime) -> LookAhead:
        """Return what happens next at a checkpoint. ``Incompatible`` for a checkpoint of another graph."""


@runtime_checkable
class Continues(Protocol, metaclass=PortType):
    """An engine whose finished runs take a follow-up message: ``Continue``. Runs of others take none.

    Which of its definitions do is said by ``Description.follow_up_schema``.
    """

    def check_follow_up(self, definition: object, checkpoint: Checkpoint, message: Json) -> Json:
        """Return the message as the run that follows ``checkpoint`` will receive it; runs no code of any step.

        ``InvalidInput`` with errors per field. ``Incompatible`` where the current definition cannot continue from the
        checkpoint, which may be of an older version: the run that follows is of the current one.
        """


@runtime_checkable
class TakesEdits(Protocol, metaclass=PortType):
    """An engine whose checkpoints people can edit."""

    def edit(self, definition: object, checkpoint: Checkpoint, edits: Edits) -> Edited:
        """Return the checkpoint's content with state and messages changed; changes nothing, runs no step.

        ``InvalidInput`` with errors per field (``state``, ``messages`` + activation); ``Incompatible`` for a checkpoint
        of another graph. Answers are not applied here: they are given like any other.
        """


@runtime_checkable
class Shows(Protocol, metaclass=PortType):
    """An engine whose checkpoints can be shown. Of others pages say so; no body is shown raw."""

    def show(self, checkpoint: Checkpoint) -> Shown:
        """Return what pages show of a checkpoint; ``ValueError`` if it cannot be read.

        Decodes nothing but JSON and runs no code of any definition: an engine whose body is not readable JSON writes
        the form that is shown beside it when it commits.
        """


# What pages show of a checkpoint, whatever engine wrote it: plain JSON with nothing left to decode. No Django.

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class ToolUse(Record):
    """A model's call of a tool. ``id``: what its result is found by. ``arguments``: an object, or text that is none."""

    id: str = ""
    name: str
    arguments: Json = None


class Message(Record):
    """A message of a conversation with a model.

    ``text`` is Markdown where an assistant wrote it. ``name``: who said it, or which tool answered. ``calls``: the
    tools that an assistant's message calls. ``call``: the id of the call that a tool's message answers; ``failed`` if
    the tool did. Tokens as the model's provider counts them, None where unknown.
    """

    role: Role
    text: str = ""
    name: str = ""
    calls: tuple[ToolUse, ...] = ()
    call: str = ""
    failed: bool = False
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    at: AwareDatetime | None = None


class Shown(Record):
    """A checkpoint as pages show it. ``inputs``: activation -> the input of a step that is in progress there."""

    state: JsonObject = Field(default_factory=dict)
    transcript: tuple[Message, ...] = ()
    inputs: Mapping[str, Json] = Field(default_factory=dict)


_TRANSCRIPT: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])


def pack_transcript(messages: tuple[Message, ...]) -> list[Json]:
    """Return a transcript as JSON, for a checkpoint's body or a card; what a message does not have is left out."""
    packed: list[Json] = _TRANSCRIPT.dump_python(messages, mode="json", exclude_defaults=True)
    return packed


def unpack_transcript(packed: Json) -> tuple[Message, ...]:
    """Return a transcript that was packed. ``ValueError`` where it is none."""
    return _TRANSCRIPT.validate_python(packed, strict=False)


# What an engine is handed to drive a run.


class Start(Record):
    """Start a run with this message (JSON, already valid for the workflow's input schema)."""

    run: RunId
    message: Json = None


class Continue(Record):
    """Start a run that follows a finished one, with a message that ``check_follow_up`` has accepted.

    ``checkpoint`` has the content of the one that the earlier run ended with, stored as this run's first: the next one
    is its child. The same ``Continue`` comes again until a checkpoint is committed.
    """

    run: RunId
    checkpoint: Checkpoint
    message: Json = None


class Resume(Record):
    """Continue from a checkpoint, with the answers that have arrived for its pending requests."""

    run: RunId
    checkpoint: Checkpoint
    answers: Mapping[RequestKey, Answer] = Field(default_factory=dict)


RunInput: TypeAlias = Start | Continue | Resume


# How a call of ``run`` ends: ``Finished``, ``Waiting`` or ``Failed``. No Django.


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
