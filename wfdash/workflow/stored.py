"""The stored format of a position: where a run is. Every checkpoint has one in its body, beside the state.

Plain JSON objects, typed only for readers and the type checker. The keys are the stored format: none is renamed, and
later ones are ``NotRequired``, because a position may have been written by an older version. At the end: exceptions and
calls in their stored form.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, NotRequired, TypeAlias, TypedDict, cast, final, get_type_hints

from pydantic import BaseModel, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

from checkpoints.ids import RequestKey
from checkpoints.records import Json
from wfdash.values.codec import check_plain, class_name, codec_for, copy_plain, find_class
from wfdash.values.display import OPAQUE, to_display, truncate
from wfdash.values.errors import message_of
from wfdash.values.schemas.secrets import masked, secret_names
from wfdash.workflow.answers import named_schemas
from wfdash.workflow.errors import CallFailed, NotStorable
from wfdash.workflow.graph import Graph

Packed: TypeAlias = list[Any]
"""``[code, json]``: how to decode it (see ``routing``) and what."""
Rounds: TypeAlias = dict[str, int]
"""How many times a token has passed the joins on loops: tokens of different rounds never meet there."""
Asker: TypeAlias = list[Any]
"""``[activation, index in its journal]`` of the operation that opened a request."""
Marks: TypeAlias = Mapping[str, Sequence[str]]
"""Workflow (``""``) or sub-workflow -> its version, the signature of its own steps."""


class RecordedAnswer(TypedDict):
    """An answer as its step reads it. ``n``: the journal's length when it came; later entries depend on it."""

    value: Any
    by: str | None
    at: str
    n: NotRequired[int]
    acting_for: NotRequired[str]
    others: NotRequired[list[str]]
    lapsed: NotRequired[bool]


class RecordedError(TypedDict):
    """An exception that a call raised. ``at``: the journal's length then."""

    type: str
    args: list[Any]
    facts: dict[str, Any]
    at: NotRequired[int]


class CallIntent(TypedDict):
    """The record of a ``once`` call before it is made. ``args``: name -> value, cut to what a card shows."""

    args: dict[str, Any]
    at: str


class JournalEntry(TypedDict):
    """One operation of an activation and how it ended.

    It is open until it has ``answer``, ``result``, ``done`` or ``raised`` (an exception that the step has handled).
    A ``once`` call may also be ``failed``, ``unknown`` or ``stopped``.
    """

    k: str
    """ask | call | sleep | label"""
    name: str
    t: NotRequired[str]
    """The task of the step that issued it: see ``Replay``."""
    o: NotRequired[int]
    """Other operations of that task were open at the time."""
    again: NotRequired[int]
    """A question: how many times its answer was requested again. A call: people decided to repeat it."""

    # Questions.
    request: NotRequired[str]
    prints: NotRequired[dict[str, str]]
    """Fingerprints of the card's parts: see ``fingerprints``."""
    seen: NotRequired[Any]
    """The proposal, for decisions that only say that it is accepted."""
    renewed: NotRequired[int]
    """How many times another question replaced it."""
    answer: NotRequired[RecordedAnswer]

    # Calls.
    once: NotRequired[bool]
    keyed: NotRequired[bool]
    """Saved before it is made, as a ``once`` call: its arguments may hold its key."""
    schema: NotRequired[dict[str, Any]]
    args: NotRequired[dict[str, Any]]
    """See ``CallIntent``."""
    at: NotRequired[str]
    differed: NotRequired[int]
    """How many times a repeated call had other arguments."""
    result: NotRequired[Packed]
    raised: NotRequired[RecordedError]
    failed: NotRequired[str]
    unknown: NotRequired[bool]
    stopped: NotRequired[str | bool]
    """Who ended the run instead of deciding whether the call happened."""

    # Sleeps and labels.
    until: NotRequired[str]
    label: NotRequired[str]
    done: NotRequired[bool]


def task_name_of(entry: JournalEntry) -> str:
    """Return the name of the task that a journal entry was made in."""
    return entry.get("t", "")


def numbered(task_name: str, number: int) -> str:
    """Return what tells an operation from all others of its activation: the task's name and its number there."""
    return f"{task_name}.{number}" if task_name else str(number)


