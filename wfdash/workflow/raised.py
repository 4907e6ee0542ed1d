"""An exception that a call raised, as JSON and back, so that a step that handled it takes the same way again."""

from __future__ import annotations

import sys
from typing import Any

from checkpoints.records import Json
from wfdash.workflow.codec import check_plain, copy_plain
from wfdash.workflow.errors import CallFailed, NotStorable

MOST_WORDS = 20_000


def words_of(error: BaseException) -> str:
    """Return an exception's message, whatever it is: cut, storable, and empty if the exception cannot tell it."""
    try:
        text = str(error)[:MOST_WORDS]
    except Exception:
        return ""
    return text.encode(errors="backslashreplace").decode()


def record_error(error: Exception) -> dict[str, Json] | None:
    """Return class, arguments and attributes; None if it could not be made again the same."""
    kind = type(error)
    found: dict[str, Json] = {"type": f"{kind.__module__}:{kind.__qualname__}", "args": list(error.args)}
    found["facts"] = dict(vars(error))
    try:
        check_plain(found, "error")
        again = recall_error(found)
        alike = type(again) is kind and again.args == error.args and words_of(again) == words_of(error)
    except (NotStorable, CallFailed, RecursionError):
        return None
    return copy_plain(found) if alike else None


def recall_error(found: dict[str, Any]) -> Exception:
    """Make the exception again, without calling its ``__init__``; ``CallFailed`` if its class is not there any more."""
    module, _, name = found["type"].partition(":")
    kind: Any = sys.modules.get(module)
    for part in name.split("."):
        kind = getattr(kind, part, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        raise CallFailed(f"a call raised {found['type']}, which is not there any more", **found)
    try:
        error: Exception = kind.__new__(kind, *found["args"])
    except Exception as problem:
        raise CallFailed(f"a call raised {found['type']}, which cannot be made again: {problem}") from problem
    error.args = tuple(copy_plain(found["args"]))
    vars(error).update(copy_plain(found["facts"]))
    return error


def parts_of(error: BaseException | None) -> list[BaseException]:
    """Return the exception, what it was raised from, and the members of groups."""
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
