"""One call of ``run``: checks its arguments together and prepares the drive."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from checkpoints.errors import Damaged, Incompatible
from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId, new_run_id
from checkpoints.manager import CheckpointManager
from checkpoints.records import Answer, Checkpoint, Commit
from checkpoints.storage import Recorder
from wfdash.contract import InvalidInput, Outcome
from wfdash.domain.graph_diff import facts_of, migrated_checkpoint
from wfdash.domain.run_titles import title_of
from wfdash.values.codec import FLAT, is_large
from wfdash.workflow.authoring.migration_hooks import MigrationHook
from wfdash.workflow.compiler.graph import Graph
from wfdash.workflow.migration.carry import carry
from wfdash.workflow.migration.follow_up import state_after
from wfdash.workflow.reducer.inputs import accept_input, pack_input
from wfdash.workflow.reducer.moment_builder import new_moment
from wfdash.workflow.reducer.ticks import AnswersArrived, Moment, Route, RunResumed, RunStarted, Tick, TimePassed
from wfdash.workflow.runtime.checkpoint_writer import CheckpointWriter
from wfdash.workflow.runtime.given_answers import past_answers, read_answers
from wfdash.workflow.runtime.loop import Drive
from wfdash.workflow.runtime.recorders import RunRecorders, StorageLike, UnreadEvents, recorder_for
from wfdash.workflow.runtime.run_claim import ClaimingRecorder
from wfdash.workflow.runtime.starting_point import check_arguments, claim_run, find_checkpoint, store_checkpoint
from wfdash.workflow.runtime.step.step_run import CONVERT_SECONDS
from wfdash.workflow.runtime.step.threads import still_running
from wfdash.workflow.stored.position import position_in


class Unset:
    """The message was not given (None is a message)."""


UNSET = Unset()


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A drive with its first ticks. ``claiming`` holds the claim while it runs, where its storage has claims."""

    drive: Drive
    ticks: tuple[Tick, ...]
    claiming: ClaimingRecorder | None = None

    async def go(self) -> Outcome:
        """Drive it."""
        if self.claiming is None:
            return await self.drive.go(*self.ticks)
        async with self.claiming.held():
            return await self.drive.go(*self.ticks)