class Activation(TypedDict):
    """One activation of a step in progress, with one message."""

    step: str
    message: Packed
    scope: str
    """One ``group.item/`` per map or sub-workflow around it, outermost first."""
    journal: list[JournalEntry]
    rounds: NotRequired[Rounds]
    born: NotRequired[int]
    """The state's version (``Position.v``) that it sees."""
    attempt: NotRequired[int]
    attempts: NotRequired[int]
    retry_at: NotRequired[str]
    queued: NotRequired[bool]
    """It waits for a free slot of its step (``concurrency``)."""
    parked: NotRequired[bool]
    """It can do nothing before people answer or a time has come."""
    used: NotRequired[list[int]]
    """Usage of models that was counted in this attempt: how often, behind how many entries of the journal the last
    time, and behind how many in an earlier attempt.
    """
    called: NotRequired[str]
    """Its step's name when it started, if that was renamed since: effect keys keep it."""


@final
class JoinState(TypedDict):
    """What a join of steps has collected. ``got``: index of the source -> values in the order they arrived."""

    t: str
    """The node that collects."""
    scope: str
    turn: int
    """How many times this join has fired before, on a loop."""
    got: dict[str, list[Packed]]
    rounds: NotRequired[Rounds]
    fired: NotRequired[bool]
    """It had enough (``any_of``, ``n_of``): later values are dropped."""


@final
class GroupState(TypedDict):
    """What the end of one map or sub-workflow has collected. ``got``: ``[scope, value]`` each."""

    t: str
    """The node that collects."""
    scope: str
    group: str
    """The prefix of the scopes that belong to it."""
    got: list[Any]
    rounds: NotRequired[Rounds]
    loose: NotRequired[Packed]
    """The last value inside it that no edge took."""


@final
class StoredTranscript(TypedDict):
    """A conversation with a model that a step had: its messages as JSON (``pack_transcript``)."""

    step: str
    messages: list[Any]


class Position(TypedDict):
    """Where a run is. Activations are numbered by ``next``, one count for the whole run."""

    next: int
    v: int
    """How many commits have written to the state."""
    live: dict[str, Activation]
    """Activation -> its record, in the order in which they started."""
    joins: dict[str, JoinState | GroupState]
    """``step@scope#turn`` of a join, ``step@group`` of the end of a map or sub-workflow."""
    asked: dict[RequestKey, Asker]
    """Key of a pending request -> the operation that asked it."""
    outputs: list[Packed]
    """What end steps returned."""
    loose: Packed | None
    """The last value that no edge took."""
    since: dict[str, int]
    """Scope -> steps in loops since the last answer."""
    past: dict[str, list[list[Any]]]
    """State key -> ``[version, old value]`` (``[version]``: there was none) that steps in progress may still read."""
    wrote: dict[str, list[Any]]
    """State key -> ``[version, step]`` that wrote it last, where steps overlap."""
    levels: NotRequired[Marks]
    """The versions of its sub-workflows that the run started under."""
    labels: NotRequired[dict[str, str]]
    """Scope of an item of a map -> what it is called, where its workflow says so."""
    transcripts: NotRequired[dict[str, StoredTranscript]]
    """Activation -> the conversation it had, kept when it ends until another one continues it."""


PARTS = {"next": int, "v": int, "outputs": list}
PARTS |= dict.fromkeys(("live", "joins", "asked", "since", "past", "wrote"), dict)
"""What every position has, and what it is."""
NEEDED = {"step", "message", "scope", "journal"}
"""What each activation has."""
ENTRY = {"k", "name"}
"""What each operation of an activation has."""
JOINED = {"t", "scope", "got"}
"""What each join has."""


def unsure_calls(record: Activation) -> list[str]:
    """Return the names of an activation's ``once`` calls whose outcome is unknown."""
    return [e["name"] for e in record["journal"] if e.get("once") and "result" not in e and "stopped" not in e]


def position_in(body: Mapping[str, Any]) -> Position | None:
    """Return the position in a checkpoint's body; None where the body is not one of this engine's."""
    position: Any = body.get("position")
    if not isinstance(position, dict):
        return None
    for name, kind in PARTS.items():
        if not isinstance(position.get(name), kind):
            return None
    live = position["live"].values()
    if not _all_have(NEEDED, live) or not _all_have(JOINED, position["joins"].values()):
        return None
    for one in live:
        if not isinstance(one["journal"], list) or not _all_have(ENTRY, one["journal"]):
            return None
    return cast(Position, position)


def _all_have(names: set[str], records: Iterable[Any]) -> bool:
    return all(isinstance(one, dict) and one.keys() >= names for one in records)


# -- an exception raised by a call, as JSON and back, so that a step that handled it repeats its path

ENGINE = Path(__file__).parent


def is_engine_code(code: CodeType) -> bool:
    """Return whether this is the engine's own code and not a step's, wherever the step's file is."""
    return ENGINE in Path(code.co_filename).parents


