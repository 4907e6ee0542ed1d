"""``wfdash person|group|grant|apply``: accounts, groups and roles, on the data directory itself."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from wfdash.cli.local import Setup, add_local, print_rows

ROLE = "ROLE or ROLE:WORKFLOW, such as reviewer or operator:expense"


def add_people_commands(verbs: Any, setup: Setup) -> None:
    """Add the commands. ``setup`` starts Django for the options it is given."""
    _add_person(_family(verbs, "person", "accounts of people and programs"), setup)
    _add_group(_family(verbs, "group", "groups and their members"), setup)
    _add_grant(_family(verbs, "grant", "roles of people and groups"), setup)
    apply = add_local(verbs, "apply", _apply, setup, help_text="make people, groups and roles as a TOML file says")
    apply.add_argument("file", type=Path, help="the file; - reads the standard input")
    apply.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")
    apply.add_argument(
        "--prune", action="store_true", help="also take away what is not in the file: roles, members, groups, accounts"
    )


def _family(verbs: Any, name: str, help_text: str) -> Any:
    parser = verbs.add_parser(name, help=help_text, description=help_text)
    return parser.add_subparsers(required=True, metavar="COMMAND")


def _add_person(verbs: Any, setup: Setup) -> None:
    add = add_local(verbs, "add", _add, setup, help_text="make an account; 'wfdash signin NAME' prints a link for it")
    add.add_argument("name")
    add.add_argument("--email", default="")
    add.add_argument("--group", action="append", default=[], metavar="NAME", help="may be given again")
    add.add_argument("--role", action="append", default=[], metavar="ROLE", help=f"{ROLE}; may be given again")
    add.add_argument("--service", action="store_true", help="a service account: a program, which never signs in")
    add.add_argument("--about", default="", help="what a service account is for")
    listed = add_local(verbs, "list", _list_people, setup, help_text="list accounts with their roles and groups")
    listed.add_argument("--all", action="store_true", help="also deactivated ones")
    listed.add_argument("--json", action="store_true", help="as JSON")
    for name, act, words in (
        ("disable", _disable, "deactivate accounts: sign them out, revoke their tokens, take their rights"),
        ("enable", _enable, "give deactivated accounts back, with their roles and groups"),
    ):
        add_local(verbs, name, act, setup, help_text=words).add_argument("names", nargs="+", metavar="NAME")


def _add_group(verbs: Any, setup: Setup) -> None:
    add = add_local(verbs, "add", _make_group, setup, help_text="make a group")
    add.add_argument("name")
    add.add_argument("members", nargs="*", metavar="PERSON")
    add_local(verbs, "remove", _delete_group, setup, help_text="delete a group with its roles").add_argument("name")
    for name, act, words in (("join", _join, "add people to a group"), ("leave", _leave, "remove people from a group")):
        parser = add_local(verbs, name, act, setup, help_text=words)
        parser.add_argument("name", metavar="GROUP")
        parser.add_argument("members", nargs="+", metavar="PERSON")
    listed = add_local(verbs, "list", _list_groups, setup, help_text="list groups with their members")
    listed.add_argument("--json", action="store_true", help="as JSON")


def _add_grant(verbs: Any, setup: Setup) -> None:
    for name, act, words in (("add", _grant, "grant a role"), ("remove", _revoke, "revoke a role")):
        parser = add_local(verbs, name, act, setup, help_text=words)
        parser.add_argument("role", help=ROLE)
        parser.add_argument("person", nargs="?", default="", help="whose role it is, unless --group says")
        parser.add_argument("--group", default="")
    listed = add_local(verbs, "list", _list_grants, setup, help_text="list all grants")
    listed.add_argument("--json", action="store_true", help="as JSON")


def _add(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.access.viewer import viewer_for
    from wfdash.actions.people.accounts import create_person, create_service_account
    from wfdash.domain.people_file import role_in

    given = {"groups": options.group, "roles": [role_in(text) for text in options.role]}
    if options.service:
        create_service_account(viewer, options.name, about=options.about, **given)
        print(f"Service account {options.name} made. Next: wfdash token create {options.name} TOKEN_NAME")
    else:
        user = create_person(viewer, options.name, email=options.email, **given)
        print(f"{options.name} made. For a one-time sign-in link: wfdash signin {options.name}")
        if not viewer_for(user).rights:
            print(f"{options.name} has no role yet, so wfdash shows them nothing: wfdash grant add ROLE {options.name}")


def _list_people(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.queries.people.people import rows_of, visible_people

    rows = [
        {
            "name": row.name,
            "kind": "service account" if row.service else "person",
            "active": row.active,
            "roles": [role.name if role.everywhere else f"{role.name}:{role.workflow}" for role in row.roles],
            "groups": list(row.groups),
            "email": row.email,
            "last_sign_in": row.last_sign_in.isoformat(timespec="minutes") if row.last_sign_in else None,
        }
        for row in sorted(rows_of(viewer, visible_people(viewer)), key=lambda row: row.name)
        if row.active or options.all
    ]
    print_rows(rows, as_json=options.json, empty="No accounts")


def _disable(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.actions.people.accounts import deactivate_person

    for name in options.names:
        deactivate_person(viewer, name)
        print(f"{name} is deactivated")


def _enable(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.actions.people.accounts import reactivate_person

    for name in options.names:
        reactivate_person(viewer, name)
        print(f"{name} is active again")


def _make_group(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.actions.people.groups import make_group

    print(f"Group {make_group(viewer, options.name, members=options.members).name} made")


def _delete_group(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.actions.people.groups import delete_group

    delete_group(viewer, options.name)
    print(f"Group {options.name} deleted")


def _join(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.actions.people.groups import add_member

    for name in options.members:
        add_member(viewer, options.name, name)
        print(f"{name} is now in {options.name}")


def _leave(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.actions.people.groups import remove_member

    for name in options.members:
        remove_member(viewer, options.name, name)
        print(f"{name} is no longer in {options.name}")


def _list_groups(viewer: Any, options: argparse.Namespace) -> None:
    from django.contrib.auth.models import Group

    groups = Group.objects.order_by("name").prefetch_related("user_set")
    rows = [{"name": one.name, "members": sorted(user.get_username() for user in one.user_set.all())} for one in groups]
    print_rows(rows, as_json=options.json, empty="No groups")


def _grant(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.actions.people.grants import grant_role
    from wfdash.domain.people_file import role_in

    role, workflow = role_in(options.role)
    grant_role(viewer, role, workflow=workflow, person=options.person, group=options.group)
    print(f"{options.group or options.person} is now {role} of {_where(workflow)}")


def _revoke(viewer: Any, options: argparse.Namespace) -> None:
    from django.db.models import Q

    from checkpoints.models import Grant
    from checkpoints.models.user_model import has_name
    from wfdash.actions.people.grants import revoke_role
    from wfdash.domain.people_file import role_in
    from wfdash.errors import NotFound

    role, workflow = role_in(options.role)
    holder = Q(group__name=options.group) if options.group else has_name(options.person, through="user")
    found = Grant.objects.filter(holder, role=role, workflow=workflow).first()
    if found is None:
        raise NotFound(f"{options.group or options.person} is not {role} of {_where(workflow)} by a grant of their own")
    revoke_role(viewer, found.pk)
    print(f"{options.group or options.person} is no longer {role} of {_where(workflow)}")


def _list_grants(viewer: Any, options: argparse.Namespace) -> None:
    from checkpoints.models import Grant

    rows = [
        {
            "role": grant.role,
            "workflow": grant.workflow,
            "person": grant.user.get_username() if grant.user else None,
            "group": grant.group.name if grant.group else None,
        }
        for grant in Grant.objects.select_related("user", "group").order_by("workflow", "role", "pk")
    ]
    print_rows(rows, as_json=options.json, empty="No grants")


def _apply(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.actions.people.apply import apply_people
    from wfdash.domain.people_file import BadPeopleFile
    from wfdash.errors import WfdashError

    try:
        text = sys.stdin.read() if str(options.file) == "-" else options.file.read_text("utf-8")
        done = apply_people(viewer, text, prune=options.prune, dry_run=options.dry_run)
    except (BadPeopleFile, OSError, UnicodeDecodeError) as error:
        raise WfdashError(f"{options.file}: {error}" if isinstance(error, BadPeopleFile) else str(error)) from None
    for words in done:
        print(f"would {words}" if options.dry_run else words)
    print(f"{len(done)} change{'' if len(done) == 1 else 's'}{' (nothing was changed)' if options.dry_run else ''}")


def _where(workflow: str) -> str:
    return "every workflow" if workflow == "*" else workflow
