"""What led to a question: the conversation of the graph that asks, as evidence on its card."""

from __future__ import annotations

from wfdash.engines.langgraph.stored.show import longest_transcript
from wfdash.engines.langgraph.stored.thread import Thread
from wfdash.questions.evidence import Evidence, Transcript

MOST = 20
"""Messages that a card shows, from the end; the run's page has all."""


def conversation(thread: Thread) -> list[Evidence]:
    """Return the end of a run's conversation; nothing where there is none."""
    messages = longest_transcript(thread)
    return [Transcript(title="Conversation", messages=messages[-MOST:])] if messages else []
