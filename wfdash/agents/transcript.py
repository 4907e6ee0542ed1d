"""An agent's conversation as cards and pages show it, with the secrets of its tools hidden. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from wfdash.questions.evidence import Transcript
from wfdash.questions.transcript import Message

MOST = 200
"""Messages that a card shows, from the end."""


def conversation(messages: Sequence[Message]) -> list[Transcript]:
    """Return the end of a conversation as evidence on a card; empty where there is none."""
    if not messages:
        return []
    kept = tuple(messages[-MOST:])
    return [Transcript(title="Conversation", messages=kept, earlier=len(messages) - len(kept))]
