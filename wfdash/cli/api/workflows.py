"""``wfdash workflows`` and ``wfdash me``: what can be started, and who is asking."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from wfdash.cli.api.commands import command, family
from wfdash.cli.api.output import Output
from wfdash.cli.api.watch import watch_workflow

if TYPE_CHECKING:
    from wfdash.client import Client


def add(commands: Any) -> None:
    """Add the family and the command."""
    workflows = family(commands, "workflows", "list workflows, show what they take, follow their runs")
    command(workflows, "list", _list, "list workflows")
    show = command(workflows, "show", _show, "show a workflow with the schema of its input")
    show.add_argument("name", metavar="WORKFLOW")
    watching = command(workflows, "watch", _watch, "follow the events of all runs of a workflow live")
    watching.add_argument("name", metavar="WORKFLOW")
    watching.add_argument(
        "--after", default="now", metavar="CURSOR", help="begin behind this cursor, or with the first event: start"
    )
    command(commands, "me", _me, "show who you are to the server, and what you may do")


def _list(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.rows(client.workflows(), ("name", "title", "active", "waiting_requests", "failed", "may_start"))


def _show(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.fields(client.workflow(options.name), ("name", "title", "doc", "version", "input_schema", "output_schema"))


def _watch(client: Client, options: argparse.Namespace, output: Output) -> None:
    watch_workflow(client, options.name, output, after="" if options.after == "start" else options.after)


def _me(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = client.me()
    if output.as_json:
        return output.data(found)
    output.fields(found, ("name", "groups", "acts_for"))
    for right in found.rights:
        output.line(f"{right.workflow}: {', '.join(right.verbs)}")
    return None
