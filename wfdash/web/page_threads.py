"""The threads that answer requests: how long one may wait for its turn, and what becomes of a thread that hangs.

A request that has begun is never ended from outside, for it may be about to commit. So a thread that hangs is named in
the log and counted: while all of them hang nothing new is taken, and before that ``/readyz`` sends people elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from checkpoints.database.direct import keep_limits, replies_within
from wfdash.domain.errors import Busy
from wfdash.telemetry.logs import mask_secrets

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

DEADLINE_SECONDS = 15.0
"""The longest time for a thread to get free, and with it for the database's replies to one request."""
LEAST_SECONDS = 1.0
"""For the database's replies to a request that waited for its turn for nearly as long."""
HANGING_SECONDS = 10.0
"""For one request, or one piece of its response, after which its thread is named in the log."""
LOOK_SECONDS = 1.0
"""Between two looks after the threads, while one works."""
NAMED_LINES = 4
"""Lines of code that are named, the innermost last."""


class _Work:
    """A request, or a piece of its response, for a thread. ``began``: None while it waits for its turn."""

    def __init__(self, path: str, *, may_refuse: bool) -> None:
        self.path, self.may_refuse, self.arrived = path, may_refuse, time.monotonic()
        self.began: float | None = None
        self.thread = 0
        self.hangs = False
        self.give_up: Callable[[], bool] = lambda: False
        self.refused = False

    def begin(self) -> float:
        """Note the thread and the time; return the seconds that it may wait for the database."""
        self.thread, self.began = threading.get_ident(), time.monotonic()
        return max(LEAST_SECONDS, DEADLINE_SECONDS - (self.began - self.arrived))


class PageThreads:
    """A pool of so many threads. Everything but the work itself happens on the event loop."""

    def __init__(self, many: int) -> None:
        self.many = many
        self.hanging = 0
        """How many work at something for more than ``HANGING_SECONDS``."""
        self._pool = ThreadPoolExecutor(many, thread_name_prefix="wfdash-pages", initializer=keep_limits)
        self._works: set[_Work] = set()
        self._watches = False

    async def begin(self, path: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a function, called in one of the threads, which answers a request to this path.

        ``Busy``, and the function is never called: all threads hang, or none got free in time.
        """
        if self.hanging >= self.many:
            raise Busy("All page threads hang")
        return await self._do(_Work(path, may_refuse=True), partial(function, *args, **kwargs))

    async def proceed(self, path: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for a response that has begun: it waits for its turn as long as that takes."""
        return await self._do(_Work(path, may_refuse=False), partial(function, *args, **kwargs))

    async def _do(self, work: _Work, function: Callable[[], T]) -> T:
        def do() -> T:
            with replies_within(work.begin()):
                return function()

        future = self._pool.submit(do)
        work.give_up = future.cancel
        self._works.add(work)
        future.add_done_callback(lambda done: self._works.discard(work))
        if not self._watches:
            self._watches = True
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if work.refused:
                raise Busy("No page thread got free") from None
            raise

    def _look(self) -> None:
        """Name threads that hang, and give up what has waited too long; again soon, while there is something."""
        now, hanging = time.monotonic(), 0
        for work in list(self._works):
            if work.began is None:
                late = work.may_refuse and now - work.arrived > DEADLINE_SECONDS
                work.refused = late and work.give_up()  # not if it has just begun
            elif now - work.began > HANGING_SECONDS:
                hanging += 1
                if not work.hangs:
                    work.hangs = True
                    _name(work, now - work.began)
        self.hanging = hanging
        self._watches = bool(self._works)
        if self._watches:
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)


def _name(work: _Work, seconds: float) -> None:
    frame = sys._current_frames().get(work.thread)
    stack = traceback.extract_stack(frame)[-NAMED_LINES:] if frame is not None else []
    places = " > ".join(f"{one.name} ({one.filename}:{one.lineno})" for one in stack)
    log.warning("A page thread has worked at %s for %.0f s, and is in %s", mask_secrets(work.path), seconds, places)