def encode_exception(error: Exception, home: Mapping[str, Any]) -> RecordedError | None:
    """Return class, arguments and attributes; None if it could not be reproduced.

    ``home``: the globals of the step that made the call.
    """
    kind = type(error)
    found: RecordedError = {"type": class_name(kind, home), "args": list(error.args), "facts": dict(vars(error))}
    try:
        check_plain(found, "error")
        again = decode_exception(found, home)
        same = type(again) is kind and again.args == error.args and message_of(again) == message_of(error)
    except (NotStorable, CallFailed, RecursionError):
        return None
    return copy_plain(found) if same else None


def decode_exception(found: RecordedError, home: Mapping[str, Any]) -> Exception:
    """Return the exception, created without calling its ``__init__``; ``CallFailed`` if its class no longer exists."""
    kind = find_class(found["type"], home)
    if kind is None or not issubclass(kind, Exception):
        raise CallFailed(f"a call raised {found['type']}, which no longer exists", **found)
    try:
        error: Exception = kind.__new__(kind, *found["args"])
    except Exception as problem:
        raise CallFailed(f"a call raised {found['type']}, which cannot be made again: {problem}") from problem
    error.args = tuple(copy_plain(found["args"]))
    vars(error).update(copy_plain(found["facts"]))
    return error


def causes_of(error: BaseException | None) -> list[BaseException]:
    """Return the exception, its causes, and the members of groups."""
    found: list[BaseException] = []
    pending = [error]
    while pending:
        current = pending.pop()
        if current is None or current in found:
            continue
        found.append(current)
        pending.append(current.__cause__)
        pending += current.exceptions if isinstance(current, BaseExceptionGroup) else ()
    return found


# -- the intent of a ``once`` call, recorded before it is made: people who decide whether it happened must see it.
# Secrets are masked before anything is stored, and values without a JSON form only keep their type.

MOST_ARGUMENTS = 2_000
"""Parts of a call's arguments that are recorded."""


def intent(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], at: datetime) -> CallIntent:
    """Return the record of a call: ``args``, name -> value cut to what a card shows, and ``at``, as ISO text."""
    given = _bound_arguments(function, args, kwargs)
    models = {type(value) for value in given.values() if isinstance(value, BaseModel)}
    names = _secrets_of(function).union(*(secret_names(codec_for(kind).schema()) for kind in models))
    shown = masked(_without_reprs(to_display(given, most=MOST_ARGUMENTS)), names)
    return {"args": truncate(shown), "at": at.isoformat()}


def secrets_of(graph: Graph) -> frozenset[str]:
    """Return the names of the fields that a type of a message, of the state or of a question calls secrets."""
    codecs = [codec for node in graph.nodes.values() for codec in (*(node.accepts or ()), *(node.produces or ()))]
    schemas = [codec.schema() for codec in (*codecs, *graph.state.codecs.values())]
    # The type a step asks for is not in its signature.
    named = [schema for node in graph.nodes.values() for schema in named_schemas(node.function)]
    return frozenset[str]().union(*map(secret_names, (*schemas, *named)))


def _bound_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
        more = {one.name for one in bound.signature.parameters.values() if one.kind is one.VAR_KEYWORD}
        named = {name: value for name, value in bound.arguments.items() if name not in more}
        return named | {name: value for part in more for name, value in bound.arguments.get(part, {}).items()}
    except (TypeError, ValueError):
        return {**{str(number): value for number, value in enumerate(args, 1)}, **kwargs}


@lru_cache(maxsize=512)
def _of_type(kind: Any) -> frozenset[str]:
    try:
        return secret_names({"properties": {"": TypeAdapter(kind).json_schema()}})
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError):
        return frozenset()


def _secrets_of(function: Callable[..., Any]) -> frozenset[str]:
    """Return the secrets by name among a function's parameters, and in their types."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return frozenset()
    found = [names | ({name} if "" in names else set()) for name, names in _by_parameter(hints)]
    return frozenset[str]().union(*found) - {""}


def _by_parameter(hints: Mapping[str, Any]) -> list[tuple[str, frozenset[str]]]:
    known = []
    for name, kind in hints.items():
        try:
            known.append((name, _of_type(kind)))
        except TypeError:  # A type that is not hashable.
            continue
    return known


def _without_reprs(value: Json) -> Json:
    """Return the value with opaque parts named by their type: an object's repr may contain a secret."""
    if isinstance(value, list):
        return [_without_reprs(part) for part in value]
    if not isinstance(value, dict):
        return value
    if OPAQUE in value:
        return f"({value[OPAQUE]})"
    return {name: _without_reprs(part) for name, part in value.items()}
