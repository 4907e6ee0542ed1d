"""Calls about the parts of a run: its steps, log, values and tags; and about a run whose workflow has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from wfdash.client.calls.paging import pages
from wfdash.client.script import Script
from wfdash.client.sending import get, part, post
from wfdash.records.base import Created
from wfdash.records.run_parts import (
    ActivationRecord,
    LogLineRecord,
    LogRecordPage,
    RunPart,
    StepPage,
    TagList,
    ValueRecord,
)
from wfdash.records.runs import GraphChange

Level = Literal["", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


def steps(run_id: str, *, step: str = "", state: str = "", limit: int = 100, after: str = "") -> Script[StepPage]:
    """Return a page of the executions of a run's steps, or of one step, in the order in which they started."""
    query: dict[str, Any] = {"step": step, "state": state, "limit": limit, "after": after}
    return StepPage.model_validate((yield from get(f"/runs/{part(run_id)}/steps", **query)))


def all_steps(run_id: str, *, step: str = "", state: str = "", most: int | None = None) -> Script[None]:
    """Emit the executions of a run's steps, page by page."""
    query = {"step": step, "state": state}
    yield from pages(f"/runs/{part(run_id)}/steps", ActivationRecord.model_validate, query, most=most)


def logs(
    run_id: str,
    *,
    text: str = "",
    step: str = "",
    activation: str = "",
    level: Level = "",
    limit: int = 300,
    after: str = "",
) -> Script[LogRecordPage]:
    """Return a page of what a run logged, oldest first. ``level``: of this level and above.

    ``next`` of the last page is where what is logged later will begin.
    """
    query: dict[str, Any] = {
        "q": text,
        "step": step,
        "activation": activation,
        "level": level,
        "limit": limit,
        "after": after,
    }
    return LogRecordPage.model_validate((yield from get(f"/runs/{part(run_id)}/logs", **query)))


def all_logs(
    run_id: str, *, text: str = "", step: str = "", level: Level = "", most: int | None = None
) -> Script[None]:
    """Emit what a run has logged, page by page."""
    query = {"q": text, "step": step, "level": level}
    yield from pages(f"/runs/{part(run_id)}/logs", LogLineRecord.model_validate, query, most=most, limit=300)


def values(run_id: str, of: RunPart = "state") -> Script[ValueRecord]:
    """Return a part of a run's present values. ``NotAllowed`` for people who may not inspect them."""
    return ValueRecord.model_validate((yield from get(f"/runs/{part(run_id)}/values/{part(of)}")))


def tag(run_id: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Script[list[str]]:
    """Add tags to a run and remove others. Returns the tags that it has then."""
    body = {"add": list(add), "remove": list(remove)}
    return TagList.model_validate((yield from post(f"/runs/{part(run_id)}/tags", body))).tags


def graph_change(run_id: str, *, override: bool = False) -> Script[GraphChange]:
    """Return what has changed in the workflow since a run started, and what migrating the run would do.

    ``override``: what continuing without a declared migration would do.
    """
    return GraphChange.model_validate((yield from get(f"/runs/{part(run_id)}/skew", override=override or None)))


def migrate(run_id: str) -> Script[Created]:
    """Migrate a run to the loaded graph as its author declared. ``Conflict`` with the reason if that cannot be."""
    return Created.model_validate((yield from post(f"/runs/{part(run_id)}/migrate")))


def override(run_id: str) -> Script[Created]:
    """Resume a run under the loaded graph without a declared migration. ``Conflict`` if it is not valid there."""
    return Created.model_validate((yield from post(f"/runs/{part(run_id)}/override")))
