"""All ports in one SQLite file, without Django: for notebooks, scripts and libraries. Survives a killed process.

Several processes may share the file, on one machine: SQLite's locks do not work over network file systems. The
statements are those of the dashboard's database; only people have no table of their own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from checkpoints.content.encryption import encryptor_of
from checkpoints.errors import InvalidConfig
from checkpoints.sql.durability import Durability, parse_durability
from checkpoints.sql.sqlite import FairLock, ReadOnlyDatabase, SqliteDatabase, connect, connect_read_only
from checkpoints.sql.sqlite_schema import bring_up_to_date, refuse_old
from checkpoints.sql.storage import StandaloneStorage, standalone_scripts
from checkpoints.sql.writes import Database


class FileStorage(StandaloneStorage):
    """``CheckpointStorage``, ``Journal`` and ``Claims`` in a SQLite file. For any loop and thread.

    When a call has returned, its data is on disk: WAL with ``synchronous=FULL``. Use it with ``async with``, or call
    ``aclose()`` once it is no longer needed. A file that this process may not write is only read: whatever writes
    raises ``StorageFailed``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        encryption_keys: str | Sequence[str] = "",
        durability: Durability | str = Durability.FULL,
    ) -> None:
        """The file is created at first use, its folder is not. ``InvalidConfig`` for a database in memory.

        ``encryption_keys``: a list, or a text with commas between; the first encrypts, all decrypt, ``plain`` means
        content that is not encrypted. ``durability``: with ``relaxed`` a power failure may undo the last steps, but
        nothing that the end of a drive, an answer or a ``once`` call wrote.
        """
        super().__init__(encryptor_of(encryption_keys))
        self._durability = parse_durability(durability, name="durability")
        self.path = Path(path)
        self._place = str(path)
        if str(path) in ("", ":memory:"):
            raise InvalidConfig(f"path={str(path)!r}: give a file, or use MemoryStorage")

    def _open(self) -> Database:
        if os.path.exists(self.path) and not os.access(self.path, os.W_OK):
            with contextlib.closing(connect_read_only(str(self.path))) as connection:
                refuse_old(connection, self.path)
            return ReadOnlyDatabase(str(self.path), standalone_scripts(self.encryptor))
        with contextlib.closing(connect(str(self.path))) as connection:
            bring_up_to_date(connection, self.path)
        return SqliteDatabase(
            str(self.path), standalone_scripts(self.encryptor), FairLock(), durability=self._durability
        )
