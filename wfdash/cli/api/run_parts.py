"""``wfdash runs steps|logs|values|tag|migrate``: what is inside of a run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from wfdash.cli.api.commands import CONFLICT, command
from wfdash.cli.api.output import Output, clean, moment

if TYPE_CHECKING:
    from wfdash.client import Client

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
PARTS = ("state", "input", "output", "inputs", "transcript")


def add_parts(runs: Any) -> None:
    """Add the commands."""
    steps = _of_run(command(runs, "steps", _steps, "list what a run's steps did, in the order in which they started"))
    steps.add_argument("--step", default="", help="of this step")
    steps.add_argument("--limit", type=int, default=None, help="maximum number (default: all)")
    logs = _of_run(command(runs, "logs", _logs, "print what a run logged, oldest first"))
    logs.add_argument("text", nargs="?", default="", help="lines with this text")
    logs.add_argument("--step", default="", help="of this step")
    logs.add_argument("--level", choices=LEVELS, default="", help="of this level and above")
    logs.add_argument("--limit", type=int, default=None, help="maximum number (default: all)")
    values = _of_run(command(runs, "values", _values, "print a part of a run's present values as JSON"))
    values.add_argument("part", nargs="?", choices=PARTS, default="state", help="default: state")
    tag = _of_run(command(runs, "tag", _tag, "add tags to a run and remove others; without any, print them"))
    tag.add_argument("--add", action="append", default=[], metavar="TAG")
    tag.add_argument("--remove", action="append", default=[], metavar="TAG")
    migrate = _of_run(command(runs, "migrate", _migrate, "continue a held run with the loaded version of its workflow"))
    migrate.add_argument("--override", action="store_true", help="without the migration that its author declares")
    migrate.add_argument("--dry-run", action="store_true", help="only say what has changed, and what would happen")


def _of_run(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("id", metavar="RUN")
    return parser


def _steps(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = list(client.all_steps(options.id, step=options.step, most=options.limit))
    output.rows(found, ("step", "state", "began", "ended", "attempts", "label"))


def _logs(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = client.all_logs(options.id, text=options.text, step=options.step, level=options.level, most=options.limit)
    if output.as_json:
        return output.data(list(found))
    for line in found:
        text = "(not for you to read)" if line.text is None else clean(line.text)
        output.line(f"{moment(line.at.isoformat())}  {line.level:<8}  {line.step}  {text}")
    return None


def _values(client: Client, options: argparse.Namespace, output: Output) -> int:
    found = client.values(options.id, options.part)
    if output.as_json:
        output.data(found)
    elif found.problem:
        output.note(found.problem)
    else:
        output.data(found.value)
    return CONFLICT if found.problem else 0


def _tag(client: Client, options: argparse.Namespace, output: Output) -> None:
    changes = options.add or options.remove
    tags = client.tag(options.id, add=options.add, remove=options.remove) if changes else client.run(options.id).tags
    output.result({"tags": tags}, ", ".join(tags) or "(none)")


def _migrate(client: Client, options: argparse.Namespace, output: Output) -> int:
    if not options.dry_run:
        done = client.override(options.id) if options.override else client.migrate(options.id)
        output.result(done, "Continues with the loaded version of the workflow")
        return 0
    found = client.graph_change(options.id, override=options.override)
    if output.as_json:
        output.data(found)
        return 0
    for line in (*found.changes, *found.words) or ("The workflow has not changed since the run started",):
        output.line(line)
    if found.refusal:
        output.line(f"not possible: {found.refusal}")
    return 0
