"""The threads in which plain functions of steps and calls run."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

THREADS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="wfdash-step")
"""Shared by all runs of the process; threads are started as they are needed."""


async def in_thread(function: Callable[[], T]) -> T:
    """Run a plain function in a thread, in a copy of the caller's context."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(THREADS, lambda: context.run(function))
