"""The long form of the smaller attacks: freezing, pruning, flipping bytes, full disks, wrong clocks."""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.faults.clocks.clocks import HOUR, jump_the_server
from tests.faults.clocks.lies import LIBRARIES, NO_LIBRARY, set_clock
from tests.faults.concurrency.sleepers import freeze_and_wake
from tests.faults.corruption.flips import flip_chunks, flip_pages, flip_rows
from tests.faults.crashes.chaos import kill_workers
from tests.faults.outages.disks import SQLITE_MB, fill_and_free, postgres_on_a_small_disk, small_disk, why_no_disk
from tests.faults.outages.outages import check_rows, check_whole
from tests.faults.report import explain, found, say, tell
from tests.faults.servers import Postgres
from tests.faults.worlds import World

Worlds = Callable[[str], World]
PAGE = 4096


def freeze(options: argparse.Namespace, world: Worlds, postgres: Postgres) -> int:
    """SIGSTOP anywhere, in transactions too, for longer than the lease."""
    rounds = 200 if options.long else 20
    seen, wrong = freeze_and_wake(world(postgres.new_database()), rounds=rounds, seed=options.seed)
    explain(wrong)
    steps = Counter(runs=1, steps=seen["commits"])
    return say("worker frozen beyond its lease, then woken", "PostgreSQL", f"{rounds} rounds", steps, len(wrong))


def prune(options: argparse.Namespace, world: Worlds, postgres: Postgres) -> int:
    """Prune a family of runs while it grows."""
    total, steps = 0, 240 if options.long else 48
    for name, url in (("SQLite", ""), ("PostgreSQL", postgres.new_database())):
        told = world(url).play("concurrency.gardeners.prune_beside", steps=steps, seed=options.seed)
        explain(told["wrong"])
        seen = Counter(runs=told["seen"]["runs"])
        often = f"{told['seen']['pruned']} pruned"
        total += say("pruning beside commits and forks", name, often, seen, len(told["wrong"]))
    return total


def flip(options: argparse.Namespace, world: Worlds, postgres: Postgres) -> int:
    """Flip bits of rows, bytes of chunks and bytes of the file."""
    total, dice, long = 0, random.Random(options.seed), options.long
    with tempfile.TemporaryDirectory() as folder:
        for name, flips in {
            "a bit of every byte of two rows": flip_rows(Path(folder) / "rows", dice, bits=8 if long else 1),
            "a byte of 180 KB of content": flip_chunks(Path(folder) / "chunks", dice, flips=1000 if long else 200),
            "a byte of the page in the file": flip_pages(Path(folder) / "pages", dice, flips=PAGE if long else 100),
        }.items():
            seen, wrong = asyncio.run(flips)
            explain(wrong)
            often = f"{seen.total()} flips, {seen['said']} mattered"
            total += say(f"{name} changed", "SQLite", often, Counter(runs=1), len(wrong))
    return total


def fill_disks(options: argparse.Namespace, world: Worlds, postgres: Postgres) -> int:
    """Fill a small filesystem below each database."""
    if reason := why_no_disk():
        print(f"left out, full disks: {reason}")
        return 0
    total, times = 0, 3 if options.long else 1
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder) / "data", SQLITE_MB) as disk:
            findings, refusals = fill_and_free(World(Path(folder)), disk, whole=check_whole)
        total += found("disk full, then free", "SQLite", f"{len(refusals)} refusals", findings, strange(refusals))
        with tempfile.TemporaryDirectory() as folder, postgres_on_a_small_disk() as (small, disk):
            site = World(Path(folder), database=small.new_database())
            findings, refusals = fill_and_free(site, disk, whole=check_rows)
        total += found("disk full, then free", "PostgreSQL", f"{len(refusals)} refusals", findings, strange(refusals))
    return total


def strange(refusals: list[str]) -> list[str]:
    """Return what a door said that was no refusal for now."""
    return [refusal for refusal in refusals if ": 503" not in refusal] or ([] if refusals else ["nothing was refused"])


def shift_clocks(options: argparse.Namespace, world: Worlds, postgres: Postgres) -> int:
    """Let the clock of the only machine jump; let workers with clocks an hour apart be killed."""
    if not LIBRARIES:
        print(f"left out, wrong clocks: {NO_LIBRARY}")
        return 0
    jumps, kills = (100, 60) if options.long else (20, 10)
    findings, complaints = jump_the_server(world(""), jumps=jumps, seed=options.seed)
    total = found("the machine's clock jumps by 1 to 2 h", "SQLite", f"{jumps} jumps", findings, complaints)
    site = world(postgres.new_database())
    clocks = [site.data.with_name(f"clock-{place}") for place in range(3)]
    for clock, wrong in zip(clocks, (-HOUR, 0, HOUR), strict=True):
        set_clock(clock, wrong)
    report = kill_workers(site, kills=kills, seed=options.seed, workers=3, wanted=12, clocks=clocks)
    return total + tell("one of three workers killed, clocks at -1 h, 0, +1 h", report)
