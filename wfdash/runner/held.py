"""Runs whose graph has changed: carried over, or held until a process has their code.

Servers import their runner before Django has its models, so the verbs are imported where they are used: see ``verbs``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import connections

from checkpoints.records import Claim

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

LOOK_SECONDS = 5.0
"""Another worker, with other code, may hold a run at any time: so often it is looked for."""


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what uses the ORM in a thread, and close its connections afterwards."""

    def call() -> T:
        try:
            return function(*args, **kwargs)
        finally:
            connections.close_all()

    return await asyncio.to_thread(call)


async def carry_or_hold(claim: Claim) -> bool:
    """Carry a claimed run over to the loaded graph by what is declared; False if it is held instead."""
    from wfdash.desk import skew

    return await in_thread(skew.settle_skew, claim)


async def release_until(stopping: asyncio.Event) -> None:
    """Release held runs whose code is here, at once and every ``LOOK_SECONDS`` until stopped."""
    from wfdash.desk import skew

    declared = True
    while not stopping.is_set():
        try:
            released = await in_thread(skew.release_held, declared=declared)
            declared = False
            if released:
                log.info("Their code is here, so these runs go on: %s", ", ".join(released))
        except Exception:
            log.exception("Could not look for held runs; trying again")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), LOOK_SECONDS)
