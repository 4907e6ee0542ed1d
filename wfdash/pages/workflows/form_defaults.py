"""The initial value of a start form: the author's example, this person's last input, or another run's."""

from __future__ import annotations

from django.http import HttpRequest

from checkpoints.records import Json
from wfdash.access.viewer import Viewer
from wfdash.errors import NotFound
from wfdash.pages.site.numbers import number_in
from wfdash.queries.runs.before_acting import input_of
from wfdash.queries.workflows import WorkflowRow, last_of


def default_input(request: HttpRequest, viewer: Viewer, row: WorkflowRow) -> tuple[Json, str]:
    """Return the requested input and where it comes from, as text; None and empty without one.

    ``example=1``, ``last=1`` (this person's last run of the workflow) or ``from=<run>``; secrets are never copied.
    Nothing for a POST, which brings its own. ``NotFound`` for a run of another workflow, or one they may not inspect.
    """
    if request.method == "POST":
        return None, ""
    if run_id := request.GET.get("from", "").replace("\0", ""):
        workflow, value = input_of(viewer, run_id)
        if workflow != row.name:
            raise NotFound("That run belongs to another workflow")
        return value, f"Filled in with the input of run {run_id[-8:]}. Secrets are not copied: enter them again."
    if request.GET.get("last"):
        last = last_of(viewer, row.name)
        if last:
            return input_of(viewer, last)[1], "Filled in from your last run, without secrets."
    return _example(row, request.GET.get("example", "")), ""


def _example(row: WorkflowRow, number: str) -> Json:
    """Return the example a person asked for (1, 2, ...), or None."""
    examples = row.description.examples
    wanted = number_in(number)
    return examples[wanted - 1] if 0 < wanted <= len(examples) else None
