"""What the doctor found: each with why it matters and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


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
