"""Two checkpoints side by side: steps, state, conversation, requests."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse

from wfdash.errors import Invalid, NotFound
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.ui.diff import diff_values
from wfdash.pages.ui.transcript import diff_transcripts
from wfdash.queries.checkpoints.compare import Comparison, compare_checkpoints
from wfdash.queries.runs.listing import read_run
from wfdash.records.checkpoints import StateCounts
from wfdash.rendering import render

MOST_PATCH = 200_000
"""Characters of a patch that a page shows; longer ones are in the API."""
STATES = (
    ("done", "finished"),
    ("running", "running"),
    ("waiting", "waiting for people"),
    ("sleeping", "asleep"),
    ("stopped", "stopped"),
    ("retrying", "to be retried"),
    ("failed", "failed"),
)


@page("GET")
def compare(request: HttpRequest, run_id: str) -> HttpResponse:
    """Compare ``a`` with ``b``: numbers of this run, ids, or addresses of checkpoints of any run of the workflow.

    ``raw``: answer with the patch alone, of the ``state``, or of all that is ``shown``.
    """
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    first, second = request.GET.get("a", ""), request.GET.get("b", "")
    context: dict[str, Any] = {"run": run, "a": first, "b": second}
    status = 200
    if first and second:
        try:
            found = compare_checkpoints(viewer, run_id, first, second)
            if request.GET.get("raw"):
                return _raw(found, request.GET["raw"])
            context |= _compared(found)
        except (NotFound, Invalid) as error:
            message = error.errors[0]["msg"] if isinstance(error, Invalid) else str(error)
            context |= {"problem": message}
            status = 404 if isinstance(error, NotFound) else 422
    return render(request, "checkpoints/compare.html", context, status=status)


def _raw(found: Comparison, what: str) -> HttpResponse:
    patch = found.shown_patch if what == "shown" else found.patch
    return HttpResponse(json.dumps(patch, indent=2, ensure_ascii=False), content_type="application/json")


def _compared(found: Comparison) -> dict[str, Any]:
    changes = [] if found.problem else diff_values({"state": found.old.state}, {"state": found.new.state})
    patch = json.dumps(found.patch, indent=2, ensure_ascii=False)
    shown = json.dumps(found.shown_patch, indent=2, ensure_ascii=False)
    return {
        "found": found,
        "changes": changes,
        "inputs": diff_values(*found.inputs) if found.inputs else (),
        "step_inputs": diff_values(dict(found.old.inputs), dict(found.new.inputs)),
        "talk_changes": diff_transcripts(found.old.transcript, found.new.transcript),
        "moved": [(one.step, describe_counts(one.before), describe_counts(one.after)) for one in found.moved],
        "asked": [
            (one, diff_values(one.before.card, one.after.card) if one.before and one.after else ())
            for one in found.asked
        ],
        "patches": [
            ("state", "State", patch if len(patch) <= MOST_PATCH else ""),
            ("shown", "State, step inputs and conversation", shown if len(shown) <= MOST_PATCH else ""),
        ],
    }


def describe_counts(counts: StateCounts) -> str:
    """Return a step's counts as text: ``2 finished, 1 waiting for people``; not started if there are none."""
    parts = [f"{getattr(counts, name)} {words}" for name, words in STATES if getattr(counts, name)]
    return ", ".join(parts) if counts.total > 1 else parts[0][2:] if parts else "not started"
