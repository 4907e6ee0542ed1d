"""Search attributes of a run, from its input, its title and its failure. Pure.

The only place that says how text is compared: both writing and searching use it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from wfdash.schemas.nodes import Schema, is_secret, is_single, items_of, resolved, under

MOST_INPUTS = 40
"""Values of an input that can be searched for, those nearest its top first."""
MOST_WORDS = 60
MOST_LEAVES = 500
LONGEST_TEXT = 200
LONGEST_WORD = 64
LONGEST_READ = 4000
"""Characters of one text whose words are indexed."""
DEEPEST = 12

INPUT, TITLE, WORD, ERROR, TAG = "input", "title", "word", "error", "tag"
KEEP = "keep"
"""The tag by which people keep a run: neither its age nor anyone's deletion removes it."""

TOKEN = re.compile(r"[^\W_]+")
NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,9})?")
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
LARGEST = 10**15
Path = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SearchAttribute:
    """A name, its normalised text, and its number, if it has one (a date: its seconds)."""

    name: str
    text: str
    number: float | None = None


def folded(text: str) -> str:
    """Return a text normalised for comparison: case-folded, without NUL and surrogates, at most ``LONGEST_TEXT``
    long.
    """
    plain = text[: LONGEST_TEXT * 2].replace("\0", "").encode("utf-8", "replace").decode()
    return unicodedata.normalize("NFC", plain).lower().strip()[:LONGEST_TEXT]


def tokens(text: str) -> tuple[str, ...]:
    """Return the normalised words of a text, each once, in their order."""
    plain = unicodedata.normalize("NFC", text[:LONGEST_READ]).lower()
    return tuple(dict.fromkeys(token[:LONGEST_WORD] for token in TOKEN.findall(plain)))


def number_of(value: Any) -> float | None:
    """Return a value as a number: also a text of plain digits; None for everything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < LARGEST and math.isfinite(value) else None
    return float(value) if isinstance(value, str) and NUMBER.fullmatch(value) else None


def moment_in(value: Any) -> datetime | None:
    """Return the time that a text names (``2026-01-31``, or with a time; UTC by default), or None."""
    if not isinstance(value, str) or not DAY.match(value) or len(value) > LONGEST_WORD:
        return None
    try:
        found = datetime.fromisoformat(value)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def title_words(*texts: str, run: str = "") -> tuple[str, ...]:
    """Return the words of a run's title and workflow, and the end of its id as lists show it."""
    found = tokens(" ".join(texts))[: MOST_WORDS - 1]
    return (*found, run[-8:].lower()) if run else found


def facts_of(message: Any, schema: Schema | None = None) -> tuple[SearchAttribute, ...]:
    """Return the attributes of an input: its values by path, and its words. Secret values have none.

    A path has no list indexes: every item is a value of it. Secret: ``writeOnly``, or of format ``password``.
    """
    values: dict[SearchAttribute, None] = {}
    words: dict[str, None] = {}
    for path, value in leaves(message, schema or {}):
        fact = _fact(path, value)
        if fact is not None and len(values) < MOST_INPUTS:
            values[fact] = None
        if len(words) < MOST_WORDS and not isinstance(value, bool):
            words |= dict.fromkeys(tokens(str(value)))
    return (*values, *(SearchAttribute(name=WORD, text=word) for word in list(words)[:MOST_WORDS]))


def failure_of(error: Mapping[str, Any] | None, *, content: bool = True) -> tuple[SearchAttribute, ...]:
    """Return the attributes of a failure: its class, and with ``content`` the words of its message."""
    kind = str((error or {}).get("type") or "")
    classes = dict.fromkeys(folded(name) for name in (kind, kind.rpartition(".")[2]) if name)
    words = tokens(f"{kind} {(error or {}).get('message') or ''}")[:MOST_WORDS] if content else ()
    named = (SearchAttribute(name=ERROR, text=text) for text in classes)
    return (*named, *(SearchAttribute(name=WORD, text=word) for word in words))


def paths_of(schema: Schema, most: int = MOST_INPUTS) -> tuple[Path, ...]:
    """Return the paths of the scalar values that an input of this schema may have, those nearest the top first."""
    waiting, found = deque[tuple[Path, list[Schema]]]([((), resolved([schema], schema))]), dict[Path, None]()
    while waiting and len(found) < most:
        path, nodes = waiting.popleft()
        if any(is_secret(node) for node in nodes) or len(path) > DEEPEST // 2:
            continue
        below = [
            pair for node in nodes if isinstance(node.get("properties"), Mapping) for pair in node["properties"].items()
        ]
        waiting.extend(((*path, str(name)), resolved([part], schema)) for name, part in below)
        waiting.extend((path, resolved([part], schema)) for node in nodes for part in items_of(node) if path)
        if path and any(is_single(node) for node in nodes):
            found[path] = None
    return tuple(found)


def path_name(keys: Iterable[str]) -> str:
    """Return the name of the values under these keys, as written in a filter: ``input.order.total``."""
    parts = [re.sub(r"[^\w-]+", "_", key.lower()) or "_" for key in keys]
    return ".".join([INPUT, *parts])[:LONGEST_TEXT]


def _fact(path: Path, value: Any) -> SearchAttribute | None:
    text = str(value).lower() if isinstance(value, bool) else folded(str(value))
    if not text:
        return None
    moment = moment_in(value)
    number = number_of(value) if moment is None else moment.timestamp()
    return SearchAttribute(name=path_name(path), text=text, number=number)


def leaves(message: Any, schema: Schema) -> Iterator[tuple[Path, Any]]:
    """Yield the scalars of a document with their paths, those nearest the top first."""
    waiting: deque[tuple[Path, Any, list[Schema]]] = deque([((), message, resolved([schema], schema))])
    given = 0
    while waiting and given < MOST_LEAVES:
        path, value, nodes = waiting.popleft()
        if any(is_secret(node) for node in nodes):
            continue
        if isinstance(value, Mapping):
            for key, item in value.items():
                below = [part for node in nodes for part in under(node, str(key))]
                if len(path) < DEEPEST:
                    waiting.append(((*path, str(key)), item, resolved(below, schema)))
        elif isinstance(value, list | tuple):
            below = [part for node in nodes for part in items_of(node)]
            if len(path) < DEEPEST:
                waiting.extend((path, item, resolved(below, schema)) for item in value[:MOST_LEAVES])
        elif value is not None:
            given += 1
            yield path, value


TAGGED = re.compile(r"\w[\w.:/@+-]{0,39}")


def tag_of(text: str) -> str | None:
    """Return a tag as stored (lower case, at most 40 characters), None for an invalid one."""
    tag = folded(text)
    return tag if TAGGED.fullmatch(tag) else None
