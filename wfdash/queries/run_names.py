"""What a run is called for a viewer: its own title for all who see it, a summary of its input for those who may read
that, else the subject of its newest request, which who sees the run sees as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery

from checkpoints.database.compiled import Among, Placeholder, compiled_rows
from checkpoints.errors import Unreadable
from checkpoints.models import FOR_PEOPLE, HumanRequest, Run
from checkpoints.models.fields import current_encryptor
from wfdash.access.viewer import Viewer
from wfdash.domain.labels import visible
from wfdash.queries.unreadable import document, hidden_cards, subject_in
from wfdash.records.base import UNREADABLE

NAMED = ("id", "workflow", "title", "own_title", "summary")


def title_of(run: Run, inspect: bool, subject: str = "") -> str:
    """Return what a run is called, for a viewer who may ``inspect`` its values or not. ``subject``: if it is known."""
    return worded(run.title or run.workflow, own_title_of(run), (summary_of(run) if inspect else "") or subject)


@compiled_rows
def newest_of(hidden: bool) -> QuerySet[HumanRequest, Any]:
    """Return the query of the newest request to people of each run."""
    newest = HumanRequest.objects.filter(FOR_PEOPLE, run=OuterRef("pk")).order_by("-created", "-id").values("pk")[:1]
    asked = Run.objects.filter(Among("pk", Placeholder("ids"))).annotate(asked=Subquery(newest)).values("asked")
    rows = HumanRequest.objects.filter(pk__in=asked).annotate(**hidden_cards())
    return rows.values_list("id", "run_id", "step", "subject", *hidden_cards())


def subjects_of(viewer: Viewer, runs: Iterable[Any]) -> dict[str, str]:
    """Return run id -> the subject of its newest request to people, of those of these visible runs that would be called
    as their workflow (one query, none without such runs).
    """
    nameless = [
        run.pk
        for run in runs
        if not own_title_of(run) and not (viewer.may("inspect", run.workflow) and summary_of(run))
    ]
    if not nameless:
        return {}
    found: dict[str, str] = {}
    for id_, run, step, subject, *card in newest_of(current_encryptor().active).all(ids=nameless):
        if card and UNREADABLE in (document(HumanRequest(id=id_, card=card[0]), "card") or {}):
            continue  # Why it cannot be read is no name.
        found[run] = visible(str((subject_in(card[0], id_, step) if card else subject) or ""))
    return found


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


def run_in(values: dict[str, Any]) -> Any:
    """Return a run that has a name, from the values of its columns (id, workflow, title, own_title, summary).

    Only what may be encrypted needs the model, which costs more than all else of a name.
    """
    named = {name: values[name] for name in NAMED}
    return Run(**named) if current_encryptor().active else SimpleNamespace(pk=named["id"], **named)


def worded(workflow_title: str, own_title: str, summary: str) -> str:
    """Return a run's name from its parts."""
    return own_title or (f"{workflow_title}: {summary}" if summary else workflow_title)


def _readable(run: Run, column: str) -> str:
    """Return a column's text. One that is missing or cannot be decrypted names nothing."""
    try:
        return getattr(run, column) or ""
    except Unreadable:
        return ""
