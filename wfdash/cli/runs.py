"""Commands about runs, using the same queries and actions as the pages: ``runs``, ``checkpoints``, ``restore``.

They act as a person: ``--as``, or the only administrator there is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

Setup = Callable[[argparse.Namespace], Any]
MOST = 1_000


def add_run_commands(commands: Any, setup: Setup) -> None:
    """Add the commands to a parser's. ``setup`` initialises Django."""
    runs = commands.add_parser("runs", help="list runs, newest first")
    runs.add_argument("filter", nargs="*", help="same syntax as in the dashboard: workflow:refund is:waiting text ...")
    runs.add_argument("--limit", type=_limit, default=30, help="maximum number (default: 30)")
    checkpoints = commands.add_parser("checkpoints", help="list a run's checkpoints, newest first")
    checkpoints.add_argument("id", metavar="RUN")
    checkpoints.add_argument("--limit", type=_limit, default=50, help="maximum number (default: 50)")
    restore = commands.add_parser("restore", help="restore a run to one of its checkpoints")
    restore.add_argument("id", metavar="RUN")
    restore.add_argument("checkpoint", metavar="CHECKPOINT", help="checkpoint ID, or its number in the run")
    for command, act in ((runs, _runs), (checkpoints, _checkpoints), (restore, _restore)):
        command.add_argument("--as", dest="person", metavar="USER", help="user to act as (default: the administrator)")
        command.add_argument("--json", action="store_true", help="print JSON instead of a table")
        command.add_argument("--data", type=Path, help="data directory (default: $WFDASH_DATA or ./wfdash-data)")
        command.set_defaults(run=_command(act, setup))


def _command(act: Callable[[Any, argparse.Namespace], None], setup: Setup) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        setup(options)
        from django.db import DatabaseError

        from checkpoints.errors import CheckpointsError
        from wfdash.errors import WfdashError

        try:
            act(_viewer(options.person), options)
        except (WfdashError, CheckpointsError, DatabaseError) as error:
            print(_error_text(error), file=sys.stderr)
            return 1
        return 0

    return run


def _error_text(error: Exception) -> str:
    return "; ".join(str(one["msg"]) for one in getattr(error, "errors", [])) or str(error)


def _viewer(name: str | None) -> Any:
    from checkpoints.models.user_model import User, has_name
    from wfdash.access.viewer import viewer_for
    from wfdash.errors import NotFound

    active = User.objects.filter(is_active=True)
    found = list(active.filter(has_name(name)) if name else active.filter(is_superuser=True)[:2])
    if name and not found:
        raise NotFound(f"There is no active person named {name!r}")
    if len(found) != 1:
        raise NotFound("Use --as USER (there is not exactly one administrator)")
    return viewer_for(found[0])


def _runs(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash import queries

    found = queries.runs(viewer, " ".join(options.filter), limit=options.limit)
    rows = [
        {
            "id": row.id,
            "workflow": row.workflow,
            "title": row.title,
            "status": row.status.value,
            "checkpoints": row.n,
            "created": row.created.isoformat(timespec="seconds"),
            "finished": _moment(row.finished),
            "waiting_for": list(row.waiting_for),
        }
        for row in found.items
    ]
    _print_rows(rows, ("id", "workflow", "status", "checkpoints", "created", "title"), as_json=options.json)


def _checkpoints(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash import queries

    infos = [row.info for row in queries.checkpoints(viewer, options.id, limit=options.limit).rows]
    rows = [
        {
            "n": info.n,
            "id": info.id,
            "step": info.step or "",
            "reason": info.reason.value,
            "label": info.label or "",
            "waiting": info.waiting,
            "good": info.clean,
            "size": info.size,
            "created": info.created.isoformat(timespec="seconds"),
            "parent": info.parent,
        }
        for info in infos
    ]
    _print_rows(
        rows, ("n", "id", "step", "reason", "waiting", "good", "size", "created", "label"), as_json=options.json
    )


def _restore(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash import actions

    head = actions.restore_run(viewer, options.id, _checkpoint_of(viewer, options))
    result = {"run": options.id, "checkpoint": head.pk, "n": head.n, "from": head.parent}
    text = f"Restored checkpoint {options.checkpoint} (new checkpoint {head.n}, {head.pk})"
    print(json.dumps(result) if options.json else text)


def _checkpoint_of(viewer: Any, options: argparse.Namespace) -> str:
    """Return a checkpoint's id; a number is one of the run."""
    from wfdash import queries

    given = str(options.checkpoint)
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        return given
    rows = queries.checkpoints(viewer, options.id, before=int(given) + 1, limit=1).rows
    return str(rows[0].info.id) if rows and rows[0].info.n == int(given) else given


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {MOST}")
    return int(text)


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="seconds")


def _print_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print rows as JSON, or as a table with the columns that a person reads."""
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    lines = [[name.upper() for name in columns], *([_cell(row[name]) for name in columns] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        print("  ".join(_padded(line, widths)).rstrip())
    if not rows:
        print("(none)")


def _padded(line: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
    return (cell.ljust(width) for cell, width in zip(line, widths, strict=True))


def _cell(value: Any) -> str:
    """Return a value as one line without control characters: titles are untrusted."""
    text = {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    return "".join(char if char.isprintable() else " " for char in text)[:80]
