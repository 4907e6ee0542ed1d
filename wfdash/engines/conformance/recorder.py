"""The recorder of the checks: a worker's, which looks at every commit, and can break at one of them."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkpoints.errors import ClaimLost
from checkpoints.events import EventKind
from checkpoints.ids import RequestKey
from checkpoints.recorder import BoundRecorder
from checkpoints.records import Answer, Checkpoint, Claim, Commit, Json, Phase, Standing
from wfdash.contract import Description

WAYS = ("lost before", "lost after", "disk full", "killed before", "killed after")
"""How a drive can break at a commit: nothing of it is written, or all; the claim is lost, or the process ends."""


class DiskFull(OSError):
    """A commit could not be written: not the fault of any step."""


@dataclass(kw_only=True)
class Fault:
    """Breaks the drive at the commit of this number (of the whole run, from 0)."""

    way: str
    at: int
    happened: bool = False
    killed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where the process ends: the commit never returns."""

    @property
    def error(self) -> Exception:
        """Return what the commit raises."""
        return DiskFull("no space left on device") if self.way == "disk full" else ClaimLost(run="this run")


@dataclass(kw_only=True)
class Trail:
    """What is durable of a run under test, as its commits say; it stays from drive to drive."""

    commits: int = 0
    head: Checkpoint | None = None
    standing: Standing | None = None
    opened: list[RequestKey] = field(default_factory=list)
    """The keys of its questions, in the order in which they were opened by its engine."""
    flaws: list[str] = field(default_factory=list)
    """What was wrong with a commit. Kept, because an engine may take an error here for one of a step."""


class WatchedRecorder(BoundRecorder):
    """What an engine commits to, in one drive of a run under test."""

    def __init__(self, storage: Any, claim: Claim, record: Trail, description: Description) -> None:
        super().__init__(storage, claim.run, claim, poll=0.01)
        self.record, self.description = record, description
        self.fault: Fault | None = None
        self.resumed: frozenset[RequestKey] = frozenset()
        """The requests whose answers the drive was given at its beginning."""
        self.ended = False
        self.stalls: asyncio.Event | None = None
        """Where it is set, commits wait for it."""
        self._bodies: list[tuple[dict[str, Json], dict[str, Json]]] = []

    def resumed_with(self, answers: Mapping[RequestKey, Answer]) -> None:
        """Remember the answers that the drive begins with."""
        self.handed_out(answers)
        self.resumed = frozenset(answers)

    async def commit(self, commit: Commit) -> None:
        """Store a commit, unless the drive is to break here."""
        fault, here = self.fault, self.record.commits
        self.record.commits += 1
        if fault is not None and (fault.happened or here == fault.at):
            fault.happened = True
            if fault.way.endswith("after") and here == fault.at:
                await self._store(commit)
            if fault.way.startswith("killed"):
                fault.killed.set()
                await asyncio.get_running_loop().create_future()
            raise fault.error
        await self._store(commit)

    async def _store(self, commit: Commit) -> None:
        record = self.record
        flaws = list(self._flaws(commit))
        if self.stalls is not None:
            await self.stalls.wait()
        await super().commit(commit)
        record.flaws += flaws
        if commit.checkpoint is not None:
            record.head = commit.checkpoint
            self._bodies.append((commit.checkpoint.body, copy.deepcopy(commit.checkpoint.body)))
        record.opened += [request.key for request in commit.opened]
        self.resumed -= frozenset(commit.closed)
        if commit.standing is not None:
            record.standing, self.ended = commit.standing, True
            if commit.standing.phase is Phase.WAITING and self.resumed:
                kept = ", ".join(sorted(self.resumed))
                record.flaws.append(
                    f"the drive was given the answer to {kept}, and suspends the run without closing it"
                )

    def changed_in_place(self) -> bool:
        """Return whether the body of a checkpoint was changed after its commit."""
        return any(body != kept for body, kept in self._bodies)

    # -- what is wrong with a commit

    def _flaws(self, commit: Commit) -> Iterator[str]:
        if self.ended:
            yield "a commit comes after the one with a standing, which ended the drive"
        if commit.run != self.run:
            yield f"a commit is of run {commit.run}, the drive of {self.run}"
        if commit.opened and commit.checkpoint is None:
            yield "a commit opens questions without a checkpoint that holds them"
        if commit.checkpoint is not None:
            yield from self._flaws_of(commit.checkpoint)
            yield from self._pending(commit, commit.checkpoint)
        yield from self._unknown_steps(commit)
        asked = {event.data.get("key") for event in commit.events if event.kind == EventKind.REQUEST_OPENED}
        for request in commit.opened:
            if request.key not in asked:
                yield f"the question {request.key} is opened without the event request.opened"

    def _flaws_of(self, checkpoint: Checkpoint) -> Iterator[str]:
        head = self.record.head
        wanted = {
            "run": self.run,
            "n": head.n + 1 if head is not None else 1,
            "parent": head.id if head is not None else None,
            "workflow": self.description.workflow,
            "version": self.description.version,
            "engine": self.description.engine,
        }
        for name, value in wanted.items():
            if getattr(checkpoint, name) != value:
                yield f"{name} of a checkpoint is {getattr(checkpoint, name)!r}, not {value!r}"
        if _as_stored(checkpoint.body) != checkpoint.body:
            yield f"the body of checkpoint {checkpoint.n} is not plain JSON: it is read otherwise than it was written"

    def _pending(self, commit: Commit, checkpoint: Checkpoint) -> Iterator[str]:
        before = {request.key for request in self.record.head.requests} if self.record.head is not None else set()
        opened = [request.key for request in commit.opened]
        pending = [request.key for request in checkpoint.requests]
        if sorted(pending) != sorted((before - set(commit.closed)) | set(opened)):
            yield (
                f"checkpoint {checkpoint.n} has the questions {pending}: its parent had {sorted(before)}, "
                f"opened are {opened}, closed {list(commit.closed)}"
            )
        if again := before & set(opened) - set(commit.closed):
            yield f"the questions {sorted(again)} are opened, and were open"

    def _unknown_steps(self, commit: Commit) -> Iterator[str]:
        known = {step.name for step in self.description.steps}
        if unknown := {request.step for request in commit.opened} - known:
            yield f"questions are asked by {sorted(unknown)}, and the description has the steps {sorted(known)}"


def _as_stored(body: dict[str, Json]) -> Json:
    try:
        return json.loads(json.dumps(body, allow_nan=False))
    except (TypeError, ValueError):
        return None
