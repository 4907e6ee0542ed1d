"""A process that removes old runs is killed at each of its points, and the next one goes on."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import Any

from tests.faults.crashes.failpoints import in_a_fork

POINTS = (("remove_locked", 1), ("begin_removal", 1), ("drop_content", 2), ("remove_part", 1), ("remove_part", 2))
"""Function of the removal, and once it has been called for the how many-th time the process is killed: in the
transaction of a batch, of a large run's first part and of its other parts, and between them.
"""
LARGE, FEW = 40, 5


def kill_at_each_point() -> list[dict[str, Any]]:
    """Kill the removal at each point, and let another process go on each time.

    Returns the point, how both processes ended, and what was wrong after the first and after the second.
    """
    from django.db import connections

    # Imported once here, not in every fork.

    found = []
    for point, count in POINTS:
        _make_runs()
        connections.close_all()
        died = in_a_fork(lambda: _remove(point, count))  # noqa: B023
        wrong = _wrong()
        connections.close_all()
        went_on = in_a_fork(_remove)
        found.append({"point": point, "died": died, "went on": went_on, "wrong": wrong + _wrong() + _left()})
    return found


def _make_runs() -> None:
    """Make runs that ended long ago, of which one has very many rows: ``LARGE`` events."""
    from django.utils import timezone

    from checkpoints.database.high_water_mark import last_id
    from checkpoints.ids import new_run_id
    from checkpoints.models import Chunk, Event, Run, TallyMark

    then = timezone.now() - timedelta(days=40)
    for events in (2, 2, LARGE, 2):
        run = Run.objects.create(
            id=(made := new_run_id()),
            family=made,
            workflow="pay",
            phase="completed",
            seq=events,
            **dict.fromkeys(("created", "updated", "finished"), then),
        )
        facts = {"run": run, "kind": "step.finished", "step": "s", "data": {}, "at": then}
        Event.objects.bulk_create(Event(seq=seq + 1, **facts) for seq in range(events))
        Chunk.objects.bulk_create(Chunk(family=made, hash=str(seq), data=b"x") for seq in range(events))
    TallyMark.objects.update_or_create(pk=1, defaults={"event": last_id()})


def _remove(point: str = "", count: int = 0) -> None:
    """Remove what is old; killed after it has passed the point for so many times."""
    from django.conf import settings

    from checkpoints.database import runs as removal
    from wfdash.actions import retention

    settings.WFDASH_KEEP_RUNS = 30
    removal.FEW, retention.MOST_AT_ONCE, retention.BatchSize.LEAST = FEW, FEW, FEW
    retention.BatchSize.MOST = 2 * retention.ROWS_BESIDE + LARGE // 4
    if point:
        _arm(retention, point, count)
    remover = retention.RunRemover(retention.BatchSize(rows=retention.BatchSize.MOST))
    while not remover.remove_next().last:
        pass


def _arm(module: Any, point: str, count: int) -> None:
    plain, passed = getattr(module, point), [0]

    def then_die(*given: Any) -> Any:
        result = plain(*given)
        passed[0] += 1
        if passed[0] == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(module, point, then_die)


def _wrong() -> list[str]:
    """Return what must never be: a run without some of its rows, or one that went without an entry of the audit."""
    from django.db.models import Count

    from checkpoints.models import AuditEntry, Event, Run
    from wfdash.actions import audit

    torn = [run.pk for run in Run.objects.annotate(there=Count("events")) if run.there != run.seq]
    named = [run for entry in AuditEntry.objects.filter(verb="delete-old") for run in entry.facts["runs"]]
    twice = [run for run in set(named) if named.count(run) > 1]
    both = list(Run.objects.filter(pk__in=named).values_list("pk", flat=True))
    unsaid = (
        set(Event.objects.values_list("run", flat=True)) - set(Run.objects.values_list("pk", flat=True)) - set(named)
    )
    _, broken = audit.check_chain()
    found = {"torn": torn, "twice": twice, "both": both, "unsaid": sorted(unsaid), "broken": broken}
    return [f"{what}: {these}" for what, these in found.items() if these]


def _left() -> list[str]:
    """Return what is left although all of it was to go."""
    from checkpoints.models import Chunk, Event, Run

    tables = {"runs": Run.objects, "remains": Run.remains, "events": Event.objects, "chunks": Chunk.objects}
    return [f"{count} {name}" for name, rows in tables.items() if (count := rows.count())]
