"""Drives workflows of Agent Framework as a worker does, one drive after the other, each from JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("agent_framework")

from agent_framework import (
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

from checkpoints.ids import RequestKey, RunId
from checkpoints.records import Answer, Checkpoint, Event, EventDraft, Request
from tests.workflow.world import ListRecorder, handed_over
from wfdash.contract import Continue, Failed, Finished, Outcome, Resume, RunInput, Start, Waiting
from wfdash.engines import Served
from wfdash.engines.agent_framework import AgentFrameworkEngine

RUN = RunId("run")


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """A model that answers as a function of the messages says: the contents of its next message."""

    def __init__(self, script: Callable[[Sequence[Message]], Sequence[Any]]) -> None:
        super().__init__()
        self.script = script

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        contents = [Content.from_text(one) if isinstance(one, str) else one for one in self.script(messages)]
        if stream:
            return ResponseStream(_pieces(contents), finalizer=ChatResponse.from_updates)
        return _whole(contents)


async def _pieces(contents: Sequence[Content]) -> Any:
    for one in contents:
        words = [Content.from_text(f"{word} ") for word in one.text.split()] if one.type == "text" else [one]
        for piece in words:
            yield ChatResponseUpdate(
                role="assistant", contents=[piece], message_id="m1", response_id="r1", model="gpt-x"
            )


async def _whole(contents: Sequence[Content]) -> ChatResponse:
    return ChatResponse(messages=[Message(role="assistant", contents=list(contents))], response_id="r1")


def results(messages: Sequence[Message]) -> list[str]:
    """Return the results of tools that a model has been given."""
    return [str(one.result) for message in messages for one in message.contents if one.type == "function_result"]


def said(messages: Sequence[Message]) -> list[str]:
    """Return the texts of users, in order."""
    return [message.text for message in messages if message.role == "user" and message.text]


class Desk:
    """One run of a workflow: what was committed, and how the last drive ended."""

    def __init__(self, target: Any, *, factory: bool = False, **options: Any) -> None:
        self.engine = AgentFrameworkEngine()
        self.served = Served(target=target, variable="sample", factory=factory, **options)
        self.recorder = ListRecorder()
        self.outcome: Outcome | None = None

    async def start(self, message: Any) -> Outcome:
        return await self.drive(Start(run=RUN, message=message))

    async def drive(self, given: RunInput) -> Outcome:
        self.outcome = await self.engine.drive(self.served, given, self.recorder)
        return self.outcome

    async def answer(self, *values: Any, **by_subject: Any) -> Outcome:
        """Answer pending questions in their order, or those whose subject contains a word."""
        pending = list(self.requests)
        found = dict(zip((one.key for one in pending), values, strict=False))
        for word, value in by_subject.items():
            found[next(one.key for one in pending if word in one.card["subject"].lower())] = value
        return await self.resume(found)

    async def resume(self, answers: dict[str, Any] | None = None, *, at: Checkpoint | None = None) -> Outcome:
        given = {RequestKey(key): Answer(key=RequestKey(key), value=value) for key, value in (answers or {}).items()}
        return await self.drive(Resume(run=RUN, checkpoint=handed_over(at or self.head), answers=given))

    async def follow(self, message: Any) -> Outcome:
        return await self.drive(Continue(run=RUN, checkpoint=handed_over(self.head), message=message))

    @property
    def head(self) -> Checkpoint:
        return self.recorder.latest

    @property
    def speakers(self) -> list[str]:
        return [one.name for one in self.engine.show(self.head).transcript if one.role == "assistant"]

    @property
    def requests(self) -> tuple[Request, ...]:
        assert isinstance(self.outcome, Waiting), self.outcome
        return self.outcome.requests

    @property
    def output(self) -> Any:
        assert isinstance(self.outcome, Finished), self.outcome
        return self.outcome.output

    @property
    def error(self) -> str:
        assert isinstance(self.outcome, Failed), self.outcome
        return self.outcome.error.message

    @property
    def events(self) -> list[EventDraft]:
        return [event for commit in self.recorder.commits for event in commit.events]

    def kinds(self, step: str) -> list[str]:
        return [
            event.kind.removeprefix("step.") for event in self.events if event.step == step and "step." in event.kind
        ]


__all__ = ["RUN", "Desk", "Event", "Scripted", "results", "said"]
