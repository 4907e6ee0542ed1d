"""The stored format of a position: where a run is. Every checkpoint has one in its body, beside the state.

Plain JSON objects, typed only for readers and the type checker. The keys are the stored format: none is renamed, and
later ones are ``NotRequired``, because a position may have been written by an older version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NotRequired, TypeAlias, TypedDict, cast, final

from checkpoints.ids import RequestKey

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
    """The task of the step that issued it: see ``task_names``."""
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
    if not isinstance(position, dict) or not all(isinstance(position.get(name), kind) for name, kind in PARTS.items()):
        return None
    live, joins = position["live"].values(), position["joins"].values()
    whole = _all_have(NEEDED, live) and _all_have(JOINED, joins)
    whole = whole and all(isinstance(one["journal"], list) and _all_have(ENTRY, one["journal"]) for one in live)
    return cast(Position, position) if whole else None


def _all_have(names: set[str], records: Iterable[Any]) -> bool:
    return all(isinstance(one, dict) and one.keys() >= names for one in records)
