"""JSON as text that people edit: read with errors that say where, and the line of every value. Pure."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from wfdash.domain.invisible import escaped
from wfdash.pages.ui.forms.fields import Loc
from wfdash.schemas.work import MOST_NODES, has_more_values


class Unreadable(ValueError):
    """The typed text is not a value of this kind; the message is for the person who typed it."""


def read(text: str) -> Any:
    """Return the value of a JSON text. Raises ``Unreadable`` with line and column."""
    if has_more_values(text.encode(errors="replace"), MOST_NODES):
        raise Unreadable(f"Must not hold more than {MOST_NODES:,} values")
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_number, object_pairs_hook=_object)
    except Unreadable:
        raise
    except RecursionError as error:
        raise Unreadable("Nested too deeply") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Unreadable(f"Must be valid JSON ({where}: {_hint(error.msg)})") from error
    except ValueError as error:
        raise Unreadable("Must be valid JSON: a number has too many digits") from error


def write(value: Any) -> str:
    """Return a value as text to edit; deceiving characters are written as their escapes, so that they are visible."""
    return escaped(json.dumps(value, indent=2, ensure_ascii=False))


def lines_of(text: str) -> dict[Loc, int]:
    """Return the line of every value of a valid JSON text, by place; empty if it is nested too deep."""
    try:
        return dict(_Scan(text).values(()))
    except (RecursionError, IndexError):
        return {}


def path_of(loc: Loc) -> str:
    """Return a place as text: ``lines[0].amount``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return "".join(parts).removeprefix(".")


class _Scan:
    """Scans a valid text, token by token."""

    TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+)', re.DOTALL)

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, int]] = []
        line, counted = 1, 0
        for match in self.TOKEN.finditer(text):
            line += text.count("\n", counted, match.start(1))
            counted = match.start(1)
            self.tokens.append((match[1], line))
        self.at = 0

    def values(self, loc: Loc) -> Iterator[tuple[Loc, int]]:
        """Yield a value and all within it, each with its line."""
        opening, line = self._next_token()
        yield loc, line
        if opening in {"{", "["}:
            yield from self._inside(loc, opening == "{")

    def _inside(self, loc: Loc, named: bool) -> Iterator[tuple[Loc, int]]:
        index = 0
        while self.tokens[self.at][0] not in {"}", "]"}:
            key: str | int = index
            if named:
                key = json.loads(self._next_token()[0])
                self._next_token()
            yield from self.values((*loc, key))
            index += 1
            if self.tokens[self.at][0] == ",":
                self._next_token()
        self._next_token()

    def _next_token(self) -> tuple[str, int]:
        self.at += 1
        return self.tokens[self.at - 1]


def _refuse_constant(name: str) -> Any:
    raise Unreadable(f"JSON has no {name}: remove it or use null")


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Unreadable(f"The number {text[:40]} is too large")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise Unreadable(f"The name {twice!r} is used twice: remove one")
    return made


def _hint(message: str) -> str:
    """Return the error of the standard library's parser as something to do."""
    remedies = {
        "Expecting value": "a value is missing, or text lacks double quotes",
        "Expecting property name enclosed in double quotes": "a name in double quotes is missing, or a comma is extra",
        "Expecting ',' delimiter": "a comma is missing",
        "Expecting ':' delimiter": "a colon is missing",
        "Unterminated string": "a double quote is missing",
        "Extra data": "extra text after the end",
        "Illegal trailing comma before end of object": "an extra comma before the end",
        "Illegal trailing comma before end of array": "an extra comma before the end",
    }
    return next((words for start, words in remedies.items() if message.startswith(start)), message.lower())
