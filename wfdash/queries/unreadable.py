"""Content that does not open is shown as a state in its own place: one such row takes no list down."""

from __future__ import annotations

from typing import Any

from django.db.models import Model

from checkpoints.content.encryption import Locked, NotEncrypted
from checkpoints.errors import CheckpointsError, Damaged
from checkpoints.models import HumanRequest
from checkpoints.models.fields import decrypted
from checkpoints.records import Json

UNREADABLE = "unreadable"
"""The key under which a document that does not open says why."""


def why(error: CheckpointsError) -> str:
    """Return in words why content does not open."""
    if isinstance(error, NotEncrypted):
        return "Not encrypted with your keys"
    if isinstance(error, Locked):
        return "Encrypted with a key this server does not have"
    return "Altered after it was written"


def document(row: Model, column: str) -> Any:
    """Return a column's document; ``{"unreadable": words}`` for one that does not open."""
    try:
        return getattr(row, column)
    except (Damaged, Locked) as error:
        return {UNREADABLE: why(error)}


def text(row: Model, column: str) -> str:
    """Return a column's text; why it does not open, if it does not."""
    try:
        return str(getattr(row, column))
    except (Damaged, Locked) as error:
        return why(error)


def data_of(row: Any) -> dict[str, Json]:
    """Return an event's data; ``{"unreadable": words}`` for data that does not open."""
    data = document(row, "data")
    return data if isinstance(data, dict) else {}


def subject_of(row: HumanRequest) -> str:
    """Return what a request is about, for lists."""
    return headline(document(row, "card"), row.step)


def subject_in(card: Any, request_id: str, step: str) -> str:
    """Return what a request is about, of a card that was read without its row."""
    try:
        return headline(decrypted(HumanRequest, "card", card, request_id), step)
    except (Damaged, Locked) as error:
        return why(error)


def headline(card: Any, step: str) -> str:
    """Return the headline of a card, or of one that does not open."""
    told = card if isinstance(card, dict) else {}
    return str(told.get("subject") or told.get(UNREADABLE) or step)
