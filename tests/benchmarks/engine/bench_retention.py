"""Removal of old runs: rows a second, how long answers wait beside it, and what the files weigh before and after.

``python -m tests.benchmarks.engine.bench_retention [--runs 200000] [--database sqlite|postgres] [--archive]``
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.benchmarks.world import Report, percentile, set_django_up

EVENTS, CHECKPOINTS, FACTS, EFFECTS = 10, 3, 4, 2
RUNS_AN_ANSWER = 8
"""For so many old runs there is a request to answer beside the removal, so that answers last as long as it does."""
LEAST_ANSWERS = 1_500
PAUSE = 0.02
"""Seconds between two answers."""
TELL_SECONDS = 10
"""How often the benchmark says how far it is."""
QUIET = 200
BODY = "0" * 40 + " " + '{"body":{"state":{"text":"' + "x" * 800 + '"}},"requests":[]}'


def fill(connection: Any, runs: int) -> None:
    """Store runs that ended, one after another, from a year to a hundred days ago, with all that hangs on them."""
    postgres, spaced = connection.vendor == "postgresql", (365 - 100) * 86_400 / runs
    if postgres:
        series, run = f"generate_series(0::bigint, {runs - 1}) AS g(i)", "'r' || lpad(i::text, 9, '0')"
        at, json, many = f"now() - interval '365 days' + i * interval '{spaced} seconds'", "::json", "AS v(column1)"
    else:
        series = (
            f"(WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {runs - 1}) SELECT i FROM n)"
        )
        run, json, many = "printf('r%09d', i)", "", "AS v"
        at = f"strftime('%Y-%m-%d %H:%M:%f', 'now', '-365 days', printf('+%.3f seconds', i * {spaced}))"
    with connection.cursor() as cursor:
        for table, (times, columns) in rows_of(run, at, json, "true" if postgres else "1").items():
            each = ", ".join(f"({number})" for number in range(1, times + 1))
            names, values = ", ".join(f'"{name}"' for name in columns), ", ".join(columns.values())
            made = f"SELECT {values} FROM {series}, (VALUES {each}) {many}"
            cursor.execute(f"INSERT INTO checkpoints_{table} ({names}) {made}")
        if postgres:
            cursor.execute("VACUUM ANALYZE")


def rows_of(run: str, at: str, json: str, true: str) -> dict[str, tuple[int, dict[str, str]]]:
    """Return of each table how many rows a run has, and their columns as SQL."""
    request, none = f"{run} || '-q'", f"'{{}}'{json}"
    empty = {"policy": none, "card": none, "answer_schema": none, "by": f"'[]'{json}", "not_by": f"'[]'{json}"}
    step = {"workflow": "'refund'", "version": "'v'", "engine": "'native'"}
    times = dict.fromkeys(("created", "updated", "finished"), at)
    counts = {"seq": str(EVENTS), "n": str(CHECKPOINTS), "epoch": "1", "attempts": "0"}
    texts = {"title": "'Refund'", "phase": "'completed'", "acted_by": "''", "input": none, "output": none}
    closed = {"answered": at, "closed": at, "closed_as": "'taken'", "risk": "0", "stuck": "''", "created": at}
    told = {"kind": "'opened'", "channel": "'mail'", "target": "''", "payload": none, "attempts": "1", "error": "''"}
    said = {"via": "'page'", "right": "''", "acting_for": "''", "stands": "'approved'", "reason": "''", "seen": "''"}
    saved = {"reason": "'step'", "format": "1", "size": "800", "clean": true, "flaw": "''", "waiting": "0"}
    call = {
        "key": "'e:' || column1",
        "name": "'pay'",
        "once": f"NOT {true}",
        "state": "'done'",
        "result": none,
        "n": "1",
    }
    keyed = {"run_id": run, "seq": "column1", "step": "'s'"}
    decided = {"request_id": request, "value": f"'true'{json}", "verdict": "'approve'", "at": at}
    body = {"id": f"{run} || '-' || column1", "run_id": run, "n": "column1", "seq": "column1", "body": f"'{BODY}'"}
    event = {"kind": "'step.finished'", "data": f'\'{{"activation":"a","ms":0.03}}\'{json}', "at": at}
    asked = {"id": request, "run_id": run, "key": "'q:0'", "workflow": "'refund'", "step": "'s'", "kind": "'approval'"}
    sent = {"id": f"{run} || '-o'", "request_id": request, "created": at, "due": at, "sent": at}
    return {
        "run": (1, {"id": run, "family": run, **step, **times, **counts, **texts}),
        "event": (EVENTS, {**keyed, **event}),
        "checkpoint": (CHECKPOINTS, {**body, **step, "step": "'s'", "created": at, **saved}),
        "humanrequest": (1, {**asked, **empty, **closed}),
        "answer": (1, decided),
        "reply": (1, {"id": f"{run} || '-p'", **decided, **said}),
        "notice": (1, {**sent, **told}),
        "effect": (EFFECTS, {"run_id": run, "step": "'s'", "at": at, **call}),
        "runfact": (FACTS, {"run_id": run, "name": "'word'", "text": "'w' || column1", "created": at}),
    }


def count_all() -> None:
    """Let statistics and webhooks have read everything."""
    from checkpoints.database.high_water_mark import last_id
    from checkpoints.models import TallyMark

    for mark in (1, 2):
        TallyMark.objects.update_or_create(pk=mark, defaults={"event": last_id()})


def open_requests(count: int) -> tuple[Any, list[str]]:
    """Return someone who may answer, and the ids of so many open requests."""
    from django.utils import timezone

    from checkpoints import ids
    from checkpoints.models import Grant, HumanRequest, Run
    from checkpoints.models.user_model import User
    from wfdash.access.viewer import viewer_for

    user = User.objects.create_user("otto")
    Grant.objects.create(user=user, role="operator", workflow="*")
    now = timezone.now()
    runs = [
        Run(id=(made := ids.new_run_id()), family=made, workflow="refund", phase="waiting", created=now, updated=now)
        for _ in range(count)
    ]
    Run.objects.bulk_create(runs)
    asked: dict[str, Any] = {
        "workflow": "refund",
        "step": "s",
        "kind": "approval",
        "answer_schema": {"type": "boolean"},
    }
    requests = [HumanRequest(id=ids.new_request_id(), run=run, key="q", created=now, **asked) for run in runs]
    HumanRequest.objects.bulk_create(requests)
    return viewer_for(user), [request.pk for request in requests]


def answer_all(viewer: Any, requests: list[str], times: list[float], stop: threading.Event | None = None) -> None:
    """Answer them, one after another with pauses, and note how long each took."""
    from django.db import connections

    from wfdash.actions.requests.answer import answer_request

    for request in requests:
        if stop is not None and stop.is_set():
            break
        began = time.perf_counter()
        answer_request(viewer, request, True)
        times.append(time.perf_counter() - began)
        time.sleep(PAUSE)
    connections.close_all()


def say(text: str) -> None:
    """Say how far the benchmark is, beside its table."""
    print(text, file=sys.stderr, flush=True)


def weigh(connection: Any, path: Path) -> str:
    """Return what the database weighs, and how much of that is free to be used again."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_database_size(current_database())")
            return f"{cursor.fetchone()[0] / 1e6:,.0f} MB"
        cursor.execute("PRAGMA page_size")
        (page,) = cursor.fetchone()
        cursor.execute("PRAGMA freelist_count")
        (free,) = cursor.fetchone()
    return f"{path.stat().st_size / 1e6:,.0f} MB, of which {free * page / 1e6:,.0f} MB are free"


