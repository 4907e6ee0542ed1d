"""A worker's hints end when they are cancelled, in whatever state they are."""

from __future__ import annotations

import asyncio

from tests.hints.conftest import NEEDS, Looking


@NEEDS
def test_a_carrier_that_fails_at_once_on_each_attempt_does_not_hold_up_the_end(monkeypatch) -> None:
    from wfdash.pubsub.hints import queued

    attempts: list[int] = []

    async def fail(*_: object) -> None:
        attempts.append(1)
        raise ValueError("no such parameter")

    async def serve() -> None:
        stopping = asyncio.Event()
        serving = asyncio.ensure_future(queued.QueuedHints().serve(Looking(), stopping))
        while len(attempts) < 2:
            await asyncio.sleep(0.001)
        # At the same moment, as when a process ends: the pause between two attempts ends, too.
        stopping.set()
        await asyncio.sleep(0)
        serving.cancel()
        await asyncio.wait({serving}, timeout=5)
        assert serving.done()

    monkeypatch.setattr(queued, "work", fail)
    monkeypatch.setattr(queued, "RETRY_SECONDS", 0.005)
    asyncio.run(asyncio.wait_for(serve(), 30))