@dataclass(frozen=True, slots=True)
class RunCall:
    """The arguments of one call."""

    message: Any
    answers: Mapping[Any, Any] | None
    checkpoint: Checkpoint | CheckpointId | None
    follows: Checkpoint | None
    storage: StorageLike
    run_id: RunId | None
    park_after: float
    run_title: str = ""

    async def prepare(
        self, name: str, graph: Graph, unread: UnreadEvents | None = None, *, hooks: tuple[MigrationHook, ...] = ()
    ) -> PreparedRun:
        """Refuse what does not go together, then make the drive. Nothing has run yet."""
        starts = self.message is not UNSET
        check_arguments(starts, self.answers, self.checkpoint, self.follows, self.storage, self.run_id)
        if starts:
            run = self.run_id or new_run_id()
            recorders = RunRecorders.of(recorder_for(self.storage, run), unread)
            if type(self.message) in FLAT or not is_large(self.message):
                return self._start(name, graph, run, recorders, self._pack(graph, recorders))
            return self._start(name, graph, run, recorders, await self._pack_aside(graph, recorders))
        found, kept = await find_checkpoint(self.checkpoint, self.storage, self.run_id)
        refuse_foreign(name, found)
        recorders = RunRecorders.of(recorder_for(self.storage, found.run), unread)
        migrated = None if found.version == graph.version else migrate(graph, hooks, found, recorders.recorder.now())
        current = migrated.checkpoint if migrated is not None and migrated.checkpoint is not None else found
        given = await self._read_answers(graph, current)
        if recorders.claiming is None:
            if not kept:
                await store_checkpoint(self.storage, found)
            if migrated is not None:
                await recorders.recorder.commit(migrated)
            return self._resume(name, graph, recorders, current, given)
        try:
            answers = await claim_run(
                recorders.claiming, recorders.recorder, graph, found, current, kept, migrated, given
            )
        except BaseException:
            async with recorders.claiming.held():  # Gives back what was taken.
                raise
        return self._resume(name, graph, recorders, current, answers)

    async def _read_answers(self, graph: Graph, current: Checkpoint) -> dict[RequestKey, Answer]:
        given = self.answers or {}
        pending = {request.key for request in current.requests}
        late = any(key not in pending for key in given)
        past = await past_answers(self.storage, current.run) if late else {}
        return read_answers(graph, current, given, past, accepted=isinstance(self.storage, Recorder))

    def _pack(self, graph: Graph, recorders: RunRecorders) -> tuple[tuple[Route, ...], str]:
        """Return the message on its way to the first steps, and the run's title."""
        routes = pack_input(graph, self.message, follow_up=self.follows is not None)
        # A recorder's run was named by its creator, as those of a worker are.
        return routes, "" if recorders.claiming is None or self.follows is not None else self._title(graph)

    async def _pack_aside(self, graph: Graph, recorders: RunRecorders) -> tuple[tuple[Route, ...], str]:
        try:
            async with asyncio.timeout(CONVERT_SECONDS):
                return await asyncio.to_thread(self._pack, graph, recorders)
        except TimeoutError as error:
            words = f"It took longer than {CONVERT_SECONDS:g} s to read: give the address of what is large"
            raise InvalidInput([{"loc": [], "msg": words}]) from error

    def _start(
        self, name: str, graph: Graph, run: RunId, recorders: RunRecorders, packed: tuple[tuple[Route, ...], str]
    ) -> PreparedRun:
        if self.follows is not None:
            refuse_foreign(name, self.follows)
        state, (routes, title) = state_after(graph, self.follows), packed
        # Handed over by who has stored it as the new run's own first checkpoint, or that of the completed run.
        own = self.follows if self.follows is not None and self.follows.run == run else None
        writer = CheckpointWriter(run, WorkflowId(name), graph.version, own, self._manager())
        began = RunStarted(at=recorders.recorder.now(), routes=routes, state=state, title=title)
        drive = Drive(graph, recorders.recorder, writer, new_moment(graph), self.park_after)
        return PreparedRun(drive, (began,), recorders.claiming)

    def _manager(self) -> CheckpointManager | None:
        return self.storage if isinstance(self.storage, CheckpointManager) else None

    def _title(self, graph: Graph) -> str:
        return title_of(self.run_title, accept_input(graph, self.message)[1], graph.secrets) if self.run_title else ""

    def _resume(
        self,
        name: str,
        graph: Graph,
        recorders: RunRecorders,
        checkpoint: Checkpoint,
        answers: dict[RequestKey, Answer],
    ) -> PreparedRun:
        moment = Moment(
            state=checkpoint.body["state"],
            position=checkpoint.body["position"],
            requests={request.key: request for request in checkpoint.requests},
        )
        writer = CheckpointWriter(checkpoint.run, WorkflowId(name), graph.version, checkpoint, self._manager())
        now = recorders.recorder.now()
        resumed = RunResumed(at=now, running=still_running(checkpoint.run))
        ticks: tuple[Tick, ...] = (resumed, AnswersArrived(at=now, answers=answers), TimePassed(at=now))
        return PreparedRun(Drive(graph, recorders.recorder, writer, moment, self.park_after), ticks, recorders.claiming)


def refuse_foreign(name: str, checkpoint: Checkpoint) -> None:
    """Raise ``Incompatible`` for a checkpoint of another workflow or engine, ``Damaged`` for one without a position."""
    if checkpoint.engine != "native" or checkpoint.workflow != name:
        raise Incompatible(
            f"the checkpoint belongs to workflow {checkpoint.workflow!r} ({checkpoint.engine}), not to {name!r}"
        )
    if position_in(checkpoint.body) is None or not isinstance(checkpoint.body.get("state"), dict):
        words = "the checkpoint's body has no state and position as run() writes them: give one that it returned"
        raise Damaged(words, run=checkpoint.run, checkpoint=checkpoint.id)


def migrate(graph: Graph, hooks: tuple[MigrationHook, ...], old: Checkpoint, now: datetime) -> Commit:
    """Return what takes a checkpoint of an older graph to this one; ``Incompatible`` if nothing leads here."""
    carried = carry(graph, hooks, old, None)
    fresh = migrated_checkpoint(old, carried, version=graph.version, created=now)
    event = EventKind.RUN_MIGRATED.draft(**facts_of(carried, old.version, graph.version))
    return Commit(run=old.run, checkpoint=fresh, events=(event, *carried.events), closed=carried.closed)
