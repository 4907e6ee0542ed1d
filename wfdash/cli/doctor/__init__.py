"""``wfdash doctor``: looks at an installation, also one at work, and says what is wrong with it. Changes nothing."""

from __future__ import annotations

import json
import logging
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from wfdash.cli.commands import data_directory, flag, plain_command
from wfdash.cli.setup import setup


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"
    ADVICE = "advice"
    """Works, and can be better or will not always."""
    PROBLEM = "problem"
    """Something does not work, or is about to stop."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at. ``why`` and ``remedy`` are empty where all is well."""

    severity: Severity
    check: str
    found: str
    why: str = ""
    remedy: str = ""


Findings = Iterator[Finding]
Examine = Callable[[], Findings]


def ok(check: str, found: str) -> Finding:
    """Return a finding with which all is well."""
    return Finding(severity=Severity.OK, check=check, found=found)


def advice(check: str, found: str, *, why: str, remedy: str) -> Finding:
    """Return a finding that can be better."""
    return Finding(severity=Severity.ADVICE, check=check, found=found, why=why, remedy=remedy)


def problem(check: str, found: str, *, why: str, remedy: str) -> Finding:
    """Return a finding that must be fixed."""
    return Finding(severity=Severity.PROBLEM, check=check, found=found, why=why, remedy=remedy)


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the report for programs."""
    counts = {kind: sum(one.severity is kind for one in findings) for kind in Severity}
    return {
        "problems": counts[Severity.PROBLEM],
        "advice": counts[Severity.ADVICE],
        "findings": [*map(asdict, findings)],
    }


def as_text(findings: Sequence[Finding]) -> str:
    """Return the report for people: the worst is last, beside the summary."""
    order = [*Severity]
    lines = []
    for one in sorted(findings, key=lambda one: order.index(one.severity)):
        lines.append(f"{one.severity:<8} {one.check:<12} {one.found}")
        lines += [f"{'':<21} {label}: {text}" for label, text in (("Why", one.why), ("Do", one.remedy)) if text]
    counts = as_json(findings)
    problems = f"{counts['problems']} problem{'' if counts['problems'] == 1 else 's'}"
    return "\n".join([*lines, "", f"{problems}, {counts['advice']} advice"])


def _examine(options: Namespace) -> int:
    """Print the report; return 1 if there is a problem."""
    setup()
    logging.disable(logging.CRITICAL)
    try:
        findings = examine(deploy=options.deploy)
    finally:
        logging.disable(logging.NOTSET)
    print(json.dumps(as_json(findings), indent=2) if options.json else as_text(findings))
    return int(any(one.severity is Severity.PROBLEM for one in findings))


def examine(*, deploy: bool = False) -> list[Finding]:
    """Look at everything, and return what was found; what rests on something that is missing is left out.

    ``deploy``: only at what a deployment waits for.
    """

    from wfdash.cli.doctor import database, installation

    findings: list[Finding] = []
    rounds: Sequence[Sequence[Examine]] = (
        () if deploy else installation.EXAMINATIONS,
        (database.reach,),
        () if deploy else database.WITHOUT_TABLES,
        (database.migrations,),
        (database.deploy,) if deploy else database.EXAMINATIONS,
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
    flag("--deploy", "only: which versions have open runs, who serves them, which old workers may go"),
)
