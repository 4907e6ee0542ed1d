"""A chat model for LangGraph that says what it was given to say: it needs no network, and streams word by word."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


class ScriptedChatModel(BaseChatModel):
    """Gives one reply after the other: the one whose number is how many the conversation has already, the last one
    again and again.
    """

    replies: list[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Return the model: it calls the tools that its replies name."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _stream(self, messages: list[BaseMessage], *args: Any, **options: Any) -> Iterator[ChatGenerationChunk]:
        reply = self._next(messages)
        for word in str(reply.content).split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))
        calls: Any = [
            {"name": one["name"], "args": json.dumps(one["args"]), "id": one["id"], "index": index}
            for index, one in enumerate(reply.tool_calls)
        ]
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=calls))

    def _next(self, messages: Sequence[BaseMessage]) -> AIMessage:
        said = sum(message.type == "ai" for message in messages)
        return self.replies[min(said, len(self.replies) - 1)].model_copy()
