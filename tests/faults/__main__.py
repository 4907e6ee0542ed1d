"""The long form: ``python -m tests.faults --long``. Prints a table of docs/internals/reliability.md; 1 if wrong.

Without ``--long`` it does a tenth. ``--kills``, ``--worker-kills``, ``--rounds`` and ``--only`` say how much of what,
``--seed`` with which dice.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults import longer
from tests.faults.checks import look
from tests.faults.crashes.chaos import kill_server, kill_workers
from tests.faults.crashes.test_failpoints import promised_in
from tests.faults.report import HEAD, say, tell
from tests.faults.servers import Postgres
from tests.faults.worlds import World


def main() -> int:
    options = parse()
    print(f"seed {options.seed}\n\n{HEAD}", flush=True)
    began, wrong = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        postgres = Postgres()
        try:
            for place, name in enumerate(options.only):
                wrong += ATTACKS[name](options, worlds(folder, place), postgres)
        finally:
            postgres.cleanup()
    print(f"\n{wrong} wrong, {time.monotonic() - began:.0f} s", flush=True)
    return 1 if wrong else 0


def parse() -> argparse.Namespace:
    """Return how much to do."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--long", action="store_true", help="1,000 kills instead of a tenth of it")
    parser.add_argument("--kills", type=int, help="of the server (SQLite)")
    parser.add_argument("--worker-kills", type=int, help="of one of three workers (PostgreSQL)")
    parser.add_argument("--rounds", type=int, help="of two answers at once, on each database")
    parser.add_argument("--only", nargs="+", choices=ATTACKS, default=list(ATTACKS), help="these attacks")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    share = 1.0 if options.long else 0.1
    options.kills = int(700 * share) if options.kills is None else options.kills
    options.worker_kills = int(300 * share) if options.worker_kills is None else options.worker_kills
    options.rounds = int(1000 * share) if options.rounds is None else options.rounds
    return options


def worlds(folder: str, place: int) -> Callable[[str], World]:
    """Return what makes the worlds of one attack: a database's URL in, SQLite if empty."""
    return lambda url: World(make(folder, f"{place}-{'postgres' if url else 'sqlite'}"), database=url)


def make(folder: str, name: str) -> Path:
    path = Path(folder) / name
    path.mkdir(mode=0o755)
    return path


def kill_the_server(options: argparse.Namespace, world: Callable[[str], World], postgres: Postgres) -> int:
    """SIGKILL of ``wfdash up``."""
    if not options.kills:
        return 0
    return tell("server killed at random", kill_server(world(""), kills=options.kills, seed=options.seed, wanted=8))


def kill_the_workers(options: argparse.Namespace, world: Callable[[str], World], postgres: Postgres) -> int:
    """SIGKILL of one of three ``manage.py work``."""
    if not options.worker_kills:
        return 0
    given = {"kills": options.worker_kills, "seed": options.seed, "workers": 3, "wanted": 12}
    return tell("one of three workers killed at random", kill_workers(world(postgres.new_database()), **given))


def die_everywhere(options: argparse.Namespace, world: Callable[[str], World], postgres: Postgres) -> int:
    """Every point, on both databases."""
    wrong = 0
    for name, url in (("SQLite", ""), ("PostgreSQL", postgres.new_database())):
        site = world(url)
        folder = make(str(site.data.parent), "points")
        workflows = ["pay", "nested", "chain"] if options.long else ["pay"]
        points = site.play(
            "crashes.failpoints.fail_everywhere", folder=str(folder), workflows=workflows, ledger=str(site.ledger)
        )
        found = look(site.tables(), site.ledger, promised_in(folder / "acks.jsonl"))
        bad = sum(map(len, found.problems().values())) + sum((p["died"], p["went on"]) != (137, 0) for p in points)
        wrong += say("death at every point", name, f"{len(points)} points", found.seen, bad)
    return wrong


def answer_at_once(options: argparse.Namespace, world: Callable[[str], World], postgres: Postgres) -> int:
    """Two processes answer the same request at the same instant."""
    wrong = 0
    for name, url in (("SQLite", ""), ("PostgreSQL", postgres.new_database())):
        site = world(url)
        told: list[dict[str, Any]] = []
        for done in range(0, options.rounds, 100):
            run = site.play("open_requests", count=min(100, options.rounds - done))
            told += site.play("answer_at_once", run=run, people=2)
        winners = {outcome["request"]: outcome["by"] for outcome in told if outcome["won"]}
        losers = [outcome for outcome in told if not outcome["won"]]
        bad = abs(len(winners) - options.rounds) + abs(len(losers) - options.rounds)
        bad += sum(loser["winner"] != winners.get(loser["request"]) for loser in losers)
        wrong += say("two answers at once", name, f"{options.rounds} rounds", Counter(answers=len(winners)), bad)
    return wrong


ATTACKS = {
    "server": kill_the_server,
    "workers": kill_the_workers,
    "points": die_everywhere,
    "answers": answer_at_once,
    "freeze": longer.freeze,
    "prune": longer.prune,
    "flip": longer.flip,
    "disks": longer.fill_disks,
    "clocks": longer.shift_clocks,
}


if __name__ == "__main__":
    sys.exit(main())
