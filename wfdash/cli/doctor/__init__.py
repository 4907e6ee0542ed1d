"""``wfdash doctor``: looks at an installation, also one at work, and says what is wrong with it. Changes nothing."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wfdash.cli.doctor.findings import Examine, Finding, Severity, as_json, as_text, problem

OK, WRONG = 0, 1


def add_doctor_command(verbs: Any, setup: Callable[[argparse.Namespace], Any]) -> None:
    """Add the command to the parser. ``setup`` sets Django up."""
    text = "say what is wrong with an installation, and what to do; changes nothing"
    doctor = verbs.add_parser("doctor", help=text, description=text)
    doctor.add_argument("--data", type=Path, help="data directory (default: $WFDASH_DATA or ./wfdash-data)")
    doctor.add_argument("--json", action="store_true", help="print JSON for programs")
    doctor.set_defaults(run=lambda options: _examine(options, setup))


def _examine(options: argparse.Namespace, setup: Callable[[argparse.Namespace], Any]) -> int:
    """Print the report; return 1 if there is a problem."""
    setup(options)
    logging.disable(logging.CRITICAL)
    try:
        findings = examine()
    finally:
        logging.disable(logging.NOTSET)
    print(json.dumps(as_json(findings), indent=2) if options.json else as_text(findings))
    return WRONG if any(one.severity is Severity.PROBLEM for one in findings) else OK


def examine() -> list[Finding]:
    """Look at everything, and return what was found; what rests on something that is missing is left out."""
    from wfdash.cli.doctor import database, growth, installation, runs

    findings: list[Finding] = []
    rounds: Sequence[Sequence[Examine]] = (
        installation.EXAMINATIONS,
        (database.reach,),
        database.WITHOUT_TABLES,
        (database.migrations,),
        (*database.EXAMINATIONS, *growth.EXAMINATIONS, *runs.EXAMINATIONS),
    )
    for examinations in rounds:
        found = [finding for one in examinations for finding in run(one)]
        findings += found
        if len(examinations) == 1 and any(one.severity is Severity.PROBLEM for one in found):
            break
    return findings


def run(examination: Examine) -> list[Finding]:
    """Return what one examination finds; one that fails is a problem of its own."""
    found: list[Finding] = []
    try:
        found += examination()
    except Exception as error:
        text = str(error).strip().partition("\n")[0]
        found.append(
            problem(
                examination.__name__.replace("_", " "),
                f"cannot be examined: {type(error).__name__}: {text}",
                why="What is wrong with it may be the reason.",
                remedy="Fix what the other findings say first. A database role that may not look needs pg_monitor.",
            )
        )
    return found
