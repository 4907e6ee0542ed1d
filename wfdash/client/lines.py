"""Bytes as lines, as event streams have them: only LF, CR and CRLF end one. Pure.

``str.splitlines`` ends a line at eight more characters, such as U+2028, which are part of what a person wrote.
"""

from __future__ import annotations

import re

END = re.compile(rb"\r\n|\n|\r")


class LineSplitter:
    """Gives the lines of a text that arrives in pieces of bytes, wherever they are cut."""

    def __init__(self) -> None:
        self._rest = b""
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """Return the lines that a piece completes, without their ends."""
        if not piece:
            return []
        ends_with_cr, piece = piece.endswith(b"\r"), piece.removeprefix(b"\n") if self._after_cr else piece
        *lines, self._rest = END.split(self._rest + piece)
        self._after_cr = ends_with_cr
        return [line.decode("utf-8", "replace") for line in lines]
