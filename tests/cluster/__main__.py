"""A whole cluster under attack, the long form: ``python -m tests.cluster``. Prints what was seen; status 1 if wrong.

Two webs and four workers on one PostgreSQL, 2,000 runs, 20 programs that answer, viewers, processes that are killed,
stopped and frozen at random, a database that crashes twice, and 30 seconds without any signal between processes.
``--seed`` repeats the dice; what happens between processes is never quite the same.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.cluster.chaos.mutants import MUTANTS
from tests.cluster.chaos.story import Plan, Story
from tests.faults.servers import Postgres


def main() -> int:
    options = parse()
    variables = {"WFDASH_HINTS": options.hints} if options.hints else {}
    if options.mutant:
        variables["WFDASH_MUTANT"] = options.mutant
    plan = Plan(
        seed=options.seed,
        webs=options.webs,
        workers=options.workers,
        runs=options.runs,
        attacks=options.attacks,
        crashes=options.crashes,
        cut=options.cut,
        variables=variables,
    )
    print(f"seed {plan.seed}", flush=True)
    postgres = Postgres()
    try:
        with tempfile.TemporaryDirectory(prefix="wfdash-cluster-", ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o755)
            wrong = Story(plan, Path(folder), postgres, postgres.new_database(), pooled=options.pooler).play().show()
    finally:
        postgres.cleanup()
    if options.mutant:
        print("the mutant was found" if wrong else "THE MUTANT WAS NOT FOUND")
        return 0 if wrong else 1
    return 1 if wrong else 0


def parse() -> argparse.Namespace:
    """Return how much to do."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--webs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--attacks", type=int, default=100, help="on processes, at least")
    parser.add_argument("--crashes", type=int, default=2, help="of the database")
    parser.add_argument("--cut", type=float, default=30.0, metavar="SECONDS", help="without any signal")
    parser.add_argument("--hints", default="", choices=["procrastinate"], help="WFDASH_HINTS")
    parser.add_argument("--pooler", action="store_true", help="through pgbouncer in transaction mode")
    parser.add_argument("--mutant", default="", choices=MUTANTS, help="break this on purpose: it must be found")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
