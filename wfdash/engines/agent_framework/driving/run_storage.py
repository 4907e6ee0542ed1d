"""The checkpoint storage that the framework gets for one drive: what it saves is committed, or the drive ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from wfdash.values.errors import NotStorable


class SaveFailed(BaseException):
    """A checkpoint could not be committed: the drive ends. ``__cause__``: why.

    No ``Exception``: the framework continues after one of those, and a worker that has lost its run would, too.
    """


class RunStorage:
    """The framework's ``CheckpointStorage`` over one run. It loads what the run continues from, and nothing else."""

    def __init__(self, commit: Callable[[Any], Awaitable[None]]) -> None:
        self._commit = commit
        self.given: Any = None
        """What the run continues from."""
        self.broken: BaseException | None = None
        """Why a checkpoint could not be committed: nothing that the workflow does from then on counts."""
        self.stop: Callable[[], object] | None = None
        """Called once a checkpoint could not be committed, for code of authors that catches everything."""
        self.stopped = False

    async def save(self, checkpoint: Any) -> str:
        """Commit a checkpoint and return its id. ``SaveFailed`` if it cannot be committed, and ever after."""
        if self.broken is None:
            try:
                await self._commit(checkpoint)
            except BaseException as error:
                self.broken = error
                if self.stop is not None:
                    self.stop()
                    self.stopped = True
        self.check()
        return str(checkpoint.checkpoint_id)

    def check(self) -> None:
        """Raise ``SaveFailed`` if a checkpoint could not be committed."""
        if self.broken is not None:
            raise SaveFailed from self.broken

    async def load(self, checkpoint_id: str) -> Any:
        """Return the checkpoint the run continues from."""
        from agent_framework import WorkflowCheckpointException

        if self.given is None or self.given.checkpoint_id != checkpoint_id:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self.given

    async def list_checkpoints(self, *, workflow_name: str) -> list[Any]:
        """Return the checkpoint the run continues from, if there is one."""
        return [] if self.given is None else [self.given]

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return its id."""
        return [one.checkpoint_id for one in await self.list_checkpoints(workflow_name=workflow_name)]

    async def get_latest(self, *, workflow_name: str) -> Any:
        """Return it, None if there is none."""
        return self.given

    async def delete(self, checkpoint_id: str) -> bool:
        """Delete nothing: which checkpoints a run keeps is decided by the dashboard."""
        return False


async def not_saved(workflow: Any) -> NotStorable:
    """Return why the framework has made no checkpoint: it only logs that, and continues.

    The checkpoint is made again to learn the reason. The function for that has a private name; where it is gone, the
    log has the reason.
    """
    words = "Agent Framework could make no checkpoint"
    build = getattr(getattr(workflow, "_runner", None), "build_checkpoint", None)
    if build is not None:
        try:
            await build()
        except Exception as error:
            cause = error.__cause__ or error
            found = NotStorable(f"{words}: {error}: {cause}" if cause is not error else f"{words}: {error}")
            found.__cause__ = error
            return found
    return NotStorable(f"{words}: its log says why")
