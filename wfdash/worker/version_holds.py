"""Runs whose graph has changed: carried over, or held until a process has their code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import connections

from checkpoints.records import Claim
from wfdash.actions.runs import cancellation, migrate

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
    return await in_thread(migrate.migrate_or_hold, claim)


def keep_claim(claim: Claim) -> None:
    """Keep others off a run of which something still runs here, also where its end has dropped the claim."""
    cancellation.keep_claim(claim)


async def release_until(stopping: asyncio.Event) -> None:
    """Release held runs whose code is here, every ``LOOK_SECONDS`` until stopped; first those that may be migrated."""
    after: str | None = ""
    while not stopping.is_set():
        try:
            released = await in_thread(migrate.release_held)
            if after is not None:
                migrated, further = await in_thread(migrate.release_declared, after)
                released, after = released + migrated, further or None
            if released:
                log.info("Compatible code available, resuming runs: %s", ", ".join(released))
        except Exception:
            log.exception("Could not look for held runs; retrying")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), 0 if after else LOOK_SECONDS)
