"""The progress of a run: what its running steps report, and how many items of a map are done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Case, Count, Exists, OuterRef, Q, Subquery, When
from django.db.models.fields.json import KT

from checkpoints.events import EventKind
from checkpoints.models import Event
from checkpoints.records import Json, Phase

LOOKBACK = 200
"""Progress is searched among a run's last events only, so that a list stays fast however long a run is."""
OF_STEPS = (
    *(EventKind.STEP_FINISHED, EventKind.STEP_FAILED, EventKind.STEP_RETRYING),
    *(EventKind.STEP_WAITING, EventKind.STEP_SLEEPING),
)
OF_RUNS = (
    *(EventKind.RUN_PAUSED, EventKind.RUN_RESUMED, EventKind.RUN_RETRIED),
    *(EventKind.RUN_RESTORED, EventKind.RUN_RECOVERED, EventKind.RUN_CANCELLED),
)


def latest_progress(column: str) -> Case:
    """Return a column with the last progress report of a step that still runs, for a query of runs; else null.

    It ends with its step, and with everything that makes the run restart its steps.
    """
    same = Event.objects.filter(run=OuterRef("run_id"), seq__gt=OuterRef("seq")).annotate(act=KT("data__activation"))
    over = same.filter(Q(kind__in=OF_STEPS, act=OuterRef("act")) | Q(kind__in=OF_RUNS))
    lately = Event.objects.filter(run=OuterRef("pk"), seq__gt=OuterRef("seq") - LOOKBACK, kind=EventKind.PROGRESS)
    going = lately.annotate(act=KT("data__activation")).filter(~Exists(over)).order_by("-seq")
    return Case(When(phase=Phase.READY, then=Subquery(going.values(column)[:1])))


def progress_of(found: Iterable[tuple[str, str | None, Mapping[str, Any], bool]]) -> dict[str, dict[str, Json]]:
    """Return run id -> its progress, of (id, step, what the step reported, whether the viewer may inspect values).

    ``{"fraction", "text"}``; without the text for people who may not inspect. Reports of a map's items are not used:
    the items done are counted (one query, if there are any).
    """
    latest: dict[str, dict[str, Json]] = {}
    maps: dict[str, str] = {}
    for run, step, data, inspect in found:
        if data and "item" in data:
            maps[run] = step or ""
        elif data:
            shown = ("fraction", "text") if inspect else ("fraction",)
            latest[run] = {name: data[name] for name in shown if name in data}
    done = _items_done(maps) if maps else {}
    return latest | {
        run: {"fraction": None, "text": _item_count(done.get((run, step), 0))} for run, step in maps.items()
    }


def _items_done(maps: Mapping[str, str]) -> dict[tuple[str, str], int]:
    """Return (run, step) -> how many items of the map that the step is in have ended there."""
    ends = Event.objects.filter(run_id__in=list(maps), step__in=set(maps.values()), kind=EventKind.STEP_FINISHED)
    items = ends.annotate(item=KT("data__item")).filter(item__isnull=False)
    counted = items.order_by().values_list("run_id", "step").annotate(n=Count("item", distinct=True))
    return {(run, step): n for run, step, n in counted}


def _item_count(number: int) -> str:
    return f"{number} item{'' if number == 1 else 's'} done"
