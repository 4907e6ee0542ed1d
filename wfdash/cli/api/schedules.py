"""``wfdash schedules``: runs that start at set times."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from wfdash.cli.api import inputs
from wfdash.cli.api.commands import command, family
from wfdash.cli.api.output import Output

if TYPE_CHECKING:
    from wfdash.client import Client

COLUMNS = ("id", "workflow", "name", "words", "state", "next_at", "last_at")
DETAILS = (
    *("id", "workflow", "name", "cron", "words", "zone", "missed", "overlap", "owner", "state", "problem"),
    *("next_at", "last_at", "last_run", "message"),
)

CHANGED = ("name", "cron", "zone", "missed", "overlap")
UNCHANGED = object()
"""The input that is not given: null is one."""


def add(commands: Any) -> None:
    """Add the family."""
    schedules = family(commands, "schedules", "list, create and steer schedules")
    listing = command(schedules, "list", _list, "list schedules, the next to fire first")
    listing.add_argument("filter", nargs="*", help="same syntax as in the dashboard")
    listing.add_argument("--workflow", default="", help="of this workflow")
    _of_schedule(command(schedules, "show", _show, "show a schedule"))
    create = command(schedules, "create", _create, "create a schedule; its runs are started on your behalf")
    create.add_argument("workflow")
    create.add_argument("name")
    create.add_argument("cron", help="five fields, as in crontab: '0 9 * * 1-5'")
    create.add_argument("--zone", default="UTC", help="time zone such as Europe/Berlin (default: UTC)")
    create.add_argument("--input", type=inputs.json_value, help="JSON; @FILE reads a file, @- standard input")
    create.add_argument("--missed", choices=["skip", "once", "all"], default="once", help="after a time without server")
    create.add_argument("--overlap", choices=["allow", "skip"], default="allow", help="while a run of it is active")
    change = _of_schedule(command(schedules, "change", _change, "change a schedule; its runs are yours from then on"))
    change.add_argument("--name", default=None)
    change.add_argument("--cron", default=None, help="five fields, as in crontab")
    change.add_argument("--zone", default=None)
    change.add_argument("--input", type=inputs.json_value, default=UNCHANGED, help="JSON; @FILE, @-")
    change.add_argument("--missed", choices=["skip", "once", "all"], default=None)
    change.add_argument("--overlap", choices=["allow", "skip"], default=None)
    _of_schedule(command(schedules, "pause", _pause, "pause a schedule until it is resumed"))
    _of_schedule(command(schedules, "resume", _resume, "resume a schedule with its next time"))
    _of_schedule(command(schedules, "run", _run, "start a run of a schedule now"))
    _of_schedule(command(schedules, "delete", _delete, "delete a schedule; its runs stay"))


def _of_schedule(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("id", metavar="SCHEDULE")
    return parser


def _list(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.rows(client.schedules(" ".join(options.filter), workflow=options.workflow), COLUMNS)


def _show(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.fields(client.schedule(options.id), DETAILS)


def _create(client: Client, options: argparse.Namespace, output: Output) -> None:
    plan: dict[str, Any] = {name: getattr(options, name) for name in ("zone", "missed", "overlap")}
    made = client.create_schedule(options.workflow, options.name, options.cron, message=options.input, **plan)
    output.result(made, f"{made.id}: {made.words}")


def _change(client: Client, options: argparse.Namespace, output: Output) -> None:
    given: Any = {name: value for name in CHANGED if (value := getattr(options, name)) is not None}
    given |= {} if options.input is UNCHANGED else {"message": options.input}
    if not given:
        raise ValueError("Say what to change: --name, --cron, --zone, --input, --missed or --overlap")
    made = client.change_schedule(client.schedule(options.id), **given)
    output.result(made, f"{made.id}: {made.words}")


def _pause(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.result(client.pause_schedule(options.id), "Paused")


def _resume(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = client.resume_schedule(options.id)
    output.result(found, f"Resumed: next at {found.next_at}")


def _run(client: Client, options: argparse.Namespace, output: Output) -> None:
    made = client.run_schedule(options.id)
    output.result(made, made.id)


def _delete(client: Client, options: argparse.Namespace, output: Output) -> None:
    client.delete_schedule(options.id)
    output.result({"id": options.id, "deleted": True}, "Deleted")
