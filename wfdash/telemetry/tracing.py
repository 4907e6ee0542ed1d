"""Spans of runs and steps for OpenTelemetry: nothing at all, not even an import, unless ``WFDASH_OTEL`` is 1.

This module decides whether there are any; ``spans`` makes them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from importlib import import_module
from typing import Protocol, cast

from django.conf import settings

from checkpoints.models import HumanRequest
from checkpoints.records import Claim, Commit, RunFacts

log = logging.getLogger(__name__)


class Trace(Protocol):
    """The spans of one drive: from a worker's claim of a run to its release."""

    def saw(self, commit: Commit) -> None:
        """Record a commit."""

    def close(self) -> None:
        """End open spans. May be called again."""


class Tracer(Protocol):
    """Makes spans."""

    async def follow(self, claim: Claim, facts: RunFacts) -> Trace:
        """Start the span of a drive and return its trace."""

    def started(self, run: str, workflow: str, headers: Mapping[str, str]) -> None:
        """Add the run's trace to the caller's (W3C ``traceparent`` among the headers)."""

    def decided(self, request: HumanRequest, by: int | None, action: str, now: datetime) -> None:
        """Add the span of a request that was decided, by the person with this id (None: by a deadline)."""


class Untraced:
    """No spans."""

    def saw(self, commit: Commit) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


UNTRACED = Untraced()


@lru_cache(maxsize=1)
def tracer() -> Tracer | None:
    """Return the tracer, None unless tracing is enabled. Read once per process."""
    if not settings.WFDASH_OTEL:
        return None
    try:
        return cast(Tracer, import_module("wfdash.telemetry.spans").open_tracer())
    except ImportError as error:
        log.error("WFDASH_OTEL is 1, but there will be no spans (%s): pip install wfdash[otel]", error)
        return None


async def follow(claim: Claim, facts: RunFacts) -> Trace:
    """Return the trace of a drive. A failure of tracing does not affect the run."""
    made = tracer()
    if made is None:
        return UNTRACED
    try:
        return await made.follow(claim, facts)
    except Exception:
        log.exception("There will be no spans of run %s this time", claim.run)
        return UNTRACED


def started(run: str, workflow: str, headers: Mapping[str, str]) -> None:
    """Link the run's trace from the trace of the caller who started it, if there is one."""
    made = tracer()
    if made is not None:
        made.started(run, workflow, headers)


def decided(request: HumanRequest, by: int | None, action: str, now: datetime) -> None:
    """Add the span of a request that was decided. A failure of tracing does not affect the answer."""
    try:
        made = tracer()
        if made is not None:
            made.decided(request, by, action, now)
    except Exception:
        log.exception("There is a span missing of request %s", request.pk)
