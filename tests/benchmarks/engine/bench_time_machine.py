"""A run of 5,000 checkpoints with nine restores in it, 10,000 events and 5,000 recorded calls: how long it takes to
list, preview, compare and look back, in milliseconds of one process on SQLite, the best of three; and what a patch of
1 MB of state costs of which one value has changed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.benchmarks.world import Report, fresh_django

CHECKPOINTS = 5_000
BAR = 500.0


def fill() -> tuple[str, list[str]]:
    """Store the run; returns its id and those of its checkpoints."""
    from django.utils import timezone

    from checkpoints import ids
    from checkpoints.content.chunks import bind_to_row
    from checkpoints.content.encoder import encode
    from checkpoints.database.runs import info_of
    from checkpoints.models import Checkpoint, Effect, Event, Run
    from checkpoints.rules import row_of
    from tests import people

    people.make_people()
    at, made = timezone.now() - timedelta(days=1), str(ids.new_run_id())
    facts: dict[str, Any] = {"workflow": "bench", "version": "v", "engine": "native"}
    run = Run.objects.create(
        id=made, family=made, **facts, phase="waiting", created=at, updated=at, n=CHECKPOINTS, seq=2 * CHECKPOINTS
    )
    rows: list[Checkpoint] = []
    for n in range(1, CHECKPOINTS + 1):
        back = n % 500 == 0 and n > 500
        row = Checkpoint(
            id=ids.new_checkpoint_id(), run=run, n=n, parent=rows[-401 if back else -1].id if rows else None, **facts,
            step=f"step_{n % 20}", reason="restore" if back else "step", created=at + timedelta(seconds=n), format=1,
            seq=2 * n,
        )  # fmt: skip
        encoded = encode({"body": {"state": {"n": n}, "position": {}}, "requests": []})
        row.body = bind_to_row(encoded.payload, row_of(info_of(row)))
        rows.append(row)
    events = [
        Event(run=run, seq=2 * row.n - 1 + place, kind=kind, step=row.step, data={"activation": str(row.n)}, at=at)
        for row in rows
        for place, kind in enumerate(("step.started", "step.finished"))
    ]
    calls = [
        Effect(run=run, key=str(row.n), step=str(row.step), name="do", state="done", n=row.n, at=at) for row in rows
    ]
    for model, found in ((Checkpoint, rows), (Event, events), (Effect, calls)):
        model.objects.bulk_create(found, batch_size=500)  # type: ignore[attr-defined]
    return made, [row.id for row in rows]


def best(look: Callable[[], Any]) -> float:
    """Return the shortest of three tries, in milliseconds."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        look()
        took.append(1000 * (time.perf_counter() - began))
    return min(took)


def measure() -> int:
    """Fill the database and look at it."""
    from tests.people import viewer
    from wfdash.domain.json_patch import make
    from wfdash.queries.checkpoints.compare import compare_checkpoints
    from wfdash.queries.checkpoints.preview import read_preview
    from wfdash.queries.history import read_checkpoints
    from wfdash.queries.runs.values import read_replay

    (run, made), otto = fill(), viewer("otto")
    report = Report(f"{CHECKPOINTS} checkpoints, {2 * CHECKPOINTS} events")
    report.at_most("fifty checkpoints of the tree", best(lambda: read_checkpoints(otto, run)), BAR)
    report.at_most("preview of a restore, half way", best(lambda: read_preview(otto, run, made[2600])), BAR)
    report.at_most("preview of a fork, the first", best(lambda: read_preview(otto, run, made[0], verb="fork")), BAR)
    report.at_most("the run at event 5,000", best(lambda: read_replay(otto, run, 5_000)), BAR)
    report.at_most("the first compared with the last", best(lambda: compare_checkpoints(otto, run, "1", "5000")), BAR)
    state = {"claims": [{"id": n, "note": "x" * 80, "amount": n * 1.5} for n in range(9_000)]}
    changed = json.loads(json.dumps(state))
    changed["claims"][5_000]["note"] = "y"
    report.at_most("a patch of 1 MB, one value changed", best(lambda: make(state, changed)), BAR)
    return report.show()


def main() -> int:
    """Measure in a data directory of its own."""
    with fresh_django():
        return measure()


if __name__ == "__main__":
    sys.exit(main())
