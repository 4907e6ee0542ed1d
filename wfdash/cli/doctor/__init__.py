"""``wfdash doctor``: looks at an installation, also one at work, and says what is wrong with it. Changes nothing."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence

from wfdash.cli.commands import data_directory, flag, plain_command
from wfdash.cli.doctor.findings import Examine, Finding, Severity, as_json, as_text, problem
from wfdash.cli.setup import setup


def _examine(options: argparse.Namespace) -> int:
    """Print the report; return 1 if there is a problem."""
    setup()
    logging.disable(logging.CRITICAL)
    try:
        findings = examine()
    finally:
        logging.disable(logging.NOTSET)
    print(json.dumps(as_json(findings), indent=2) if options.json else as_text(findings))
    return int(any(one.severity is Severity.PROBLEM for one in findings))


def examine() -> list[Finding]:
    """Look at everything, and return what was found; what rests on something that is missing is left out."""
    from wfdash.cli.doctor import database, installation, runs

    findings: list[Finding] = []
    rounds: Sequence[Sequence[Examine]] = (
        installation.EXAMINATIONS,
        (database.reach,),
        database.WITHOUT_TABLES,
        (database.migrations,),
        (*database.EXAMINATIONS, *runs.EXAMINATIONS),
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


DOCTOR = plain_command(
    "doctor",
    "say what is wrong with an installation, and what to do; changes nothing",
    _examine,
    data_directory,
    flag("--json", "print JSON for programs"),
)
