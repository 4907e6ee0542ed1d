"""The timeline of a run: a row per step, an axis on which waiting is folded, and the window that is looked at."""

from __future__ import annotations

from wfdash.pages.runs.timeline.context import timeline_context
from wfdash.pages.runs.timeline.drawing import Timeline, timeline

__all__ = ["Timeline", "timeline", "timeline_context"]
