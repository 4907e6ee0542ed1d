"""Storage without Django: accepts answers from its caller, lists runs and deletes them."""

from __future__ import annotations

from collections.abc import Sequence

from checkpoints.content.canonical_json import dumps
from checkpoints.content.encryption import Encryptor
from checkpoints.errors import NotFound
from checkpoints.ids import RequestKey, RunId, WorkflowId
from checkpoints.limits import findable
from checkpoints.records import Answer, Json, Phase, RunInfo
from checkpoints.rules import already_answered
from checkpoints.sql.runs import listed_runs, remove_run
from checkpoints.sql.statements import SQLITE, Statements
from checkpoints.sql.storage import SqlStorage
from checkpoints.sql.writes import Script, Scripts


class StandaloneStorage(SqlStorage):
    """The ports over the tables of ``checkpoints.sql.sqlite.schema``, which have no table of people."""

    async def answer(self, run: RunId, key: RequestKey, value: Json, *, by: str | None = None) -> None:
        """Accept an answer to a pending request and make the run ready. ``NotFound``, ``AlreadyAnswered``."""
        given = Answer(key=findable(key), value=value, by=by)
        dumps(value)
        await self._write(lambda s: answer(s, findable(run), given))

    async def list_runs(
        self,
        *,
        workflow: WorkflowId | None = None,
        phase: Phase | None = None,
        before: RunInfo | None = None,
        limit: int = 50,
    ) -> Sequence[RunInfo]:
        """See ``Runs.list_runs``."""
        return await self._read(lambda s: listed_runs(s.dialect, workflow, phase, before, limit))

    async def delete_run(self, run: RunId, *, force: bool = False) -> bool:
        """See ``Runs.delete_run``."""
        return await self.forget_run(
            run, await self._write(lambda s: remove_run(s.dialect, findable(run), force=force))
        )


def standalone_scripts(encryptor: Encryptor) -> Scripts:
    """Return the scripts for these tables."""
    return Scripts(SQLITE, Statements(SQLITE, users=None), encryptor)


def answer(scripts: Scripts, run: RunId, given: Answer) -> Script[None]:
    """Insert an answer and wake the run that waits for it."""
    (rows,) = yield [(scripts.sql.pending, (run, given.key))]
    if not rows:
        raise NotFound("the run has no pending request of that key", run=run, key=given.key)
    known = (yield from scripts.answers(run)).get(given.key)
    if known is not None:
        raise already_answered(known, run)
    yield from scripts.record_answer(rows[0][0], given)
    yield [(scripts.sql.wake_if_answered, (run, run))]
