"""Workflow graphs as drawings and as text."""

from __future__ import annotations

from wfdash.web.pages.ui.graph.drawing import Drawing, DrawnArrow, DrawnStep, GroupDrawing
from wfdash.web.pages.ui.graph.graph import (
    ALL,
    Folded,
    RunOverlay,
    Transition,
    closing,
    draw_definition,
    fold,
    layout,
    opened_in,
    opening,
    travelled,
)

__all__ = [
    "ALL",
    "Drawing",
    "DrawnArrow",
    "DrawnStep",
    "Folded",
    "GroupDrawing",
    "RunOverlay",
    "Transition",
    "closing",
    "draw_definition",
    "fold",
    "layout",
    "opened_in",
    "opening",
    "travelled",
]
