"""Streamed text on its way to one viewer. Pure: what does not fit is dropped, and the next piece says so."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from wfdash.live.feeds.messages import TextPiece


class TextQueue:
    """The pieces that one viewer is to be sent."""

    def __init__(self) -> None:
        self._pieces: deque[TextPiece] = deque()
        self._missed: dict[str, bool] = {}
        """Step whose text was dropped -> whether its beginning was."""
        self.chars = 0
        """How much waits."""

    def add(self, piece: TextPiece, *, fits: bool) -> None:
        """Add a piece, or drop it."""
        if not fits:
            self._missed[piece.step] = piece.begin or self._missed.get(piece.step, False)
            return
        begin = self._missed.pop(piece.step, None)
        if begin is not None and not piece.begin:
            piece = replace(piece, begin=begin, cut=True)
        self._pieces.append(piece)
        self.chars += len(piece.text)

    def take(self) -> TextPiece | None:
        """Return the next piece, None if none waits."""
        if not self._pieces:
            return None
        piece = self._pieces.popleft()
        self.chars -= len(piece.text)
        return piece
