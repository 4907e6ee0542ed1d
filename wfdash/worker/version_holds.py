"""Runs whose graph has changed: carried over, or held until a process has their code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import connections

from checkpoints.records import Claim
from wfdash.actions.runs import cancellation, migrate
from wfdash.actions.runs.migrate import Holds

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


async def carry_or_hold(claim: Claim, holds: Holds) -> bool:
    """Carry a claimed run over to the loaded graph by what is declared; False if it is held instead, or left."""
    return await in_thread(migrate.migrate_or_hold, claim, holds)


def keep_claim(claim: Claim) -> None:
    """Keep others off a run of which something still runs here, also where its end has dropped the claim."""
    cancellation.keep_claim(claim)
