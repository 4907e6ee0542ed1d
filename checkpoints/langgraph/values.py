"""What LangGraph hands over, checked and in the form that rows have: ids, metadata, filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.content.chunks import digest
from checkpoints.errors import InvalidValue
from checkpoints.limits import is_holdable

Json = Any

RUN_KEY = 200
"""Characters of a run's id as far as it is searched for; a longer one is found by its digest."""
NAMESPACE = 1500
"""Bytes of a namespace; it grows by about 50 with each nested graph."""
NAME = 400
"""Bytes of the id of a checkpoint or task."""
BIGGEST = 2**63 - 1


class ThreadPlace(NamedTuple):
    """A namespace of a thread, and maybe one of its checkpoints."""

    thread: str
    ns: str
    checkpoint: str | None


def place_of(config: Mapping[str, Any], *, named: bool = False) -> ThreadPlace:
    """Return where a config points. ``named``: a checkpoint has to be. ``InvalidValue`` names the field."""
    found = config.get("configurable") or {}
    if found.get("thread_id") in (None, ""):
        raise InvalidValue("thread_id: give one, as config={'configurable': {'thread_id': ...}}", field="thread_id")
    ns, checkpoint = found.get("checkpoint_ns") or "", found.get("checkpoint_id") or None
    if named and checkpoint is None:
        raise InvalidValue("checkpoint_id: these writes belong to no checkpoint", field="checkpoint_id")
    name = None if checkpoint is None else checked("checkpoint_id", str(checkpoint), NAME)
    return ThreadPlace(
        checked("thread_id", str(found["thread_id"])), checked("checkpoint_ns", str(ns), NAMESPACE), name
    )


def checked(field: str, text: str, most: int | None = None) -> str:
    """Return a text that every database can keep. ``InvalidValue`` names the field."""
    if not is_holdable(text):
        words = "holds NUL or half a character (a lone surrogate), which cannot be stored: remove it"
        raise InvalidValue(f"{field}: {words}", field=field)
    if most is not None and len(text) > most // 4 and len(text.encode()) > most:
        raise InvalidValue(f"{field}: at most {most} bytes fit, not {len(text.encode())}: shorten it", field=field)
    return text


def thread_key(name: str) -> str:
    """Return what a thread is found by: the digest of its name, which may have any length."""
    return digest(name.encode())


def run_key(run: object) -> str | None:
    """Return what the checkpoints of a run are found by."""
    if not isinstance(run, str):
        return None
    return run if len(run) < RUN_KEY else f"{digest(run.encode(errors='replace'))}:long"


def whole_number(step: object) -> int | None:
    """Return a step that fits into its column, None for anything else."""
    return step if type(step) is int and -BIGGEST <= step <= BIGGEST else None


def plain_text(text: object) -> str | None:
    """Return a text that fits into its column, None for anything else."""
    return text if isinstance(text, str) and is_holdable(text) else None


def metadata_of(given: Mapping[str, Any]) -> dict[str, Json]:
    """Return metadata as JSON keeps it: tuples as lists, and without NUL. ``InvalidValue`` for what is no JSON."""
    try:
        text = dumps(dict(given))
    except ValueError as error:
        raise InvalidValue(f"metadata: {error}", field="metadata") from error
    found = loads(text)
    return without_nul(found) if b"\\u0000" in text else found  # type: ignore[no-any-return]


def without_nul(value: Json) -> Json:
    """Return a document without the character that PostgreSQL keeps in no text."""
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {without_nul(key): without_nul(item) for key, item in value.items()}
    return [without_nul(item) for item in value] if isinstance(value, list) else value


def canonical(value: Json) -> bytes:
    """Return the same text for the same document, however a database wrote it: keys sorted, 1.0 as 1."""
    return dumps(_sorted(value))


def _sorted(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def matches(metadata: Mapping[str, Json], wanted: Mapping[str, Json]) -> bool:
    """Return whether metadata has these values; one that is missing counts as None."""
    return all(canonical(metadata.get(key)) == canonical(value) for key, value in wanted.items())
