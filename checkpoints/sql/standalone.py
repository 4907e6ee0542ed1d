"""Storage without Django."""

from __future__ import annotations

from checkpoints.content.encryption import Encryptor
from checkpoints.ids import RunId
from checkpoints.limits import findable
from checkpoints.sql.runs import remove_run
from checkpoints.sql.statements import SQLITE, Statements
from checkpoints.sql.storage import SqlStorage
from checkpoints.sql.writes import Scripts


class StandaloneStorage(SqlStorage):
    """The ports over the tables of ``checkpoints.sql.sqlite.schema``, which have no table of people."""

    async def delete_run(self, run: RunId, *, force: bool = False) -> bool:
        """See ``Runs.delete_run``."""
        return await self.forget_run(
            run, await self._write(lambda s: remove_run(s.dialect, findable(run), force=force))
        )


def standalone_scripts(encryptor: Encryptor) -> Scripts:
    """Return the scripts for these tables."""
    return Scripts(SQLITE, Statements(SQLITE, users=None), encryptor)
