"""Random kills: a server (SQLite) or two workers (PostgreSQL) die by SIGKILL at random instants, again and again."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.server import wait_until
from tests.faults.checks import Findings, look
from tests.faults.crashes.people import Client
from tests.faults.ledger import read_facts
from tests.faults.worlds import World

SETTLE_SECONDS = 90.0
DRIVING = 0.7
"""The share of kills that wait for a run to be held: a kill between runs is random, too, but proves little."""
BUSY_SECONDS = 3.0
AIM = 0.3
"""Seconds within which such a kill comes then. At once, again and again, no run would ever get to a commit: after five
take-overs without one it fails, as it must."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a chaos run did and found."""

    database: str
    kills: int
    seconds: float
    lost_replies: int
    findings: Findings
    complaints: list[str]


def kill_server(world: World, *, kills: int, seed: int, runs: int = 0, wanted: int = 6) -> Report:
    """Kill ``wfdash up`` at random instants of its life, its first seconds included; start at least ``runs`` runs."""
    dice, began = random.Random(seed), time.monotonic()
    server = world.server()
    server.start()
    client = Client(server, world.tables(), world.ledger, wanted=wanted)
    client.start()
    try:
        for _ in range(kills):
            time.sleep(dice.uniform(0.3, 2.2))
            if dice.random() < DRIVING:
                _held(world, dice)
            server.kill()
            server.launch()
        wait_until(lambda: len(client.starts) >= runs, seconds=SETTLE_SECONDS, what="enough runs")
        _settle(world, client)
    finally:
        client.finish()
        server.kill()
    return _report(world, client, kills, began)


def kill_workers(
    world: World,
    *,
    kills: int,
    seed: int,
    workers: int = 2,
    wanted: int = 6,
    commits: int = 0,
    clocks: Sequence[Path] = (),
) -> Report:
    """Kill one of several ``manage.py work`` at a time; the others take its runs over.

    Runs are started until so many commits were noted, however slow the machine is. ``clocks``: the file of each
    worker's clock, by default its machine's.
    """
    dice, began = random.Random(seed), time.monotonic()
    server = world.server()
    server.start()
    lies = dict(enumerate(clocks))
    crew = [world.worker(str(place), clock=lies.get(place)).start() for place in range(workers)]
    client = Client(server, world.tables(), world.ledger, wanted=wanted)
    client.start()
    try:
        for _ in range(kills):
            time.sleep(dice.uniform(0.3, 1.8))
            held = _held(world, dice) if dice.random() < DRIVING else set()
            victim = dice.choice([worker for worker in crew if str(worker.pid) in held] or crew)
            victim.kill()
            victim.start()
        wait_until(lambda: len(read_facts(world.commits)) > commits, seconds=SETTLE_SECONDS, what="enough commits")
        _settle(world, client)
    finally:
        client.finish()
        for worker in crew:
            worker.kill()
        server.kill()
    return _report(world, client, kills, began)


def _held(world: World, dice: random.Random) -> set[str]:
    """Wait a moment for someone to hold a run, and another; return the process ids of those who do."""
    tables, end = world.tables(), time.monotonic() + BUSY_SECONDS
    while not (claims := tables.claims()) and time.monotonic() < end:
        time.sleep(0.002)
    time.sleep(dice.uniform(0, AIM))
    return {pid for claim in claims for pid in str(claim["worker"]).split(":")[-3:-2]}


def _settle(world: World, client: Client) -> None:
    """Start no further run; wait until every run has ended and no one holds one."""
    client.start_no_more()
    tables = world.tables()

    def ended() -> bool:
        return tables.count("'completed','failed','cancelled'") == len(tables.runs()) and not tables.claims()

    try:
        wait_until(ended, seconds=SETTLE_SECONDS, what="the end of every run")
    except AssertionError as error:
        client.problems.append(str(error))


def _report(world: World, client: Client, kills: int, began: float) -> Report:
    findings = look(world.tables(), world.ledger, client.promised, world.commits)
    return Report(
        database="PostgreSQL" if world.database else "SQLite",
        kills=kills,
        seconds=time.monotonic() - began,
        lost_replies=client.lost_replies,
        findings=findings,
        complaints=client.problems,
    )
