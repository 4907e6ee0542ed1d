"""How long ids and names may be and what they may hold: one table for every storage, page, command and API.

Checked before anything is stored, so that no database decides: what one storage keeps, all of them keep. An id that
breaks these rules belongs to nothing; looking it up finds nothing (``findable``), whatever the database accepts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import TypeVar, cast

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.errors import InvalidValue
from checkpoints.events import STORED, check_event
from checkpoints.records import Checkpoint, Commit, Json, Request

S = TypeVar("S", bound=str)

UNHOLDABLE = "\x00\ud800-\udfff"
"""NUL and half characters (lone surrogates), which no text column holds."""
ODD = re.compile(f"[{UNHOLDABLE}]")
ODD_OR_MARK = re.compile(f"[{UNHOLDABLE}\uffff]")
"""Those, and their replacement in a look-up, which is never stored."""

ID = 200
"""Characters of a run's or checkpoint's id."""
NAME = 200
"""Characters of the name of a workflow, step, worker or label."""
KEY = 300
"""Characters of the engine's name for a question or call."""
MOST_NODES = 50_000
"""Values in a message, an answer or a card, nested ones included; of text a value may have as much as fits."""
MAX_DEPTH = 32
"""Lists and objects within each other that a message or an answer may have."""
FACTS = 4_000
"""Bytes of a checkpoint's facts as JSON."""


@dataclass(frozen=True, slots=True)
class TextLimit:
    """How many characters a value has at least and at most, and what to do about one that is too long."""

    most: int
    least: int = 1
    remedy: str = "shorten it"


LIMITS: Mapping[str, TextLimit] = {
    "run id": TextLimit(ID, remedy="give run_id= a shorter one"),
    "checkpoint id": TextLimit(ID),
    "parent": TextLimit(ID),
    "workflow name": TextLimit(NAME),
    "workflow title": TextLimit(10_000, 0),
    "run title": TextLimit(1_000, 0),
    "item label": TextLimit(1_000),
    "workflow version": TextLimit(64, 0),
    "engine": TextLimit(40),
    "step name": TextLimit(NAME, remedy="give name= a shorter one, or nest fewer sub-workflows"),
    "label": TextLimit(NAME, remedy="shorten it, or give None to take the label away"),
    "worker name": TextLimit(NAME),
    "request key": TextLimit(KEY),
    "request kind": TextLimit(40),
    "call key": TextLimit(KEY, remedy="shorten the names of the step and its maps"),
    "call name": TextLimit(KEY, remedy="call a function with a shorter name"),
}


PLAIN = re.compile("[!-~]{1,40}").fullmatch
"""Matches what is good under every entry of the table, which most ids and names are: a few visible ASCII characters."""


@lru_cache(1024)
def is_plain(name: str) -> bool:
    """Return whether a name is good under every entry of the table; False leaves that to ``problem_of``."""
    # Remembered: every commit asks it of the same few names.
    return PLAIN(name) is not None


def problem_of(what: str, value: object) -> str:
    """Return why this cannot be stored under that entry of the table, in words; empty if it can."""
    limit = LIMITS[what]
    if not isinstance(value, str):
        return f"{what}: must be text, not {type(value).__name__}"
    if limit.least and value and not value.strip():
        return f"{what}: must not be blank: give {limit.least} to {limit.most} characters"
    if not limit.least <= len(value) <= limit.most:
        return f"{what}: give {limit.least} to {limit.most} characters, not {len(value)}: {limit.remedy}"
    if not is_storable(value):
        return f"{what}: holds NUL or half a character (a lone surrogate), which cannot be stored: remove it"
    return ""


def is_holdable(text: str) -> bool:
    """Say whether every database can hold the text: to look for, or inside of a document."""
    return "\0" not in text if text.isascii() else ODD.search(text) is None


def is_storable(text: str) -> bool:
    """Return whether a column can store the text: every database accepts it, and it is no replacement of a look-up."""
    return "\0" not in text if text.isascii() else ODD_OR_MARK.search(text) is None


def as_name(given: object) -> str:
    """Return what a library calls something as a name: cut, and without what a column cannot store."""
    return "".join(filter(is_storable, str(given or "")[:NAME])).strip()


def check(what: str, value: object) -> None:
    """Raise ``InvalidValue`` (a ``ValueError``), naming the field and the remedy, for what not every storage keeps."""
    if type(value) is str and is_plain(value):
        return
    if problem := problem_of(what, value):
        raise InvalidValue(problem, field=what)


def check_label(label: str | None) -> None:
    """Raise ``InvalidValue`` for a label that not every storage could keep, or that names nothing."""
    if label is not None:
        check("label", label)


