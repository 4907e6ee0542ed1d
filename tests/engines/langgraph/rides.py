"""One run of a graph, driven by hand: every drive begins with a checkpoint that went through JSON."""

from __future__ import annotations

from typing import Any

from checkpoints.ids import RequestKey, RunId
from checkpoints.records import Answer, Checkpoint, EventDraft, Json, Request
from tests.workflow.world import ListRecorder, finished, handed_over
from wfdash.contract import Continue, Failed, Outcome, Resume, Start, Waiting
from wfdash.engines.langgraph import LangGraphEngine
from wfdash.engines.serving import Served


class Ride:
    """A run of a graph; each method is a drive in a new engine, as in a new process."""

    def __init__(self, target: Any, **served: Any) -> None:
        self.served = target if isinstance(target, Served) else Served(target=target, variable="graph", **served)
        self.recorder = ListRecorder()
        self.outcome: Outcome | None = None

    @property
    def engine(self) -> LangGraphEngine:
        return LangGraphEngine()

    @property
    def checkpoint(self) -> Checkpoint:
        return handed_over(self.recorder.latest)

    @property
    def requests(self) -> dict[str, Request]:
        """The open requests by what they ask."""
        return {str(request.card["subject"]): request for request in self.checkpoint.requests}

    @property
    def events(self) -> list[EventDraft]:
        return [event for commit in self.recorder.commits for event in commit.events]

    def steps_of(self, kind: str) -> list[str | None]:
        return [event.step for event in self.events if event.kind == kind]

    async def start(self, message: Json = None) -> Outcome:
        return await self._drive(Start(run=RunId("r"), message=message))

    async def answer(self, value: Json, *keys: RequestKey | str) -> Outcome:
        """Answer all open requests, or these, with a value."""
        wanted = keys or [request.key for request in self.checkpoint.requests]
        answers = {RequestKey(key): Answer(key=RequestKey(key), value=value) for key in wanted}
        return await self.resume(answers)

    async def resume(self, answers: dict[RequestKey, Answer] | None = None, at: Checkpoint | None = None) -> Outcome:
        return await self._drive(Resume(run=RunId("r"), checkpoint=at or self.checkpoint, answers=answers or {}))

    async def follow_up(self, message: Json) -> Outcome:
        return await self._drive(Continue(run=RunId("r"), checkpoint=self.checkpoint, message=message))

    async def _drive(self, given: Start | Resume | Continue) -> Outcome:
        self.outcome = await self.engine.drive(self.served, given, self.recorder)
        return self.outcome


output = finished


def asked(outcome: Outcome) -> list[str]:
    assert isinstance(outcome, Waiting), outcome
    return [str(request.card["subject"]) for request in outcome.requests]


def error(outcome: Outcome) -> str:
    assert isinstance(outcome, Failed), outcome
    return f"{outcome.error.step}: {outcome.error.type}: {outcome.error.message}"
