"""``wfdash retention``: say what is old, remove it now, read the archive."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from wfdash.cli.local import Setup, add_local, print_rows

OFF = "WFDASH_KEEP_RUNS is not set: ended runs are kept forever"


def add_retention_commands(verbs: Any, setup: Setup) -> None:
    """Add the commands. ``setup`` starts Django for the options it is given."""
    parser = verbs.add_parser("retention", help="say which runs are old, remove them, read archived ones")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = add_local(commands, "show", _show, setup, help_text="say what WFDASH_KEEP_RUNS would remove now")
    show.add_argument("--json", action="store_true", help="as JSON")
    text = "remove now what WFDASH_KEEP_RUNS does not keep, as workers do while they run"
    add_local(commands, "remove", _remove, setup, help_text=text)
    read = add_local(commands, "read", _read, setup, help_text="list the runs in files of the archive, or print one")
    read.add_argument("files", nargs="+", type=Path, metavar="FILE", help="runs-2026-11-23.jsonl")
    read.add_argument("--run", dest="wanted", default="", metavar="ID", help="print this run as JSON")


def _show(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.queries.runs.retention import plan_removal
    from wfdash.retention.keeping import current_rules

    rules = current_rules()
    plan = plan_removal(rules)
    rows: list[dict[str, Any]] = [
        {**vars(one), "oldest": f"{one.oldest:%Y-%m-%d}", "newest": f"{one.newest:%Y-%m-%d}"} for one in plan.removed
    ]
    if options.json:
        found = {"keep": rules.as_json(), "runs": plan.runs, "workflows": rows, "kept": dict(plan.kept)}
        print(json.dumps(found, indent=2))
        return
    print(f"Ended runs are kept: {rules}" if rules else OFF)
    if rules:
        print_rows(rows, as_json=False, empty="No run would be removed")
    for words, count in plan.kept.items():
        print(f"{count:,} older ones stay because of {words}")


def _remove(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.actions.pacing import rest_after
    from wfdash.actions.retention.runs import RunRemover
    from wfdash.errors import WrongState
    from wfdash.retention.keeping import current_rules

    if not current_rules():
        raise WrongState(OFF)
    remover, runs, rows = RunRemover(), 0, 0
    while not (batch := remover.remove_next()).last:
        runs, rows = runs + len(batch.runs), rows + batch.rows
        time.sleep(rest_after(batch.seconds))
    print(f"Removed {runs:,} runs, {rows:,} rows")


def _read(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.actions.retention.archive import read_archive
    from wfdash.errors import NotFound, WrongState

    try:
        # The last line of a run counts: an earlier one was written when it stayed after all.
        found = {one["run"]: one for one in read_archive(options.files, options.wanted)}
    except (OSError, ValueError) as error:
        raise WrongState(str(error)) from error
    if not options.wanted:
        columns = ("run", "workflow", "finished", "archived")
        print_rows([{name: one[name] for name in columns} for one in found.values()], as_json=False)
    elif options.wanted in found:
        print(json.dumps(found[options.wanted], indent=2))
    else:
        raise NotFound(f"No file has the run {options.wanted}")
