"""Threads for code that uses the ORM, which an event loop must not wait for."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connections

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what uses the ORM in a thread, and close its connections afterwards."""

    def call() -> T:
        try:
            return function(*args, **kwargs)
        finally:
            connections.close_all()

    return await asyncio.to_thread(call)


class DbThread:
    """Calls functions one after the other in a thread of its own, which keeps its connection from one to the next."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def call(self, function: Callable[[], T]) -> T:
        """Return the result of the function; a cancelled caller does not stop it."""
        return await self._run(_tidily, function)

    async def repeat(self, function: Callable[[], T]) -> T:
        """Like ``call``, for what is called often and may be done twice: whether the connection is alive is not asked
        first. If it fails it is called again with a new one.
        """
        return await self._run(_twice, function)

    async def _run(self, how: Callable[[Callable[[], T]], T], function: Callable[[], T]) -> T:
        """Return the result, in the caller's context: log lines of the thread say which worker they are about."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, context.run, how, function)

    async def aclose(self, *, wait: bool = True) -> None:
        """Close the connections once what runs has ended; ``wait`` for that."""
        self._pool.submit(connections.close_all)
        if wait:
            await asyncio.to_thread(self._pool.shutdown)
        else:
            self._pool.shutdown(wait=False)


def _tidily(function: Callable[[], T]) -> T:
    """Run it as a web request would be: connections that have died or are old are left behind."""
    close_old_connections()
    try:
        return function()
    finally:
        close_old_connections()


def _twice(function: Callable[[], T]) -> T:
    try:
        return function()
    except Exception:
        connections.close_all()
        return function()
