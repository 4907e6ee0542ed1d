"""Schedules with a backlog, and processes that start its runs beside each other: plays, see ``plays``."""

from __future__ import annotations

from datetime import timedelta


def plan(schedules: int, minutes: int, ledger: str) -> list[str]:
    """Make schedules that were due every minute for so long, all to be made up for; returns their ids."""
    from checkpoints.database.clock import database_now
    from checkpoints.models import Schedule
    from tests.faults.plays import admin
    from wfdash.actions.schedules import SchedulePlan, create_schedule
    from wfdash.domain.cron import parse

    message = {"number": 1, "ledger": ledger}
    (due,) = parse("* * * * *").until(database_now() - timedelta(minutes=minutes))
    made = []
    for n in range(schedules):
        wanted = SchedulePlan(name=f"s{n}", cron="* * * * *", message=message, missed="all")
        made.append(create_schedule(admin(), "chain", wanted).pk)
    Schedule.objects.update(next_at=due)
    return made


def sweep() -> int:
    """Start what is due until nothing is; returns how many times schedules were moved on here."""
    from checkpoints.database.clock import database_now
    from wfdash.actions.schedules import fire_schedules, next_firing

    moved = 0
    while (soonest := next_firing()) is not None and soonest <= database_now():
        moved += fire_schedules()
    return moved
