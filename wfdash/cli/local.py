"""Commands that act on the data directory itself, as who administers the server: no sign-in, every right."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Setup = Callable[[argparse.Namespace], Any]
Act = Callable[[Any, argparse.Namespace], None]


def add_local(
    verbs: Any, name: str, act: Act, setup: Setup, *, help_text: str, epilog: str = ""
) -> argparse.ArgumentParser:
    """Add a command that acts as *the command line*: ``act`` gets a viewer with all rights, and the options."""
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=help_text, description=help_text, epilog=epilog)
    parser.add_argument("--data", type=Path, help="data directory (default: $WFDASH_DATA or ./wfdash-data)")
    parser.set_defaults(run=_guarded(act, setup))
    return parser


def error_text(error: Exception) -> str:
    """Return an error in one line, with the fields it is about."""
    found = getattr(error, "errors", [])
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found) or str(error)


def print_rows(rows: Sequence[dict[str, Any]], *, as_json: bool, empty: str = "None") -> None:
    """Print rows as a table with their keys as headings, or as JSON."""
    if as_json:
        print(json.dumps(list(rows), indent=2))
        return
    if not rows:
        print(empty)
        return
    cells = [[name.upper() for name in rows[0]], *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _guarded(act: Act, setup: Setup) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        setup(options)
        from checkpoints.database.installation_key import refuse_other_keys
        from checkpoints.errors import CheckpointsError, InvalidConfig
        from wfdash.actions.people.authority import command_line
        from wfdash.errors import WfdashError

        try:
            refuse_other_keys(InvalidConfig)
            act(command_line(), options)
        except (WfdashError, CheckpointsError) as error:
            print(error_text(error), file=sys.stderr)
            return 1
        return 0

    return run
