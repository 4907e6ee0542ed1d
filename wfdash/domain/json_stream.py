"""Reads a JSON document from a file value by value, so that a long one needs little memory. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

PART = 256_000
"""Characters read at a time; more for a longer single value."""
AFTER = frozenset(" \t\r\n,:]}")
"""What may follow a value."""


class JsonStream:
    """One JSON document, read from start to end. ``ValueError`` where it is not valid."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._decoder = file, json.JSONDecoder()
        self._text, self._at, self._ended = "", 0, False

    def value(self) -> Any:
        """Return the next whole value."""
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except ValueError:
                if self._ended:
                    raise
            else:
                # A number may continue after the part that was read.
                if self._text[end : end + 1] in AFTER or self._ended:
                    self._at = end
                    return value
            self._read()

    def items(self) -> Iterator[Any]:
        """Yield each value of the next array."""
        self._expect("[")
        if self._peek() != "]":
            yield self.value()
            while self._peek() == ",":
                self._expect(",")
                yield self.value()
        self._expect("]")

    def members(self) -> Iterator[str]:
        """Yield each name of the next object; its value must be read before the next name."""
        self._expect("{")
        if self._peek() != "}":
            yield self._member_name()
            while self._peek() == ",":
                self._expect(",")
                yield self._member_name()
        self._expect("}")

    def end(self) -> None:
        """Raise unless the document ends here."""
        if found := self._peek():
            raise ValueError(f"{found!r} found after the end of the document")

    def _member_name(self) -> str:
        name = self.value()
        if not isinstance(name, str):
            raise ValueError(f"{name!r:.50} found where a name was expected")
        self._expect(":")
        return name

    def _expect(self, wanted: str) -> None:
        found = self._peek()
        if found != wanted:
            raise ValueError(f"{found or 'the end'!r} found where {wanted!r} was expected")
        self._at += 1

    def _peek(self) -> str:
        """Return the next character that is not blank; empty at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in " \t\r\n":
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._read()

    def _read(self) -> None:
        rest = self._text[self._at :]
        # Twice as much each time: a long value is parsed a few times, not once for each part.
        part = self._file.read(max(PART, len(rest)))
        self._text, self._at, self._ended = rest + part, 0, not part
