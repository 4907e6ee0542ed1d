"""Tags: short labels people add to runs, to find and handle them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import Run, RunFact
from wfdash.access.viewer import Viewer
from wfdash.actions.audit import entries
from wfdash.actions.common import append_event, find_run, lock_rows, lock_run
from wfdash.actions.idempotency import idempotent
from wfdash.domain import search_attributes
from wfdash.errors import Invalid
from wfdash.retention.keeping import KEPT

KEEP = search_attributes.KEEP
MOST = 20
"""Tags per run."""
MOST_RUNS = 500


def tag_runs(
    viewer: Viewer,
    run_ids: Sequence[str],
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
    *,
    key: str | None = None,
) -> list[Run]:
    """Add tags to runs and remove others, all in one transaction. ``Invalid``, ``NotFound``, ``NotAllowed``.

    For many runs see ``wfdash.actions.runs.bulk``.
    """
    more, less = read_tags(add), read_tags(remove)
    if len(run_ids) > MOST_RUNS:
        raise Invalid([{"loc": ["runs"], "msg": f"Tag at most {MOST_RUNS} runs at once"}])
    with write(), idempotent(viewer, key, "tag", [list(run_ids), list(more), list(less)]) as call:
        lock_rows(Run.objects.filter(viewer.scope("see"), pk__in=run_ids))
        return [
            tag_run(viewer, run_id, more, less)
            if call.previous_result is None
            else find_run(viewer, run_id, right="operate")
            for run_id in run_ids
        ]


def tag_run(viewer: Viewer, run_id: str, add: Sequence[str], remove: Sequence[str]) -> Run:
    """Tag one run inside the caller's transaction. Adding a present tag, or removing an absent one, records nothing."""
    run = find_run(viewer, run_id, right="operate")
    lock_run(run)
    tags = RunFact.objects.filter(run=run, name=search_attributes.TAG)
    had = set(tags.values_list("text", flat=True))
    more, less = sorted(set(add) - had), sorted(set(remove) & had)
    if len(had) + len(more) - len(less) > MOST:
        raise Invalid([{"loc": ["add"], "msg": f"A run has at most {MOST} tags. Remove some first"}])
    if more or less:
        tags.filter(text__in=less).delete()
        RunFact.objects.bulk_create(
            RunFact(run=run, name=search_attributes.TAG, text=tag, created=run.created) for tag in more
        )
        append_event(run, EventKind.RUN_TAGGED.draft(by=viewer.name, add=more, remove=less))
        entries.record_run(viewer, "tag", run, add=more, remove=less)
    return run


def is_kept(run: Run) -> bool:
    """Return whether people keep the run by its tag: neither its age nor anyone's deletion removes it."""
    return KEPT.filter(run=run).exists()


def read_tags(given: Iterable[str]) -> tuple[str, ...]:
    """Return tags in the form they are stored. ``Invalid`` names the one that is not valid."""
    found: dict[str, None] = {}
    for text in given:
        tag = search_attributes.tag_of(text)
        if tag is None:
            words = f"{text[:60]!r} is not a valid tag. Use up to 40 letters, digits and . _ - : / @ +"
            raise Invalid([{"loc": ["tags"], "msg": words}])
        found[tag] = None
    return tuple(found)
