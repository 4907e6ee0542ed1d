"""A chain of durable steps with 1 KB of state on PostgreSQL: one run at a time, and 50 runs at once in one process.

Measured against the floor (bare ``psycopg``: the rows of such a step in one transaction and one pipeline, on one
connection) and, where they are installed, against LangGraph's PostgreSQL savers and DBOS, on the same server.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import psycopg

from checkpoints.ids import new_checkpoint_id, new_run_id
from tests.benchmarks.engine.bench_chain import AT_ONCE, Bar, Round, ask, build_chain, measure_runs, middle, show
from tests.benchmarks.peers.peer import Figures, Peer
from tests.benchmarks.world import set_django_up
from tests.faults.servers import Postgres

STEPS = {1: 100, AT_ONCE: 20}
"""Steps of a run, by runs at once: LangGraph's savers need half a minute for 50 times 100."""
BARS = {1: Bar(rate=2.1), AT_ONCE: Bar(rate=6.0)}
ROUNDS = 3
COMMITS = 300

RUN = """INSERT INTO checkpoints_run (id, workflow, version, engine, title, phase, seq, n, epoch, attempts, family,
    acted_by, created, updated) VALUES (%s,'w','v','native','','ready',0,0,0,0,%s,'',now(),now())"""
MOVE = "UPDATE checkpoints_run SET seq=seq+2, n=n+1, updated=now() WHERE id=%s AND n=%s RETURNING seq"
KEEP = """INSERT INTO checkpoints_checkpoint (id, run_id, n, workflow, version, engine, step, reason, created, format,
    size, clean, seq, flaw, waiting, body) VALUES (%s,%s,%s,'w','v','native','s','step',now(),1,1200,true,%s,'',0,%s)"""
ROW = "(%s,%s,'step.finished','s',%s,now())"
TELL = f"INSERT INTO checkpoints_event (run_id, seq, kind, step, data, at) VALUES {ROW},{ROW}"
TEXT = "0" * 40 + " " + "x" * 1200
DATA = '{"activation":"a","ms":0.03}'


def floor_rate(url: str) -> float:
    """Return commits per second of bare ``psycopg``, one after another."""
    run = str(new_run_id())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(RUN, (run, run))
        started = time.perf_counter()
        for n in range(COMMITS):
            with connection.pipeline():
                connection.execute("BEGIN")
                connection.execute(MOVE, (run, n))
                connection.execute(KEEP, (str(new_checkpoint_id()), run, n + 1, 2 * n + 2, TEXT))
                connection.execute(TELL, (run, 2 * n + 1, DATA, run, 2 * n + 2, DATA))
                connection.execute("COMMIT")
        return COMMITS / (time.perf_counter() - started)


async def our_figures(storage: Any, runs: int) -> Figures:
    """Return the figures of so many runs at once; processor time is that of this process alone."""
    return await measure_runs(build_chain(STEPS[runs]), storage, STEPS[runs], runs)


async def measure(url: str, peers: list[Peer]) -> dict[int, list[Round]]:
    """Measure wfdash, the floor and the peers in turns; returns runs at once -> rounds."""
    from checkpoints.database.storage import DatabaseStorage

    storage = DatabaseStorage()
    rounds: dict[int, list[Round]] = {1: [], AT_ONCE: []}
    try:
        for runs in rounds:
            await our_figures(storage, runs)
        for _ in range(ROUNDS):
            for runs, found in rounds.items():
                ours = middle([await our_figures(storage, runs) for _ in range(5 if runs == 1 else 3)])
                found.append(Round(ours=ours, floor=floor_rate(url), peers=ask(peers, STEPS[runs], runs)))
    finally:
        await storage.aclose()
    return rounds


def main() -> int:
    """Measure and print."""
    server = Postgres()
    try:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            url = server.new_database()
            set_django_up(WFDASH_DATABASE=url, WFDASH_DATA=folder)
            # SQLAlchemy reads a URL with its socket's folder quoted.
            start, _, host = server.new_database().partition("?host=")
            names = (("langgraph_postgres", server.new_database()), ("dbos", f"{start}?host={quote(host, safe='')}"))
            peers = [stack.enter_context(Peer(name, other)) for name, other in names]
            rounds = asyncio.run(measure(url, peers))
    finally:
        server.cleanup()
    return show("chain of durable steps, 1 KB of state, PostgreSQL", rounds, BARS)


if __name__ == "__main__":
    sys.exit(main())
