"""The decision card: what is shown, and how an answer is read."""

from __future__ import annotations

from wfdash.pages.card.actions import Choice, Reading, read_answer
from wfdash.pages.card.card import Action, Card, build
from wfdash.pages.card.media import Media, media_at
from wfdash.pages.card.parts import Part
from wfdash.pages.card.stand import Stop, stand
from wfdash.pages.card.tables import Table

__all__ = [
    "Action",
    "Card",
    "Choice",
    "Media",
    "Part",
    "Reading",
    "Stop",
    "Table",
    "build",
    "media_at",
    "read_answer",
    "stand",
]
