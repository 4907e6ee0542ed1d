"""An exception raised by a call, as JSON and back, so that a step that handled it repeats its path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import CodeType
from typing import Any

from wfdash.values.class_names import class_name, find_class
from wfdash.values.codec import check_plain, copy_plain
from wfdash.values.exceptions import message_of
from wfdash.workflow.errors import CallFailed, NotStorable
from wfdash.workflow.stored.position import RecordedError

ENGINE = Path(__file__).parents[1]


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
