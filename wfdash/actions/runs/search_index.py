"""Search attributes of runs: written when a run starts and when it fails, and by the sweep for runs that have none, or
whose title has changed.

Where content is encrypted, only what is readable anyway is indexed: name and title of the workflow, and the class of an
error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from django.db.models import Q
from django.utils import timezone

from checkpoints.database.alias import on_commit
from checkpoints.database.compiled import Literally
from checkpoints.database.storage import write
from checkpoints.errors import CheckpointsError
from checkpoints.models import KnownError, Run, RunFact, WorkflowVersion
from checkpoints.models.fields import current_encryptor
from checkpoints.records import Json
from checkpoints.rules import NEVER
from wfdash import pubsub
from wfdash.access.directory import people_who
from wfdash.access.viewer import viewer_for
from wfdash.actions.common import lock_rows
from wfdash.actions.pacing import SweepBackoff
from wfdash.domain import search_attributes
from wfdash.domain.errors import NotFound
from wfdash.engines import catalog
from wfdash.notifications.write import notify_workflow

# Said in the statement for PostgreSQL, whose plans for any value use no partial index; SQLite's index is of ``IN``.
UNLISTED = Run.objects.filter(Literally("listed", "= false"), listed__in=[False])
_unlisted = SweepBackoff("Could not index run %s")
_unnoted = SweepBackoff("Why run %s failed could not be noted")


def index_run(run: Run, message: Json) -> None:
    """Index a new run, inside the transaction that creates it as ``listed``.

    Of its input only what the workflow's schema does not call secret; nothing where no schema is known.
    """
    _store_attributes(run, _facts_of_run(run, message))


def index_runs(limit: int = 100) -> int:
    """Index runs that have no attributes, such as those created without the actions. Returns how many runs."""
    rows = UNLISTED.exclude(pk__in=_unlisted.backed_off())
    return _unlisted.run_batch(list(rows.values_list("pk", flat=True)[:limit]), _index_these)


def _index_these(runs: Sequence[str]) -> int:
    if not runs:
        return 0
    with write():
        found = _locked(Q(listed=False, pk__in=runs))
        RunFact.objects.filter(run__in=found, name=search_attributes.TITLE).delete()
        for run in found:
            _store_attributes(run, _facts_of_run(run, _decrypted_or_none(run, "input")))
        Run.objects.filter(pk__in=[run.pk for run in found]).update(listed=True)
        _notify_lists(found)
    return len(found)


def index_failures(limit: int = 100) -> int:
    """Index the class and message of failures that are not indexed yet, and announce them. Returns how many.

    A run that fails again is found by its last class; the messages of all its failures stay.
    """
    rows = FAILURES.exclude(pk__in=_unnoted.backed_off())
    return _unnoted.run_batch(list(rows.values_list("pk", flat=True)[:limit]), _index_failures_of)


def _index_failures_of(runs: Sequence[str]) -> int:
    if not runs:
        return 0
    with write():
        found = _locked(FAILURE_NOT_INDEXED & Q(pk__in=runs))
        RunFact.objects.filter(run__in=found, name=search_attributes.ERROR).delete()
        for run in found:
            _store_attributes(
                run,
                search_attributes.failure_of(_decrypted_or_none(run, "error"), content=not current_encryptor().active),
            )
        Run.objects.filter(pk__in=[run.pk for run in found]).update(noted=True)
        _note_errors(found)
        announce_failures(found)
        _notify_lists(found)
    return len(found)


QUIET = timedelta(days=7)
"""An error that comes back after this time has regressed."""


def _note_errors(runs: Iterable[Run]) -> None:
    """Keep since when these errors happen and in which version, and when one came back."""
    found = defaultdict[tuple[str, str], list[Run]](list)
    for run in sorted(runs, key=lambda run: run.finished or NEVER):
        found[run.workflow, search_attributes.folded(error_class(run))].append(run)
    for (workflow, error), failed in found.items():
        first, last = failed[0], failed[-1]
        since, at = first.finished or timezone.now(), last.finished or timezone.now()
        kept = {"first_at": since, "first_version": first.version, "last_at": at, "last_version": last.version}
        known, made = KnownError.objects.get_or_create(workflow=workflow, error=error, defaults=kept)
        if not made and at > known.last_at:
            again = {"again_at": since} if since - known.last_at > QUIET else {}
            KnownError.objects.filter(pk=known.pk).update(last_at=at, last_version=last.version, **again)


def _notify_lists(runs: Iterable[Run]) -> None:
    """Let lists that are open look again once this is committed: their filter may find these runs by now."""
    for run, seq in [(run.pk, run.seq) for run in runs]:
        on_commit(partial(pubsub.runs_changed.publish, run, seq))


def remove_content(chunk: int = 1000) -> int:
    """Remove attributes that contain content, once that is encrypted. Returns how many were removed.

    Runs with titles of their own are indexed again, by the title of their workflow.
    """
    kept = [search_attributes.TAG, search_attributes.ERROR, search_attributes.TITLE]
    titled = Q(name=search_attributes.TITLE, run__own_title__isnull=False, run__listed=True)
    # The sweep may index such a run again in the meantime: only what there was counts.
    newest = RunFact.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    rows, removed = RunFact.objects.filter(~Q(name__in=kept) | titled, pk__lte=newest).order_by("pk"), 0
    while found := list(rows.values_list("pk", "run", "name")[:chunk]):
        with write():
            lock_rows(Run.objects.filter(pk__in={run for _, run, _ in found}))
            RunFact.objects.filter(pk__in=[pk for pk, _, _ in found]).delete()
            renamed = {run for _, run, name in found if name == search_attributes.TITLE}
            removed += RunFact.objects.filter(run__in=renamed, name=search_attributes.TITLE).delete()[0]
            Run.objects.filter(pk__in=renamed).update(listed=False)
        removed += len(found)
    return removed


def _locked(which: Q) -> list[Run]:
    return list(Run.objects.select_for_update(skip_locked=True, of=("self",)).filter(which))


def _facts_of_run(run: Run, message: Json) -> list[search_attributes.SearchAttribute]:
    encrypted = current_encryptor().active
    own = "" if encrypted else _decrypted_or_none(run, "own_title") or ""
    words = search_attributes.title_words(own, run.title, run.workflow, run=run.pk)
    attributes = [search_attributes.SearchAttribute(name=search_attributes.TITLE, text=word) for word in words]
    schema = None if encrypted or message is None else _schema_of(run)
    return attributes if schema is None else [*attributes, *search_attributes.facts_of(message, schema)]


def _store_attributes(run: Run, attributes: Iterable[search_attributes.SearchAttribute]) -> None:
    known = set(RunFact.objects.filter(run=run).values_list("name", "text")) if run.seq else set()
    rows = [
        RunFact(run=run, name=fact.name, text=fact.text, number=fact.number, created=run.created)
        for fact in attributes
        if (fact.name, fact.text) not in known
    ]
    RunFact.objects.bulk_create(rows)


def _schema_of(run: Run) -> dict[str, Any] | None:
    """Return the schema that says which parts of the input are secret; None if there is none."""
    name = "follow_up_schema" if run.follows else "input_schema"
    try:
        return dict(getattr(catalog.get(run.workflow).description, name) or {})
    except NotFound:
        kept = WorkflowVersion.objects.filter(workflow=run.workflow, version=run.version).first()
        return dict(kept.description.get(name) or {}) if kept else None


def _decrypted_or_none(run: Run, column: str) -> Any:
    """Return a column's value, None if it cannot be decrypted."""
    try:
        return getattr(run, column)
    except CheckpointsError:
        return None


