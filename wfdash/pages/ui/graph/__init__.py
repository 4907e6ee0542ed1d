"""Workflow graphs as drawings and as text."""

from __future__ import annotations

from wfdash.pages.ui.graph.drawing import Drawing, DrawnArrow, DrawnStep, GroupDrawing
from wfdash.pages.ui.graph.folding import ALL, Folded, fold
from wfdash.pages.ui.graph.graph import RunOverlay, layout
from wfdash.pages.ui.graph.travel import Transition, travelled
from wfdash.pages.ui.graph.unfolding import closing, draw_definition, opened_in, opening

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
