"""A step's commit as one statement: it writes the run's counters, checkpoint and events, or nothing at all.

So it needs no transaction around it, and no answer before it is committed: one round trip instead of three. Each part
takes what it needs (the numbers of the events) from the one before, and the first is the fence: where the run has a
later epoch, or its claim is gone or must be extended, nothing follows. Then the script continues with its ordinary
batches, which say what is wrong.

The claim is looked at once the run's row is locked: it may expire while another transaction has that row.
"""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter

from checkpoints.sql.statements import Dialect, Statement
from checkpoints.sql.tables import CHECKPOINT, EVENT, INFO

KNOWN = tuple(name for name in (*INFO, "body") if name != "seq")
"""What is known of a checkpoint's row before its commit: all but the number of its last event."""
KNOWN_VALUES = itemgetter(*KNOWN)


class WholeBatch(list[Statement]):
    """A batch of one statement that writes all of a commit and returns a row, or writes nothing and returns none.

    It also writes nothing where it breaks a constraint; that counts as no row.
    """


@lru_cache(maxsize=64)
def write_step(dialect: Dialect, events: int) -> str:
    """Return the statement that writes a step with so many events, and returns the number of the last one.

    Parameters: the run, its epoch, the seconds for which its claim must be good at least, the claim's token, the number
    of events, n twice; then ``KNOWN_VALUES`` of the checkpoint; then kind, step and data of each event.
    """
    fence = "SELECT id FROM checkpoints_run WHERE id=? AND epoch=?{lock}"
    fresh = "SELECT expires > {later} FROM checkpoints_claim c WHERE c.run_id=fence.id AND c.token=?"
    moved = (
        "UPDATE checkpoints_run r SET seq=r.seq+?, n=CASE WHEN r.n<? THEN ? ELSE r.n END, attempts=0, updated={now}"
        " FROM held WHERE r.id=held.id RETURNING r.id, r.seq"
    )
    columns = ", ".join(f'"{name}"' for name in CHECKPOINT)
    values = ", ".join("moved.seq" if name == "seq" else "?" for name in CHECKPOINT)
    parts = [
        f"fence AS MATERIALIZED ({fence})",
        f"held AS MATERIALIZED (SELECT id FROM fence WHERE ({fresh}))",
        f"moved AS ({moved})",
        f"kept AS (INSERT INTO checkpoints_checkpoint ({columns}) SELECT {values} FROM moved)",
    ]
    if events:
        row = "CAST(? AS varchar), CAST(? AS varchar), CAST(? AS json)"
        rows = ", ".join(f"({before}, {row})" for before in reversed(range(events)))
        parts.append(
            f"said AS (INSERT INTO checkpoints_event ({', '.join(EVENT)}, at)"
            " SELECT moved.id, moved.seq - e.before, e.kind, e.step, e.data, {now}"
            f" FROM moved, (VALUES {rows}) AS e (before, kind, step, data) ORDER BY 2)"
        )
    return dialect.sql(f"WITH {', '.join(parts)} SELECT seq FROM moved")
