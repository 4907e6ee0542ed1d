"""Links from a run to the code of its workflow: from a step, and from the lines of a traceback."""

from __future__ import annotations

from django.urls import reverse

from wfdash.access.viewer import Viewer
from wfdash.queries.workflows import code_of, frames_in
from wfdash.web.pages.ui.source_lines import anchor_of


def step_link(viewer: Viewer, workflow: str, step: str) -> str:
    """Return the address of a step's code, empty where it is not shown."""
    known = any(step in file.steps for file in code_of(viewer, workflow))
    return f"{reverse('wfdash:workflow', args=[workflow])}#step-{step}" if known else ""


def linked_trace(viewer: Viewer, workflow: str, trace: str) -> list[tuple[str, str]]:
    """Return a traceback in pieces, each with the address of the line of code it names, empty for none.

    A line that reads otherwise now is no link: the code has changed since.
    """
    address, parts, at = reverse("wfdash:workflow", args=[workflow]), [], 0
    for place in frames_in(trace, code_of(viewer, workflow)):
        parts += [
            (trace[at : place.start], ""),
            (trace[place.start : place.end], f"{address}#{anchor_of(place.file, place.line)}"),
        ]
        at = place.end
    return [*parts, (trace[at:], "")]
