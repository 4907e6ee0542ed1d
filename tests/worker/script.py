"""An engine for tests: its definitions are coroutine functions of (input, recorder)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from checkpoints import ids
from checkpoints.events import KINDS
from checkpoints.records import Checkpoint, Commit, Json, Phase, Request, Standing
from checkpoints.storage import Recorder
from wfdash.contract import Description, Outcome, Resume, RunInput

Play = Callable[[RunInput, Recorder], Awaitable[Outcome]]


@dataclass(frozen=True, kw_only=True)
class Script:
    name: str
    play: Play
    version: str = "v1"
    limit: int | None = None


class ScriptEngine:
    name = "script"

    def accepts(self, definition: object) -> bool:
        return isinstance(definition, Script)

    def describe(self, definition: Script) -> Description:
        said = {"workflow": definition.name, "title": definition.name, "version": definition.version}
        return Description(**said, engine="script", limit=definition.limit)

    def check_input(self, definition: Script, message: Json) -> Json:
        return message

    async def drive(self, definition: Script, given: RunInput, recorder: Recorder) -> Outcome:
        return await definition.play(given, recorder)


def checkpoint_after(given: RunInput | Checkpoint, state: Json, *requests: Request) -> Checkpoint:
    """The next checkpoint after an input or another checkpoint."""
    parent = given if isinstance(given, Checkpoint) else given.checkpoint if isinstance(given, Resume) else None
    return Checkpoint(
        id=ids.new_checkpoint_id(),
        run=given.run,
        workflow="script",
        n=parent.n + 1 if parent else 1,
        parent=parent.id if parent else None,
        version="v1",
        engine="script",
        created=datetime.now(UTC),
        body={"state": state},
        requests=requests,
    )


def moved(checkpoint: Checkpoint, kind: str = "step.finished", phase: Phase | None = None, **facts: object) -> Commit:
    """A commit of one checkpoint and one event, letting go of the run when a phase is given."""
    standing = Standing(phase=phase, **facts) if phase else None
    return Commit(run=checkpoint.run, checkpoint=checkpoint, events=(KINDS[kind].draft(),), standing=standing)
