"""Replies to servers that have not loaded the workflows of this worker, in threads that exist while there is work."""

from __future__ import annotations

import asyncio
import logging
import math
from functools import partial

from wfdash import pubsub
from wfdash.consulting.reply import reply_next
from wfdash.installation.stopping import waited
from wfdash.pubsub.process import signals
from wfdash.telemetry.outages import FailingLoop
from wfdash.worker.jobs.db_thread import DbThread
from wfdash.worker.serving import Serving

log = logging.getLogger(__name__)

MOST = 2
"""Questions that are answered at a time."""
LOOK_SECONDS = 1.0
"""Between looks for questions where no signals arrive."""
SERIES_SECONDS, SERIES_LOOK_SECONDS = 1.0, 0.05
"""There one looks so often for so long after each question: a page asks several."""
IDLE_SECONDS = 30.0
"""A thread without work ends after so long, and its connection with it."""
SLOW_SECONDS = 10.0
"""The log names code that takes longer: no server waits for it any more."""


async def reply_until(stopping: asyncio.Event, worker: str, serving: Serving) -> None:
    """Reply to what servers ask about the workflows of this worker, until stopped."""
    loop, replies = asyncio.get_running_loop(), Replies(worker, serving)

    def hear(workflow: str, version: str) -> None:
        if serving.loaded().get(workflow) == version:
            loop.call_soon_threadsafe(replies.begin)

    leave = pubsub.consultations_due.subscribe(hear)
    try:
        while not stopping.is_set():
            if not signals.arrive:
                replies.begin()
            await waited(stopping, LOOK_SECONDS)
    finally:
        leave()
        await replies.aclose()


class Replies:
    """At most ``MOST`` threads that reply. Use it on one event loop."""

    def __init__(self, worker: str, serving: Serving) -> None:
        self._worker, self._serving = worker, serving
        self._due: asyncio.Queue[None] = asyncio.Queue(MOST)
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = 0
        self._loop = FailingLoop(log, "Could not reply to a server; retrying")

    def begin(self) -> None:
        """Look for questions: in a thread that has nothing to do, or in a new one."""
        if not self._due.full():
            self._due.put_nowait(None)
        if not self._idle and len(self._tasks) < MOST:
            task = asyncio.create_task(self._reply_while_due(), name="replies to servers")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Look for nothing more. What author's code is asked now is left to end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _reply_while_due(self) -> None:
        thread = DbThread("wfdash-replies")
        try:
            while await self._is_due():
                await self._reply_to_series(thread)
        finally:
            await thread.aclose(wait=False)

    async def _reply_to_series(self, thread: DbThread) -> None:
        clock = asyncio.get_running_loop().time
        last = -math.inf
        while True:
            if await self._reply(thread):
                last = clock()
            elif signals.arrive or clock() - last > SERIES_SECONDS:
                return
            else:
                await asyncio.sleep(SERIES_LOOK_SECONDS)

    async def _is_due(self) -> bool:
        """Wait until there may be a question; False if there was none for ``IDLE_SECONDS``."""
        self._idle += 1
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                await self._due.get()
        except TimeoutError:
            return False
        finally:
            self._idle -= 1
        return True

    async def _reply(self, thread: DbThread) -> bool:
        begun: list[str] = []
        reply = partial(reply_next, self._worker, self._serving.entries(), begun=begun.append)
        call = asyncio.ensure_future(thread.call(reply))
        try:
            await asyncio.wait({call}, timeout=SLOW_SECONDS)
            if not call.done():
                what = ", ".join(begun) or "Looking for questions"
                log.error("%s takes longer than %g s: one thread fewer replies until it ends", what, SLOW_SECONDS)
            found = await call
        except Exception as error:
            self._loop.failed(error)
            return False
        finally:
            call.cancel()
        self._loop.works()
        return found
