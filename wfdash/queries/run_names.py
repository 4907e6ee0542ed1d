"""What a run is called for a viewer: its own title for all who see it, a summary of its input for those who may read
that, else the title of its workflow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Q

from checkpoints.errors import Unreadable
from checkpoints.models import Run
from wfdash.access.viewer import Viewer


def title_of(run: Run, inspect: bool) -> str:
    """Return what a run is called, for a viewer who may ``inspect`` its values or not."""
    return worded(run.title or run.workflow, own_title_of(run), summary_of(run) if inspect else "")


def titles_of(viewer: Viewer, run_ids: Iterable[str]) -> dict[str, str]:
    """Return run id -> what it is called, of those this person may see or has started (one query)."""
    rows = Run.objects.filter(
        viewer.scope("see") | (Q(created_by_id=viewer.user.pk) & viewer.reach()), pk__in=set(run_ids)
    )
    rows = rows.only("workflow", "title", "own_title", "summary")
    return {run.pk: title_of(run, viewer.may("inspect", run.workflow)) for run in rows}


def own_title_of(run: Run) -> str:
    """Return the title that its author gave a run; empty without one."""
    return _readable(run, "own_title")


def summary_of(run: Run) -> str:
    """Return the summary of a run's input, which only those who may inspect it are shown; empty without one."""
    return _readable(run, "summary")


def title_in(values: dict[str, Any], inspect: bool) -> str:
    """Return the same from the values of a run's columns (id, workflow, title, own_title, summary)."""
    return title_of(
        Run(**{name: values[name] for name in ("id", "workflow", "title", "own_title", "summary")}), inspect
    )


def worded(workflow_title: str, own_title: str, summary: str) -> str:
    """Return a run's name from its parts."""
    return own_title or (f"{workflow_title}: {summary}" if summary else workflow_title)


def _readable(run: Run, column: str) -> str:
    """Return a column's text. One that is missing or cannot be decrypted names nothing."""
    try:
        return getattr(run, column) or ""
    except Unreadable:
        return ""
