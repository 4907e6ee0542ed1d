"""``wfdash workflows`` and ``wfdash me``: what can be started, and who is asking."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from wfdash.cli.api.commands import command, family
from wfdash.cli.api.output import Output

if TYPE_CHECKING:
    from wfdash.client import Client


def add(commands: Any) -> None:
    """Add the family and the command."""
    workflows = family(commands, "workflows", "list workflows and show what they take")
    command(workflows, "list", _list, "list workflows")
    show = command(workflows, "show", _show, "show a workflow with the schema of its input")
    show.add_argument("name", metavar="WORKFLOW")
    command(commands, "me", _me, "show who you are to the server, and what you may do")


def _list(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.rows(client.workflows(), ("name", "title", "active", "waiting_requests", "failed", "may_start"))


def _show(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.fields(client.workflow(options.name), ("name", "title", "doc", "version", "input_schema", "output_schema"))


def _me(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = client.me()
    if output.as_json:
        return output.data(found)
    output.fields(found, ("name", "groups", "acts_for"))
    for right in found.rights:
        output.line(f"{right.workflow}: {', '.join(right.verbs)}")
    return None
