"""Whether everything that was due has happened.

For monitoring, not for a person: these reads return counts and ages, and nothing of any workflow.
"""

from __future__ import annotations

from datetime import datetime

from checkpoints.database import clock
from checkpoints.database.compiled import FirstValues

_oldest = FirstValues(
    deadlines=clock.ALARMS.values_list("alarm"),
    answers=clock.SETTLING.values_list("settles"),
    naps=clock.SLEEPING.values_list("wake_at"),
    schedules=clock.SCHEDULES.values_list("next_at"),
)


def lateness(now: datetime) -> dict[str, float]:
    """Return what is overdue: ``deadlines``, ``answers``, ``naps``, ``schedules`` -> seconds of the oldest (1 query).

    ``naps`` are sleeping runs. Each is one index look-up. ``now``: the database's time.
    """
    oldest = _oldest.read()[1]
    return {name: (now - at).total_seconds() for name, at in oldest.items() if at < now}
