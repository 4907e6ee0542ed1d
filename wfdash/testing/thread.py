"""The thread in which a bench uses Django's ORM: an event loop must not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class OrmThread:
    """Calls functions one after the other, in a thread that keeps its connection."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="wfdash-bench")

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the function returns."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *args, **kwargs))

    def wait(self, function: Callable[[], T]) -> T:
        """Return what the function returns, to a caller that waits for it."""
        return self._pool.submit(function).result()

    @contextmanager
    def within(self, manager: AbstractContextManager[T]) -> Iterator[T]:
        """Enter and leave a context in the thread."""
        value = self.wait(manager.__enter__)
        try:
            yield value
        finally:
            self.wait(partial(manager.__exit__, None, None, None))

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown()
