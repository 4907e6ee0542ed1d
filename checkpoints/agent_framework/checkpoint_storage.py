"""``CheckpointStorage`` of Microsoft Agent Framework over a storage of ours: their methods, their errors, their types.

The checkpoints of a workflow's name are those of one run. It is left waiting: no worker takes it. What the framework
asks by name is found without reading all of them: each has in its facts which one was the newest until then.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

from checkpoints import storage as ports
from checkpoints.agent_framework.encoding import decode, encode
from checkpoints.agent_framework.names import from_plain, plain, run_of_workflow, stored_id, workflow_id
from checkpoints.errors import CheckpointsError, Conflict, NotFound
from checkpoints.ids import RunId
from checkpoints.records import Checkpoint, CheckpointInfo, Commit, Phase, Reason, Standing

log = logging.getLogger(__name__)

ENGINE = "agent-framework-storage"
"""No engine: nothing of ours runs what is stored here."""
VERSION_CHARACTERS = 64
MOST_ATTEMPTS = 100
"""Attempts to save while others save under the same name."""
WAIT = 0.05
"""Seconds between two of them, at most."""
PAGE = 500
"""Checkpoints that are listed at once."""
OLDEST = datetime.min.replace(tzinfo=UTC)


class Storage(ports.CheckpointStorage, ports.FindsRuns, Protocol):
    """What is needed of a storage: those of this package have it, and a ``CheckpointManager`` over one."""


class Newest(NamedTuple):
    """A checkpoint's id, and when it was made, as the framework says both."""

    id: str
    at: str


class CheckpointStorage:
    """Stores checkpoints of Agent Framework's workflows: pass it wherever the framework takes a checkpoint storage.

    For any event loop, and any number of processes over the same database.
    """

    def __init__(
        self, storage: Storage, *, scope: str = "", allowed_checkpoint_types: Collection[str] | None = None
    ) -> None:
        """``scope``: a tenant's or a conversation's own checkpoints, which no other scope of the storage sees.

        ``allowed_checkpoint_types``: classes of yours that may be decoded, as ``module:qualname``, beside those that
        the framework allows; as for its ``FileCheckpointStorage``.
        """
        if not isinstance(storage, ports.FindsRuns):
            raise TypeError(
                f"{type(storage).__name__} has no run_of(): give a storage of wfdash, or a manager over one"
            )
        self.storage = storage
        self.scope = scope
        self._allowed = frozenset(allowed_checkpoint_types or ())
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[RunId, asyncio.Lock]] = WeakKeyDictionary()

    def run_of_workflow(self, workflow_name: str) -> RunId:
        """Return the run that has a workflow's checkpoints: for ``prune``, and to delete all of them."""
        return run_of_workflow(self.scope, workflow_name)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint durably, in place of one with its id, and return the id.

        ``WorkflowCheckpointException`` if it cannot be encoded, or not be decoded again with the types allowed.
        """
        body = encode(checkpoint, self._allowed)
        run = self.run_of_workflow(checkpoint.workflow_name)
        try:
            async with self._turn(run):
                await self._append(run, checkpoint, body)
        except (CheckpointsError, ValueError) as error:
            text = f"Checkpoint {checkpoint.checkpoint_id} cannot be stored: {error}"
            raise WorkflowCheckpointException(text) from error
        return checkpoint.checkpoint_id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return a checkpoint. ``WorkflowCheckpointException`` if there is none, or it cannot be read or decoded."""
        id_ = stored_id(self.scope, checkpoint_id)
        run = await self.storage.run_of(id_)
        if run is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        try:
            return decode((await self.storage.load(run, id_)).body, self._allowed)
        except NotFound:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}") from None
        except CheckpointsError as error:
            raise WorkflowCheckpointException(f"Checkpoint {checkpoint_id} cannot be read: {error}") from error

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return a workflow's checkpoints, oldest first; one that cannot be read is logged and left out."""
        found = []
        for id_ in await self.list_checkpoint_ids(workflow_name=workflow_name):
            try:
                found.append(await self.load(id_))
            except WorkflowCheckpointException as error:
                log.warning("%s", error)
        return found

    async def delete(self, checkpoint_id: str) -> bool:
        """Delete a checkpoint; False if there is none."""
        id_ = stored_id(self.scope, checkpoint_id)
        run = await self.storage.run_of(id_)
        return run is not None and await self.storage.delete(run, id_)

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return the checkpoint of a workflow with the latest timestamp, None if it has none.

        ``WorkflowCheckpointException`` if that one cannot be read: it never falls back to an older one.
        """
        run = self.run_of_workflow(workflow_name)
        while (head := await self._head(run)) is not None:
            newest = newest_at(head)
            if await self.storage.run_of(stored_id(self.scope, newest.id)) != run:
                newest = await self._newest_of_all(run, newest_of(head))
            try:
                return await self.load(newest.id)
            except WorkflowCheckpointException:
                # Deleted since: look again.
                if await self.storage.run_of(stored_id(self.scope, newest.id)) is not None:
                    raise
        return None

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of a workflow's checkpoints, oldest first. Reads no content."""
        infos = [info async for info in self._infos(self.run_of_workflow(workflow_name))]
        return [newest_of(info).id for info in reversed(infos)]

    def _turn(self, run: RunId) -> asyncio.Lock:
        """Return the lock of a name: saves of one event loop wait for each other instead of meeting in the database."""
        return self._turns.setdefault(asyncio.get_running_loop(), {}).setdefault(run, asyncio.Lock())

    async def _append(self, run: RunId, given: WorkflowCheckpoint, body: dict[str, Any]) -> None:
        for attempt in range(MOST_ATTEMPTS):
            stored = as_stored(given, body, run, self.scope, await self._head(run))
            try:
                await self._write(stored)
            except Conflict:
                if attempt == MOST_ATTEMPTS - 1:
                    raise
                owner = await self.storage.run_of(stored.id)
                if owner is not None:
                    await self.storage.delete(owner, stored.id)
                else:
                    await asyncio.sleep(random.uniform(0, WAIT))  # noqa: S311
            else:
                return

    async def _write(self, checkpoint: Checkpoint) -> None:
        # Where the run is new it is left waiting, for nothing: a worker of the same database has nothing to do with it.
        if checkpoint.n == 1 and isinstance(self.storage, ports.Journal):
            standing = Standing(phase=Phase.WAITING)
            await self.storage.commit(Commit(run=checkpoint.run, checkpoint=checkpoint, standing=standing))
        else:
            await self.storage.save(checkpoint)

    async def _head(self, run: RunId) -> CheckpointInfo | None:
        infos = await self.storage.list_checkpoints(run, limit=1)
        return infos[0] if infos else None

    async def _newest_of_all(self, run: RunId, found: Newest) -> Newest:
        async for info in self._infos(run):
            found = later(found, newest_of(info))
        return found

    async def _infos(self, run: RunId) -> AsyncIterator[CheckpointInfo]:
        """Yield a run's checkpoints, newest first."""
        before: int | None = None
        while page := await self.storage.list_checkpoints(run, before=before, limit=PAGE):
            for info in page:
                yield info
            before = page[-1].n


