"""An agent's conversation as a card and a page show it: who said what, and which tools were called. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from checkpoints.records import Json
from wfdash.questions.evidence import Markdown

MOST = 20
"""Messages that a card shows, from the end."""


def conversation(history: Sequence[Json]) -> list[Any]:
    """Return the end of a conversation as evidence on a card; empty where there is none."""
    lines = [line for line in (_line(role, text) for role, text in turns(history)) if line]
    if not lines:
        return []
    left_out = [f"*{len(lines) - MOST} earlier messages*"] if len(lines) > MOST else []
    return [Markdown(title="Conversation", value="\n\n".join([*left_out, *lines[-MOST:]]))]


def _line(role: str, text: str) -> str:
    quoted = "\n".join(f"> {line}" for line in text.strip().splitlines())
    return f"**{role}**\n\n{quoted}" if quoted else ""


def turns(history: Iterable[Json]) -> Iterable[tuple[str, str]]:
    """Yield who spoke and what, of messages that have ``role`` and ``text``."""
    for message in history:
        if isinstance(message, dict):
            yield str(message.get("role", "")), str(message.get("text", ""))