def remove_all(report: Report, count: int) -> None:
    """Remove every old run, so many, as a worker does, and note the figures."""
    from wfdash.actions.pacing import rest_after
    from wfdash.actions.retention import RunRemover

    old, began, runs, rows, longest = RunRemover(), time.perf_counter(), 0, 0, list[float]()
    told = began
    while not (batch := old.remove_next()).last:
        runs, rows = runs + len(batch.runs), rows + batch.rows
        longest.append(batch.seconds)
        if (now := time.perf_counter()) - told >= TELL_SECONDS:
            told = now
            say(f"{runs:,} of {count:,} runs removed after {now - began:,.0f} s")
        time.sleep(rest_after(batch.seconds))
    took = time.perf_counter() - began
    report.note("runs, rows removed", f"{runs:,}, {rows:,}")
    report.note("a second", f"{runs / took:,.0f} runs, {rows / took:,.0f} rows, in {took:,.0f} s")
    report.note("batches", f"{len(longest):,} of {runs / max(len(longest), 1):.0f} runs")
    for part in (0.5, 0.99, 1.0):
        report.note(f"transaction p{part * 100:g}", f"{percentile(longest, part) * 1000:.1f} ms")


def main() -> int:
    """Fill a database, remove it all beside answers, and print what that took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--archive", action="store_true")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wfdash-bench-")))
        os.environ.pop("WFDASH_DATABASE", None)
        if options.archive:
            os.environ["WFDASH_ARCHIVE"] = str(folder)
        if options.database == "postgres":
            from tests.faults.servers import Postgres

            server = Postgres()
            stack.callback(server.cleanup)
            os.environ["WFDASH_DATABASE"] = server.new_database()
        set_django_up(WFDASH_DATA=str(folder), WFDASH_KEEP_RUNS="90")
        from django.db import connection

        report = Report(f"{options.runs:,} old runs, {options.database}")
        say(f"Storing {options.runs:,} runs")
        fill(connection, options.runs)
        viewer, requests = open_requests(QUIET + max(LEAST_ANSWERS, options.runs // RUNS_AN_ANSWER))
        count_all()
        path = folder / "wfdash.sqlite3"
        report.note("size before", weigh(connection, path))
        quiet, beside, stop = list[float](), list[float](), threading.Event()
        answer_all(viewer, requests[:QUIET], quiet)
        answering = threading.Thread(target=answer_all, args=(viewer, requests[QUIET:], beside, stop))
        answering.start()
        remove_all(report, options.runs)
        stop.set()
        answering.join()
        report.note("size after", weigh(connection, path))
        for name, times in (("quiet", quiet), ("beside the removal", beside)):
            figures = ", ".join(f"{percentile(times, part) * 1000:.1f}" for part in (0.5, 0.99, 1.0))
            report.note(f"an answer, {name}: p50, p99, longest", f"{figures} ms of {len(times)}")
        return report.show()


if __name__ == "__main__":
    raise SystemExit(main())
