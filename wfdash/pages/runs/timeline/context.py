"""The timeline of a run's page: what is shown of it by its address, and the addresses of its buttons."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest

from wfdash.contract import Description
from wfdash.pages.runs.header import address
from wfdash.pages.runs.intervals import Intervals
from wfdash.pages.runs.step import StepPanel
from wfdash.pages.runs.timeline.drawing import Timeline, timeline
from wfdash.queries.history.step_states import StepTransition
from wfdash.queries.runs.listing import RunView

WALL = "wall"
"""The ``clock`` of a timeline on which nothing is folded."""


def timeline_context(
    request: HttpRequest,
    run: RunView,
    moved: list[StepTransition],
    end: datetime,
    described: Description | None,
    panel: StepPanel | None,
    found: dict[str, Intervals],
) -> dict[str, Any]:
    """Return the timeline of all steps, or, where a step with several activations is open, of those that are listed."""
    titles = {step.name: step.title for step in described.steps} if described else {}
    apart = panel is not None and panel.found.total > 1
    shown = _window_of(request)
    if apart and panel:
        rows = panel.found.rows
        titles = {row.id: row.name for row in rows}
        if shown is None and rows:
            last = max(row.ended or end for row in rows)
            shown = tuple((at - moved[0].at).total_seconds() for at in (rows[0].began, last))
    alone, wall = panel.name if apart and panel else "", request.GET.get("clock", "") == WALL
    drawn = timeline(moved, end, titles, shown=shown, apart=alone, known=found, fold=not wall, origin=run.created)
    return {
        "timeline": drawn,
        "zooms": _zooms(request, drawn, apart) if drawn else (),
        "clocks": _clocks(request, wall=wall) if drawn and drawn.foldable else (),
        "apart": apart,
    }


def _window_of(request: HttpRequest) -> tuple[float, ...] | None:
    try:
        low, high = float(request.GET.get("from", "")), float(request.GET.get("to", ""))
    except ValueError:
        return None
    return (low, high) if 0 <= low < high < 1e12 else None


def _clocks(request: HttpRequest, *, wall: bool) -> tuple[tuple[str, str, bool], ...]:
    """Return the ways to draw time: (label, address, whether it is this one)."""
    ways = (("Waiting folded", "", not wall), ("Wall clock", WALL, wall))
    return tuple((label, address(request, clock=name) + "#run-timeline", here) for label, name, here in ways)


def _zooms(request: HttpRequest, drawn: Timeline, apart: bool) -> tuple[tuple[str, str, str], ...]:
    """Return the zoom buttons: (label, icon, address), an empty address where it would change nothing."""
    window = drawn.window
    present = (window.low, window.high)
    ways = (
        ("Zoom in", "magnifying-glass-plus", window.closer),
        ("Zoom out", "magnifying-glass-minus", window.farther),
        ("Earlier", "chevron-left", window.moved(-1)),
        ("Later", "chevron-right", window.moved(1)),
    )
    made = [(label, icon, _zoomed(request, at) if at != present else "") for label, icon, at in ways]
    whole = ""
    if window.zoomed:  # for a step with several activations everything must be requested explicitly
        whole = _zoomed(request, (0.0, window.whole)) if apart else address(request, **{"from": "", "to": ""})
    return (*made, ("Fit", "arrows-pointing-out", whole))


def _zoomed(request: HttpRequest, at: tuple[float, float]) -> str:
    return address(request, **{"from": f"{at[0]:.3f}", "to": f"{at[1]:.3f}"}) + "#run-timeline"