def check_facts(facts: Mapping[str, Json]) -> None:
    """Raise ``InvalidValue`` for facts that are too big, or would not be read as they were given."""
    try:
        text = dumps(facts)
        same = loads(text) == facts
    except ValueError as error:
        raise InvalidValue(f"facts: {error}", field="facts") from error
    if not same:
        words = "give text, finite numbers, true, false, null, lists, and dicts with text as keys"
        raise InvalidValue(f"facts: would be read differently from how they were given: {words}", field="facts")
    if len(text) > FACTS:
        words = "keep bigger values in the body, or elsewhere"
        raise InvalidValue(f"facts: at most {FACTS} bytes of JSON fit, not {len(text)}: {words}", field="facts")


def check_commit(commit: Commit) -> None:
    """Raise ``InvalidValue`` for a commit with an id or a name that not every storage could keep."""
    checkpoint = commit.checkpoint
    if checkpoint is not None:
        check_checkpoint(checkpoint)
    if checkpoint is None or commit.run != checkpoint.run:
        check("run id", commit.run)
    for event in commit.events:
        kind, step = STORED.get(event.kind), event.step
        if kind is None or not kind.fields.issuperset(event.data):
            check_event(event)
        if step is not None and not is_plain(step):
            check("step name", step)
    for request in commit.opened:
        _check_request(request)
    for effect in commit.effects:
        check("call key", effect.key)
        check("call name", effect.name)
        check("step name", effect.step)


def check_checkpoint(checkpoint: Checkpoint) -> None:
    """Raise ``InvalidValue`` for a checkpoint with an id or a name that not every storage could keep."""
    if checkpoint.n < 1:
        raise InvalidValue(f"n: a run's checkpoints are numbered from 1; not {checkpoint.n}", field="n")
    names, (own, parent, step, label, facts, requests) = NAMES_OF(vars(checkpoint)), REST_OF(vars(checkpoint))
    if not all(map(is_plain, names)):
        for what, name in zip(NAMES, names, strict=True):
            check(what, name)
    if not PLAIN(own):
        check("checkpoint id", own)
    if parent is not None and not PLAIN(parent):
        check("parent", parent)
    if step is not None and not is_plain(step):
        check("step name", step)
    if label is not None:
        check("label", label)
    if facts:
        check_facts(facts)
    for request in requests:
        _check_request(request)


NAMES = ("run id", "workflow name", "workflow version", "engine")
"""What the names are called here that all checkpoints of a run have in common."""
NAMES_OF = itemgetter("run", "workflow", "version", "engine")
"""Takes them from a checkpoint's fields."""
REST_OF = itemgetter("id", "parent", "step", "label", "facts", "requests")


def _check_request(request: Request) -> None:
    check("request key", request.key)
    check("request kind", request.kind)
    check("step name", request.step)


def findable(text: S) -> S:
    """Return text to look up with: itself, or something that nothing has if no database could hold it.

    ``InvalidValue`` for what is no text.
    """
    if not isinstance(text, str):
        raise InvalidValue(f"{text!r:.50} is a {type(text).__name__}: an id is text")
    return text if is_storable(text) else cast(S, ODD_OR_MARK.sub("\uffff", text))


def cleaned(text: str) -> str:
    """Return text with a mark in place of each character that cannot be stored, for what is only shown."""
    return text if is_storable(text) else ODD_OR_MARK.sub("\ufffd", text)


def oversize(value: Json) -> str:
    """Return why a message or an answer is too large for any check; empty if it is not."""
    if count_nodes(value, MOST_NODES) > MOST_NODES:
        return f"Must not hold more than {MOST_NODES:,} values: send large data as text or a link"
    return f"Must not be nested deeper than {MAX_DEPTH} levels" if depth_of(value) > MAX_DEPTH else ""


def count_nodes(value: Json, most: float = math.inf) -> int:
    """Return how many values a value holds, itself and nested ones counted; without recursion. Above ``most`` it is
    enough to know that there are more.
    """
    stack, count = [value], 1
    while stack and count <= most:
        current = stack.pop()
        if isinstance(current, (dict, list)):
            count += len(current)
            inner = current.values() if isinstance(current, dict) else current
            stack += [item for item in inner if isinstance(item, (dict, list))]
    return count


def depth_of(value: Json, most: int = MAX_DEPTH) -> int:
    """Return how deep lists and objects are nested (a scalar is 0), without recursion; one more than ``most`` is the
    greatest depth.
    """
    deepest, stack = 0, [(value, 0)]
    while stack:
        current, depth = stack.pop()
        deepest = max(deepest, depth)
        if depth <= most and isinstance(current, (dict, list)) and current:
            deepest = max(deepest, depth + 1)
            children = current.values() if isinstance(current, dict) else current
            stack.extend((child, depth + 1) for child in children if isinstance(child, (dict, list)))
    return deepest
