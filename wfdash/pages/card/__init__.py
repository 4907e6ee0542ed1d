"""The decision card: what is shown, and how an answer is read."""

from __future__ import annotations

from wfdash.pages.card.actions import Choice, Reading, read_answer
from wfdash.pages.card.card import Action, Card, build
from wfdash.pages.card.parts import Part, Table

__all__ = ["Action", "Card", "Choice", "Part", "Reading", "Table", "build", "read_answer"]