FAILURE_NOT_INDEXED = Q(Literally("phase", "= 'failed'"), noted__in=[False])
FAILURES = Run.objects.filter(FAILURE_NOT_INDEXED)


# Notifies operators and starters of runs that failed or are held. Many alike within an hour are one notification.

NEWS = timedelta(hours=1)
"""What failed longer ago is no news: a run that is indexed late."""


def announce_failures(runs: Iterable[Run]) -> None:
    """Notify those concerned of these failed runs, inside the caller's transaction.

    Once an hour by workflow and class of error: an outage that fails a thousand runs is one message to each person.
    Only the class is named: a message may contain values.
    """
    since = timezone.now() - NEWS
    for run in runs:
        if run.finished is not None and run.finished >= since:
            kind = error_class(run)
            _notify(run, "failed", text=kind, alike=f"{run.workflow}:{kind}")


def announce_held(run: Run) -> None:
    """Notify those concerned that a run is held, inside the caller's transaction; once an hour by version."""
    _notify(run, "held", text="Its workflow has changed", alike=f"{run.workflow}:{run.version}")


def _notify(run: Run, kind: str, *, text: str, alike: str) -> None:
    hour = f"{timezone.now():%Y-%m-%dT%H}"
    facts = {"run": run.pk, "subject": title_for_everyone(run), "text": text}
    found = [viewer.user for viewer in people_who("operate", run.workflow)]
    starter = run.created_by
    if starter is not None and starter not in found and viewer_for(starter).may("see", run.workflow):
        found.append(starter)
    notify_workflow(kind, run.workflow, found, facts=facts, once=f"{kind}:{hour}:{alike}"[:120])


def title_for_everyone(run: Run) -> str:
    """Return what everyone who sees the run may call it."""
    try:
        own = run.own_title
    except CheckpointsError:
        own = None
    return own or run.title or catalog.title_of(run.workflow)


def error_class(run: Run) -> str:
    """Return the class of the run's error, empty if there is none: a message may contain values."""
    try:
        kind = str((run.error or {}).get("type") or "")
    except CheckpointsError:
        return ""
    return kind.rpartition(".")[2][:100]
