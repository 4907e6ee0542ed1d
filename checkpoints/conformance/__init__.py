"""What a storage promises, as checks that any storage can be put through.

Each check is an async function of one ``world``: an object with the storage under test as ``storage``. They need no
test framework; with pytest (and pytest-asyncio) a storage of one's own is tested like this::

    import pytest
    from checkpoints.conformance import STORAGE, World

    @pytest.fixture
    async def world(tmp_path):
        yield World(MyStorage(tmp_path))

    @pytest.mark.parametrize("check", STORAGE, ids=lambda check: check.__name__)
    async def test_my_storage_keeps_its_promises(check, world):
        await check(world)

``STORAGE`` is what every ``CheckpointStorage`` must pass; one world may serve all checks, they use fresh runs. The rest
is for storages that offer more, and needs worlds that can do more (see ``worlds``):

* ``DAMAGE``: corrupt content is detected.
* ``FAILURES``: a database that is away or broken is reported by one class of error.
* ``CHUNKS``: content that runs share is kept once, and as long as any of them needs it.
* ``JOURNAL``, ``CLAIMS``: the ports of those names.
* ``RUNS``: which runs there are, and removing one (``Runs``); whose a checkpoint is (``FindsRuns``).
* ``WORKER``: what the dashboard's worker asks besides.
"""

from __future__ import annotations

from checkpoints.conformance.claims import BATCHES
from checkpoints.conformance.claims import CLAIMS as ONE_BY_ONE
from checkpoints.conformance.corruption import CHUNKS, DAMAGE, FAILURES
from checkpoints.conformance.journal import JOURNAL as KEEPING
from checkpoints.conformance.limits import JOURNAL_LIMITS, LIMITS
from checkpoints.conformance.runs import RUNS, WORKER
from checkpoints.conformance.storage import FACTS
from checkpoints.conformance.storage import STORAGE as STORING
from checkpoints.conformance.worlds import ChunkWorld, DamageWorld, FailingWorld, JournalWorld, StorageWorld, World

__all__ = [
    "CHUNKS",
    "CLAIMS",
    "DAMAGE",
    "FAILURES",
    "JOURNAL",
    "RUNS",
    "STORAGE",
    "WORKER",
    "ChunkWorld",
    "DamageWorld",
    "FailingWorld",
    "JournalWorld",
    "StorageWorld",
    "World",
]

STORAGE = (*STORING, *LIMITS, *FACTS)
CLAIMS = (*ONE_BY_ONE, *BATCHES)
JOURNAL = (*KEEPING, *JOURNAL_LIMITS)
