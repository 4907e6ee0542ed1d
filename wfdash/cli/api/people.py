"""``wfdash people``: who there is, and who may do what. ``wfdash person|group|grant`` make them."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import TYPE_CHECKING, Any

from wfdash.cli.api import inputs
from wfdash.cli.api.commands import command, family
from wfdash.cli.api.output import Output

if TYPE_CHECKING:
    from wfdash.client import Client
    from wfdash.records.people import AccessRecord, GroupRecord, PersonSummary, RoleRecord

COLUMNS = ("name", "active", "roles", "groups", "last_sign_in", "email")
DETAILS = (
    "name",
    "full_name",
    "email",
    "active",
    "roles",
    "groups",
    "last_sign_in",
    "second_factor",
    "away",
    "delegate",
)
SHOWN = ("all", "off", "away", "open", "never")


def add(commands: Any) -> None:
    """Add the family."""
    people = family(commands, "people", "list people, their groups and what they may do")
    listing = command(people, "list", _list, "list people")
    listing.add_argument("words", nargs="*", help="in name, address, groups or roles")
    listing.add_argument(
        "--show", choices=SHOWN, default="", help="deactivated ones too, or only: deactivated, away, invited, never in"
    )
    listing.add_argument("--limit", type=inputs.limit, default=100, help="maximum number (default: 100)")
    _named(command(people, "show", _show, "show a person"), "name", "PERSON")
    for name, act, text in (
        ("deactivate", _deactivate, "deactivate an account: no one can sign in with it, its tokens stop to work"),
        ("reactivate", _reactivate, "let a deactivated account be used again"),
    ):
        _named(command(people, name, act, text), "name", "PERSON")
    command(people, "groups", _groups, "list groups")
    _named(command(people, "group", _group, "show a group with its members"), "name", "GROUP")
    _named(command(people, "access", _access, "list who may do what in a workflow, and why"), "workflow", "WORKFLOW")


def _named(parser: argparse.ArgumentParser, name: str, shown: str) -> None:
    parser.add_argument(name, metavar=shown)


def _list(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = list(islice(client.all_people(" ".join(options.words), show=options.show), options.limit + 1))
    more = len(found) > options.limit
    output.page(found[: options.limit], COLUMNS, options.limit, more=more, narrow="words", shown=_with_roles)


def _show(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.fields(client.person(options.name), DETAILS, shown=_with_roles)


def _role(role: RoleRecord) -> str:
    return role.name if role.workflow == "*" else f"{role.name}:{role.workflow}"


def _deactivate(client: Client, options: argparse.Namespace, output: Output) -> None:
    client.deactivate_person(options.name)
    output.result({"name": options.name, "active": False}, f"{options.name} is deactivated")


def _reactivate(client: Client, options: argparse.Namespace, output: Output) -> None:
    client.reactivate_person(options.name)
    output.result({"name": options.name, "active": True}, f"{options.name} is active again")


def _groups(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.rows(client.groups(), ("name", "members", "roles"), shown=_with_roles)


def _with_roles(one: PersonSummary | GroupRecord) -> dict[str, Any]:
    return {**one.model_dump(mode="json"), "roles": [_role(role) for role in one.roles]}


def _group(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.fields(client.group(options.name), ("name", "members", "people", "roles"), shown=_with_roles)


def _access(client: Client, options: argparse.Namespace, output: Output) -> None:
    page = client.access(options.workflow)
    items = list(page.items)
    while page.next:
        page = client.access(options.workflow, after=page.next)
        items += page.items
    output.rows(items, ("name", "rights", "by"), shown=_rights)


def _rights(one: AccessRecord) -> dict[str, Any]:
    roles = {_source(role) for found in one.rights.values() for role in found}
    return {"name": one.name, "rights": list(one.rights), "by": sorted(roles)}


def _source(role: RoleRecord) -> str:
    return f"{_role(role)} through {role.group}" if role.group else _role(role)
