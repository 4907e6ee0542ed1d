"""An agent's conversation as a card and a page show it: who said what, and which tools were called. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from wfdash.questions.evidence import Markdown

Spoken: TypeAlias = tuple[str, str]
"""Who says something, and what."""
MOST = 20
"""Messages that a card shows, from the end."""


def conversation(spoken: Sequence[Spoken]) -> list[Markdown]:
    """Return the end of a conversation as evidence on a card; empty where there is none."""
    lines = [line for role, text in spoken if (line := _line(role, text))]
    if not lines:
        return []
    left_out = [f"*{len(lines) - MOST} earlier messages*"] if len(lines) > MOST else []
    return [Markdown(title="Conversation", value="\n\n".join([*left_out, *lines[-MOST:]]))]


def _line(role: str, text: str) -> str:
    quoted = "\n".join(f"> {line}" for line in text.strip().splitlines())
    return f"**{role}**\n\n{quoted}" if quoted else ""
