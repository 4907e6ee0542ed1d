"""The rows of the long form's table."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from tests.faults.checks import Findings
from tests.faults.crashes.chaos import Report

HEAD = "| attack | database | how often | runs | steps | answers | once effects | wrong |\n" + "|---" * 8 + "|"
FIGURES = ("runs", "steps", "answers", "once effects")


def say(attack: str, database: str, often: str, seen: Counter[str], wrong: int) -> int:
    """Print a row and return how much was wrong."""
    figures = [seen[name] or "-" for name in FIGURES]
    print("| " + " | ".join(str(cell) for cell in (attack, database, often, *figures, wrong)) + " |", flush=True)
    return wrong


def tell(attack: str, report: Report) -> int:
    """Print the row of a chaos run, and below it whatever was found."""
    return found(attack, report.database, f"{report.kills} kills", report.findings, report.complaints)


def found(attack: str, database: str, often: str, findings: Findings, complaints: Sequence[str] = ()) -> int:
    """Print the row of what was looked at, and below it whatever was wrong."""
    problems = findings.problems()
    wrong = sum(map(len, problems.values())) + len(complaints)
    say(attack, database, often, findings.seen, wrong)
    for name, ones in [*problems.items(), ("complaints", complaints)]:
        explain([f"{name}: {one}" for one in ones])
    return wrong


def explain(wrong: Sequence[str]) -> None:
    """Print what was wrong, not all of it if it is much."""
    print("".join(f"  {one}\n" for one in wrong[:20]), end="", file=sys.stderr)
