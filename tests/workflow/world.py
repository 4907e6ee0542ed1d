"""A recorder in a list, that can break at a chosen commit; and the small helpers all engine tests use."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from checkpoints.ids import RequestKey
from checkpoints.records import Answer, Checkpoint, Commit
from wfdash.contract import Outcome
from wfdash.workflow import Failed, Finished, Waiting, Workflow


class PowerCut(BaseException):
    """The process dies here."""


class ListRecorder:
    """Keeps commits in a list; ``dies_after`` commits the next one fails."""

    def __init__(self, dies_after: int | None = None, latency: float = 0.0) -> None:
        self.commits: list[Commit] = []
        self.dies_after = dies_after
        self.latency = latency
        self.streamed: list[tuple[str, str]] = []
        self.answered: asyncio.Queue[Answer] = asyncio.Queue()
        self.wrote = asyncio.Event()

    async def commit(self, commit: Commit) -> None:
        if self.dies_after is not None and len(self.commits) >= self.dies_after:
            raise PowerCut
        if self.latency:
            await asyncio.sleep(self.latency)
        self.commits.append(Commit.model_validate_json(commit.model_dump_json()))
        self.wrote.set()

    async def answers(self) -> Mapping[RequestKey, Answer]:
        answer = await self.answered.get()
        return {answer.key: answer}

    def stream(self, step: str, text: str) -> None:
        self.streamed.append((step, text))

    def now(self) -> datetime:
        return datetime.now(UTC)

    @property
    def latest(self) -> Checkpoint:
        return next(c.checkpoint for c in reversed(self.commits) if c.checkpoint is not None)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for commit in self.commits for event in commit.events]

    async def until(self, wanted: Any) -> None:
        """Wait until ``wanted(self)`` holds after some commit."""
        while not wanted(self):
            self.wrote.clear()
            await asyncio.wait_for(self.wrote.wait(), 60)


async def same(value: Any) -> Any:
    """Be a step that hands on what it gets."""
    return value


def flow(*steps: Any, name: str = "flow", **facts: Any) -> Workflow:
    """Return a workflow of these steps, each after the one before; ``facts`` are declared of every step."""
    wf, place = Workflow(name), {"start": True}
    for step in steps:
        place = {"after": wf.step(**place, **facts)(step)}
    return wf


def handed_over(checkpoint: Checkpoint) -> Checkpoint:
    """Take the checkpoint to another process: as JSON text and back."""
    return Checkpoint.model_validate_json(checkpoint.model_dump_json())


async def answered(workflow: Workflow, outcome: Outcome, value: Any, **options: Any) -> Outcome:
    """Answer every pending request with ``value`` (or ``value(request)``) after a journey through JSON."""
    assert isinstance(outcome, Waiting), outcome
    answers = {r.key: value(r) if callable(value) else value for r in outcome.requests}
    return await workflow.run(answers=answers, checkpoint=handed_over(outcome.checkpoint), **options)


def finished(outcome: Outcome) -> Any:
    """Return the output of a run that must be finished."""
    assert isinstance(outcome, Finished), outcome
    return outcome.output


def failed(outcome: Outcome) -> str:
    """Return ``Type: message`` of a run that must have failed."""
    assert isinstance(outcome, Failed), outcome
    return f"{outcome.error.type}: {outcome.error.message}"
