"""What led to a question: the conversation of the graph that asks, as evidence on its card."""

from __future__ import annotations

from wfdash.contract import Message
from wfdash.engines.langgraph.stored.show import longest_transcript
from wfdash.engines.langgraph.stored.thread import Thread
from wfdash.questions.evidence import Evidence, Transcript
from wfdash.values.truncate import truncate

MOST = 20
"""Messages that a card shows, from the end; the run's page has all."""
LONGEST = 10_000
"""Characters of a message that a card shows."""


def conversation(thread: Thread) -> list[Evidence]:
    """Return the end of a run's conversation; nothing where there is none."""
    messages = longest_transcript(thread)
    if not messages:
        return []
    earlier = max(0, len(messages) - MOST)
    return [Transcript(title="Conversation", messages=tuple(map(_short, messages[earlier:])), earlier=earlier)]


def _short(message: Message) -> Message:
    text = message.text if len(message.text) <= LONGEST else f"{message.text[:LONGEST]}…"
    calls = tuple(one.model_copy(update={"arguments": truncate(one.arguments)}) for one in message.calls)
    return message.model_copy(update={"text": text, "calls": calls})
