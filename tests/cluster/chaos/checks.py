"""What must be true once everything has ended: read from the tables, the outside world, and what programs saw."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg

from tests.cluster.chaos.people import Replies
from tests.cluster.chaos.viewers import Viewer, missed
from tests.faults.checks import look
from tests.faults.ledger import read_ledger
from tests.faults.tables import Tables
from tests.faults.worlds import World

FRAME = re.compile(r"^ *[+|] ")
"""What a traceback of a group of errors draws in front of each line."""


class KeptTables(Tables):
    """Tables read over one connection: there is much to read."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._connection = psycopg.connect(where, autocommit=True)

    def _postgres(self, sql: str, parameters: tuple[Any, ...]) -> tuple[list[Any], list[str]]:
        cursor = self._connection.execute(sql, parameters)  # type: ignore[arg-type]
        return cursor.fetchall(), [column.name for column in cursor.description or ()]

    def close(self) -> None:
        """Read nothing more."""
        self._connection.close()


def faults_in(
    world: World, replies: Replies, viewers: Sequence[Viewer], problems: Iterable[str], schedule: str
) -> tuple[Counter[str], dict[str, list[str]]]:
    """Return what was looked at, and what was wrong, by kind. ``problems``: what the supervisor complains of."""
    with closing(KeptTables(world.database)) as tables:
        return _look_at(tables, world, replies, viewers, problems, schedule)


def errors_traced_in(log: str) -> list[str]:
    """Return the last line of each traceback in a log: the error. One that was cut off with its process is its end."""
    errors, inside = list[str](), False
    for line in log.splitlines():
        text = FRAME.sub("", line)
        if text.startswith(("Traceback (most recent call last)", "Exception Group Traceback")):
            errors.append(text)
            inside = True
        elif inside and not text.startswith(" "):
            errors[-1] = text
            inside = False
    return errors


def _look_at(
    tables: KeptTables,
    world: World,
    replies: Replies,
    viewers: Sequence[Viewer],
    problems: Iterable[str],
    schedule: str,
) -> tuple[Counter[str], dict[str, list[str]]]:
    findings = look(tables, world.ledger, replies.promised)
    wrong = findings.problems()
    wrong["doubled answers"] = [f"{id_}: {values}" for id_, values in replies.answers.items() if len(values) > 1]
    wrong["words misheard"] = list(misheard(world, tables, replies))
    wrong["schedule"] = list(off_schedule(tables, schedule))
    wrong["viewers"] = missed(viewers, lambda run: [(event["seq"], event["kind"]) for event in tables.events(run)])
    wrong["audit"] = altered_audit(world)
    wrong["processes"], wrong["programs"] = list(problems), replies.problems
    seen = findings.seen + Counter(
        {
            "runs followed to their end": sum(len(viewer.ended) for viewer in viewers),
            "takeovers": tables.read("SELECT count(*) AS n FROM checkpoints_event WHERE kind='run.recovered'")[0]["n"],
            "events followed": sum(len(events) for viewer in viewers for events in viewer.seen.values()),
        }
    )
    return seen, wrong


def misheard(world: World, tables: Tables, replies: Replies) -> Iterable[str]:
    """Say which run heard another answer to a question of rivals than the one that was accepted."""
    heard: dict[str, set[str]] = defaultdict(set)
    for line in read_ledger(world.ledger):
        if line.kind == "heard":
            heard[line.run].add(line.step)
    for run, words in heard.items():
        (request,) = tables.requests(run)
        accepted = replies.answers.get(request["id"], [request["value"]])
        if words != {request["value"]} or accepted != [request["value"]]:
            yield f"{run}: heard {sorted(words)}, stored {request['value']!r}, accepted {accepted}"


def off_schedule(tables: Tables, schedule: str) -> Iterable[str]:
    """Say which minutes of a schedule have no run, or two."""
    rows = tables.read("SELECT data FROM checkpoints_event WHERE kind='run.queued' AND data->>'schedule'=?", schedule)
    dues = sorted(datetime.fromisoformat(row["data"]["due"]) for row in rows)
    if not dues:
        yield "no run at all"
    for sooner, later in pairwise(dues):
        if later - sooner != timedelta(minutes=1):
            yield f"after {sooner} came {later}"


def altered_audit(world: World) -> list[str]:
    """Say what the audit's verification complains of."""
    try:
        world.run("verify")
    except AssertionError as error:
        return [str(error)]
    return []
