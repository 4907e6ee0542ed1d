"""Content of runs that were removed: pieces that no checkpoint needs any more go, too."""

from __future__ import annotations

from collections.abc import Iterable

from asgiref.sync import async_to_sync

from checkpoints.database.alias import connection
from checkpoints.database.storage import DatabaseStorage
from checkpoints.ids import RunId


def drop_content(relatives: Iterable[RunId | None]) -> None:
    """Remove content that nothing refers to any more, outside of the transaction: a prune follows the remaining
    references. ``relatives``: one run of each family that has lost something.

    Within a caller's transaction this is left to the next prune of a related run: the storage could not write until
    then.
    """
    runs = sorted({run for run in relatives if run is not None})
    if runs and not connection().in_atomic_block:
        async_to_sync(_prune)(runs)


async def _prune(runs: list[RunId]) -> None:
    async with DatabaseStorage() as storage:
        for run in runs:
            await storage.prune(run, [])
