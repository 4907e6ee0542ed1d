"""What an activation of a step got as its input."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from checkpoints.database.runs import read_row
from checkpoints.errors import CheckpointsError
from checkpoints.events import EventKind
from checkpoints.models import Checkpoint
from checkpoints.records import Event, Json
from wfdash.queries.history.step_outcomes import StepTransition
from wfdash.timemachine.restore_point import secrets_of
from wfdash.timemachine.shown import NotShown, unmasked_of

PRUNED = "Its checkpoint was pruned or cannot be read."
UNKNOWN = "Its checkpoint was pruned, or its engine does not keep it."


@dataclass(frozen=True, kw_only=True)
class StepInput:
    """An activation's input, not masked. ``secrets``: the names of the fields to hide in it.

    ``source``: the number of its checkpoint, 0 for that of an event. ``note`` says why there is none.
    """

    value: Json = None
    source: int = 0
    note: str = ""
    secrets: frozenset[str] = frozenset()


def input_of(first: StepTransition, activation: str, events: Iterable[Event], secrets: frozenset[str]) -> StepInput:
    """Return the input that the event of an activation's start has, else that of the checkpoint written then.

    ``first``: the activation's start; ``events``: its events; ``secrets``: of its workflow.
    """
    started = next((event for event in events if event.kind == EventKind.STEP_STARTED), None)
    if started is not None and "input" in started.data:
        return StepInput(value=started.data["input"], secrets=secrets)
    rows = Checkpoint.objects.filter(run_id=first.run, seq__gte=first.seq)
    row = rows.select_related("run").order_by("n").first()
    try:
        record = read_row(row) if row is not None else None
        inputs = unmasked_of(record).inputs if record is not None else {}
    except CheckpointsError:
        record = None
    except NotShown as error:
        return StepInput(note=str(error), secrets=secrets)
    if record is None:
        return StepInput(note=PRUNED, secrets=secrets)
    secrets |= secrets_of(record)
    if activation not in inputs:
        return StepInput(note=UNKNOWN, secrets=secrets)
    return StepInput(value=inputs[activation], source=record.n, secrets=secrets)
