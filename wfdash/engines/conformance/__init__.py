"""What an engine promises, as checks that any engine can be put through.

Each check is an async function of one ``world``: the engine under test, small definitions of its kind (``Samples``) and
a storage. They need no test framework; with pytest (and pytest-asyncio) an engine of one's own is tested like this::

    import pytest
    from wfdash.engines.conformance import CHECKS, EngineWorld, Sample, Samples

    SAMPLES = Samples(asks=Sample(make=one_question), steps=Sample(make=four_steps))

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_my_engine_keeps_its_promises(check):
        world = EngineWorld(MyEngine, SAMPLES)
        if reason := world.lacks(check):
            pytest.skip(reason)
        await check(world)

``pytest.register_assert_rewrite("wfdash.engines.conformance")`` in ``conftest.py`` shows more of a check that fails.

``CHECKS`` is all of them, in groups:

* ``DEFINITIONS``: descriptions, input and answers that are refused, what pages show.
* ``DRIVES``: answers, errors, events and times, many runs at once.
* ``CRASHES``: a drive that breaks at any of its commits, and a worker that lost its claim.
* ``HISTORY``: restoring, forking, changed definitions, follow-ups.

``continues_after_any_crash(world, sample)`` and ``continues_from_every_checkpoint(world, sample)`` do the same to
whatever else an engine has.

A world is in memory unless it is given a ``Place``: another storage with its people.
"""

from __future__ import annotations

from wfdash.engines.conformance.crashes import CRASHES, continues_after_any_crash
from wfdash.engines.conformance.definitions import DEFINITIONS
from wfdash.engines.conformance.drives import DRIVES
from wfdash.engines.conformance.history import HISTORY, continues_from_every_checkpoint
from wfdash.engines.conformance.worlds import (
    Check,
    EngineWorld,
    Ledger,
    Memory,
    OutOfPaper,
    Place,
    RunUnderTest,
    Sample,
    Samples,
    Unstorable,
)

__all__ = [
    "CHECKS",
    "CRASHES",
    "DEFINITIONS",
    "DRIVES",
    "HISTORY",
    "Check",
    "EngineWorld",
    "Ledger",
    "Memory",
    "OutOfPaper",
    "Place",
    "RunUnderTest",
    "Sample",
    "Samples",
    "Unstorable",
    "continues_after_any_crash",
    "continues_from_every_checkpoint",
]

CHECKS = (*DEFINITIONS, *DRIVES, *CRASHES, *HISTORY)