def as_stored(
    given: WorkflowCheckpoint, body: dict[str, Any], run: RunId, scope: str, head: CheckpointInfo | None
) -> Checkpoint:
    """Return a checkpoint of the framework as the one that follows ``head``."""
    own = Newest(given.checkpoint_id, given.timestamp)
    newest = own if head is None else later(own, newest_at(head))
    facts = {"id": plain(own.id), "at": own.at, "pending": len(given.pending_request_info_events)}
    before = given.previous_checkpoint_id
    return Checkpoint(
        id=stored_id(scope, given.checkpoint_id),
        run=run,
        workflow=workflow_id(given.workflow_name),
        n=1 if head is None else head.n + 1,
        parent=None if before is None else stored_id(scope, before),
        version=given.graph_signature_hash[:VERSION_CHARACTERS],
        engine=ENGINE,
        # Never as a pause, which a policy may keep forever: that people were asked here is in the facts.
        reason=Reason.STEP,
        created=moment(given.timestamp),
        facts=facts if newest == own else facts | {"newest": [plain(newest.id), newest.at]},
        body=body,
    )


def newest_of(info: CheckpointInfo) -> Newest:
    """Return a checkpoint itself."""
    return Newest(from_plain(info.facts.get("id")), str(info.facts.get("at")))


def newest_at(info: CheckpointInfo) -> Newest:
    """Return the newest of all that were stored until this one."""
    if "newest" not in info.facts:
        return newest_of(info)
    id_, at = info.facts["newest"]
    return Newest(from_plain(id_), str(at))


def later(one: Newest, other: Newest) -> Newest:
    """Return the later of two; the first if they are of one time."""
    return other if moment(other.at) > moment(one.at) else one


def moment(timestamp: str) -> datetime:
    """Return a timestamp of the framework; one without a zone is UTC, one that is none the oldest of all."""
    try:
        at = datetime.fromisoformat(timestamp)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return OLDEST
