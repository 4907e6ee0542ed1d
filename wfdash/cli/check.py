"""``wfdash check``: loads workflows as ``up`` would, and says everything that is wrong with them. Nothing is served."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wfdash.contract import JudgesCode
from wfdash.installation import location, workflow_sources

OK, WRONG, USAGE = 0, 1, 2


def add_check_command(verbs: Any, setup: Callable[[argparse.Namespace], Any]) -> None:
    """Add the command to the parser. ``setup`` sets Django up."""
    check = verbs.add_parser("check", help="load workflows and print what is wrong with them; serves nothing")
    check.add_argument("sources", nargs="*", metavar="SOURCE", help="files, folders or modules with workflows")
    check.add_argument("--json", action="store_true", help="print JSON for programs")
    check.set_defaults(run=lambda options: _check(options, setup), needs_data=False)


def _check(options: argparse.Namespace, setup: Callable[[argparse.Namespace], Any]) -> int:
    """Return 0 if all is well, 1 if something is wrong, 2 if there is nothing to check."""
    named = any(os.environ.get(name) for name in ("WFDASH_WORKFLOWS", "WFDASH_APPS"))
    if not options.sources and not named:
        print("Say what to check: wfdash check workflows.py", file=sys.stderr)
        return USAGE
    with location.no_data():
        setup(options)
        logging.disable(logging.CRITICAL)
        try:
            report = _report(options.sources)
        finally:
            logging.disable(logging.NOTSET)
    print(json.dumps(report, indent=2) if options.json else _text(report))
    return WRONG if report["problems"] else OK


def _report(sources: list[str]) -> dict[str, Any]:
    from wfdash import catalog

    problems = [_problem(words, "") for name in sources if (words := workflow_sources.problem_of(name))]
    found = catalog.read([name for name in sources if not workflow_sources.problem_of(name)] if sources else None)
    workflows = [
        {
            "name": entry.name,
            "title": entry.description.title,
            "version": entry.description.version,
            "steps": len(entry.description.steps),
            "source": _near(entry.source),
        }
        for entry in found.entries.values()
    ]
    for failure in found.failures:
        flaws = failure.flaws or ((failure.error, failure.where),)
        problems += [_problem(words, where or failure.source) for words, where in flaws]
    for entry in found.entries.values():
        judged = entry.engine.code_flaws(entry.definition) if isinstance(entry.engine, JudgesCode) else ()
        problems += [_problem(words, where) for words, where in judged]
    if not workflows and not problems:
        problems.append(_problem("No workflow found: a module needs a Workflow(...) under a name of its own", ""))
    return {"workflows": workflows, "problems": problems}


def _problem(words: str, where: str) -> dict[str, Any]:
    file, _, line = where.rpartition(":")
    at = (file, int(line)) if line.isdigit() else (where, None)
    return {"file": _near(at[0]), "line": at[1], "message": words}


def _near(path: str) -> str:
    """Return a path as seen from the current folder, where it is below that."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if path and Path(path).is_relative_to(here) else path


def _text(report: dict[str, Any]) -> str:
    lines = []
    for one in report["problems"]:
        place = ":".join(str(part) for part in (one["file"], one["line"]) if part)
        lines.append(f"{place}: {one['message']}" if place else one["message"])
    count = len(report["problems"])
    for flow in report["workflows"]:
        steps = f"{flow['steps']} step{'s' if flow['steps'] != 1 else ''}"
        lines.append(f"{flow['source']}: {flow['name']} is valid, {steps}, version {flow['version']}")
    lines.append(f"{count} problem{'s' if count != 1 else ''}" if count else "No problems")
    return "\n".join(lines)
