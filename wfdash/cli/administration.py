"""``wfdash token|person|group|grant|apply|retention``: administration of the data directory itself."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from wfdash.cli.commands import administration, argument, family, flag, several
from wfdash.cli.output import Output

USUAL_RIGHTS = "see,inspect,answer,start,code,operate"
KEPT_FOREVER = "WFDASH_KEEP_RUNS is not set: ended runs are kept forever"
JSON = flag("--json", "as JSON")


def _create_token(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.actions.account import create_token
    from wfdash.domain.errors import Invalid

    if given.days != "never" and not (given.days.isascii() and given.days.isdigit()):
        raise Invalid.at("days", "Enter a number of days, or never")
    made = create_token(
        viewer,
        given.name,
        rights=[right for part in given.rights.split(",") if (right := part.strip())],
        workflows=given.workflow or ["*"],
        days=None if given.days == "never" else int(given.days),
        owner=given.owner,
    )
    expires = f"until {made.token.expires:%Y-%m-%d}" if made.token.expires else "until it is revoked"
    output.note(f"Token {made.token.pk} of {given.owner}, {expires}. It is shown only now:")
    output.line(made.text)


def _list_tokens(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.queries.account import all_tokens

    rows = [
        {
            "id": token.id,
            "owner": token.owner,
            "name": token.name,
            "rights": list(token.rights),
            "workflows": list(token.workflows),
            "expires": token.expires.isoformat(timespec="minutes") if token.expires else None,
            "used": token.used.isoformat(timespec="minutes") if token.used else None,
            "state": token.state,
        }
        for token in all_tokens(viewer, owner=given.owner, ended=given.all)
    ]
    output.rows(rows, "id owner name rights workflows expires used state", none="No tokens")


def _revoke_tokens(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.actions.account import revoke_token

    for one in given.ids:
        token = revoke_token(viewer, one)
        output.line(f"Revoked {token.name} of {token.owner.get_username()}")


TOKEN = family(
    "token",
    "make, list and revoke the tokens of programs",
    administration(
        "create",
        "make a token and print it, once",
        _create_token,
        argument("owner", "the person or service account that a program acts as"),
        argument("name", "what will use it, such as ci"),
        argument(
            "--rights",
            f"comma-separated, of those its owner has; also admin (default: {USUAL_RIGHTS})",
            default=USUAL_RIGHTS,
        ),
        several("--workflow", "only for this one; may be given again", metavar="NAME"),
        argument("--days", "how long it works, or 'never' to expire (default: 90)", default="90"),
        epilog="The token alone goes to the standard output: WFDASH_TOKEN=$(wfdash token create ana ci)",
    ),
    administration(
        "list",
        "list tokens, without their secrets",
        _list_tokens,
        argument("owner", "only those of this account", nargs="?", default=""),
        flag("--all", "also revoked and expired ones"),
        JSON,
    ),
    administration(
        "revoke",
        "make tokens useless at once",
        _revoke_tokens,
        argument("ids", "as 'wfdash token list' shows it", nargs="+", metavar="ID"),
    ),
)


def _add_person(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.access.viewer import viewer_for
    from wfdash.actions.people.accounts import create_person, create_service_account
    from wfdash.domain.people_file import role_in

    name, belongs = given.name, {"groups": given.group, "roles": [role_in(text) for text in given.role]}
    if given.service:
        create_service_account(viewer, name, about=given.about, **belongs)
        return output.line(f"Service account {name} made. Next: wfdash token create {name} TOKEN_NAME")
    user = create_person(viewer, name, email=given.email, **belongs)
    output.line(f"{name} made. For a one-time sign-in link: wfdash signin {name}")
    if not viewer_for(user).rights:
        output.line(f"{name} has no role yet, so wfdash shows them nothing: wfdash grant add ROLE {name}")
    return None


def _list_people(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.queries.people import rows_of, visible_people

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
        if row.active or given.all
    ]
    output.rows(rows, "name kind active roles groups email last_sign_in", none="No accounts")


def _disable(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.actions.people.accounts import deactivate_person

    for name in given.names:
        deactivate_person(viewer, name)
        output.line(f"{name} is deactivated")


def _enable(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.actions.people.accounts import reactivate_person

    for name in given.names:
        reactivate_person(viewer, name)
        output.line(f"{name} is active again")


NAMES = argument("names", nargs="+", metavar="NAME")
ROLE = "ROLE or ROLE:WORKFLOW, such as reviewer or operator:expense"
PERSON = family(
    "person",
    "accounts of people and programs",
    administration(
        "add",
        "make an account; 'wfdash signin NAME' prints a link for it",
        _add_person,
        argument("name"),
        argument("--email", default=""),
        several("--group", "may be given again", metavar="NAME"),
        several("--role", f"{ROLE}; may be given again", metavar="ROLE"),
        flag("--service", "a service account: a program, which never signs in"),
        argument("--about", "what a service account is for", default=""),
    ),
    administration(
        "list",
        "list accounts with their roles and groups",
        _list_people,
        flag("--all", "also deactivated ones"),
        JSON,
    ),
    administration(
        "disable", "deactivate accounts: sign them out, revoke their tokens, take their rights", _disable, NAMES
    ),
    administration("enable", "give deactivated accounts back, with their roles and groups", _enable, NAMES),
)


def _make_group(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.actions.people.roles import make_group

    output.line(f"Group {make_group(viewer, given.name, members=given.members).name} made")


def _delete_group(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.actions.people.roles import delete_group

    delete_group(viewer, given.name)
    output.line(f"Group {given.name} deleted")


def _join(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.actions.people.roles import add_member

    for name in given.members:
        add_member(viewer, given.name, name)
        output.line(f"{name} is now in {given.name}")


def _leave(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.actions.people.roles import remove_member

    for name in given.members:
        remove_member(viewer, given.name, name)
        output.line(f"{name} is no longer in {given.name}")


def _list_groups(viewer: Any, given: Namespace, output: Output) -> None:
    from django.contrib.auth.models import Group

    groups = Group.objects.order_by("name").prefetch_related("user_set")
    rows = [{"name": one.name, "members": sorted(user.get_username() for user in one.user_set.all())} for one in groups]
    output.rows(rows, "name members", none="No groups")


GROUP_NAME = argument("name", metavar="GROUP")
MEMBERS = argument("members", nargs="+", metavar="PERSON")
GROUP = family(
    "group",
    "groups and their members",
    administration(
        "add", "make a group", _make_group, argument("name"), argument("members", nargs="*", metavar="PERSON")
    ),
    administration("remove", "delete a group with its roles", _delete_group, argument("name")),
    administration("join", "add people to a group", _join, GROUP_NAME, MEMBERS),
    administration("leave", "remove people from a group", _leave, GROUP_NAME, MEMBERS),
    administration("list", "list groups with their members", _list_groups, JSON),
)


def _grant(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.actions.people.roles import grant_role
    from wfdash.domain.people_file import role_in

    role, workflow = role_in(given.role)
    grant_role(viewer, role, workflow=workflow, person=given.person, group=given.group)
    output.line(f"{given.group or given.person} is now {role} of {_where(workflow)}")


def _revoke(viewer: Any, given: Namespace, output: Output) -> None:
    from django.db.models import Q

    from checkpoints.models import Grant
    from checkpoints.models.user_model import has_name
    from wfdash.actions.people.roles import revoke_role
    from wfdash.domain.errors import NotFound
    from wfdash.domain.people_file import role_in

    (role, workflow), name = role_in(given.role), given.group or given.person
    holder = Q(group__name=given.group) if given.group else has_name(given.person, through="user")
    found = Grant.objects.filter(holder, role=role, workflow=workflow).first()
    if found is None:
        raise NotFound(f"{name} is not {role} of {_where(workflow)} by a grant of their own")
    revoke_role(viewer, found.pk)
    output.line(f"{name} is no longer {role} of {_where(workflow)}")


def _where(workflow: str) -> str:
    return "every workflow" if workflow == "*" else workflow


def _list_grants(viewer: Any, given: Namespace, output: Output) -> None:
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
    output.rows(rows, "role workflow person group", none="No grants")


HOLDER = (
    argument("role", ROLE),
    argument("person", "whose role it is, unless --group says", nargs="?", default=""),
    argument("--group", default=""),
)
GRANT = family(
    "grant",
    "roles of people and groups",
    administration("add", "grant a role", _grant, *HOLDER),
    administration("remove", "revoke a role", _revoke, *HOLDER),
    administration("list", "list all grants", _list_grants, JSON),
)


def _apply(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.actions.people.accounts import apply_people
    from wfdash.domain.errors import WfdashError
    from wfdash.domain.people_file import BadPeopleFile

    try:
        text = sys.stdin.read() if str(given.file) == "-" else given.file.read_text("utf-8")
        done = apply_people(viewer, text, prune=given.prune, dry_run=given.dry_run)
    except (BadPeopleFile, OSError, UnicodeDecodeError) as error:
        raise WfdashError(f"{given.file}: {error}" if isinstance(error, BadPeopleFile) else str(error)) from None
    for change in done:
        output.line(f"would {change}" if given.dry_run else change)
    output.line(f"{len(done)} change{'' if len(done) == 1 else 's'}{' (nothing was changed)' * given.dry_run}")


APPLY = administration(
    "apply",
    "make people, groups and roles as a TOML file says",
    _apply,
    argument("file", "the file; - reads the standard input", type=Path),
    flag("--dry-run", "print what would change, and change nothing"),
    flag("--prune", "also take away what is not in the file: roles, members, groups, accounts"),
)


def _show_removal(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.queries.runs.retention import current_rules, plan_removal

    rules = current_rules()
    plan = plan_removal(rules)
    rows: list[dict[str, Any]] = [
        {**vars(one), "oldest": f"{one.oldest:%Y-%m-%d}", "newest": f"{one.newest:%Y-%m-%d}"} for one in plan.removed
    ]
    if output.as_json:
        found = {"keep": rules.as_json(), "runs": plan.runs, "workflows": rows, "kept": dict(plan.kept)}
        return output.data(found)
    output.line(f"Ended runs are kept: {rules}" if rules else KEPT_FOREVER)
    if rules:
        output.rows(rows, "workflow days runs oldest newest", none="No run would be removed")
    for words, count in plan.kept.items():
        output.line(f"{count:,} older ones stay because of {words}")
    return None


def _remove(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.actions.pacing import rest_after
    from wfdash.actions.retention import RunRemover
    from wfdash.domain.errors import WrongState
    from wfdash.queries.runs.retention import current_rules

    if not current_rules():
        raise WrongState(KEPT_FOREVER)
    remover, runs, rows = RunRemover(), 0, 0
    while not (batch := remover.remove_next()).last:
        runs, rows = runs + len(batch.runs), rows + batch.rows
        time.sleep(rest_after(batch.seconds))
    output.line(f"Removed {runs:,} runs, {rows:,} rows")


def _read_archive(viewer: Any, given: Namespace, output: Output) -> None:
    from wfdash.actions.retention import read_archive
    from wfdash.domain.errors import NotFound, WrongState

    try:
        # The last line of a run counts: an earlier one was written when it stayed after all.
        found = {one["run"]: one for one in read_archive(given.files, given.wanted)}
    except (OSError, ValueError) as error:
        raise WrongState(str(error)) from error
    if not given.wanted:
        output.rows([*found.values()], "run workflow finished archived")
    elif given.wanted in found:
        output.data(found[given.wanted])
    else:
        raise NotFound(f"No file has the run {given.wanted}")


RETENTION = family(
    "retention",
    "say which runs are old, remove them, read archived ones",
    administration("show", "say what WFDASH_KEEP_RUNS would remove now", _show_removal, JSON),
    administration("remove", "remove now what WFDASH_KEEP_RUNS does not keep, as workers do while they run", _remove),
    administration(
        "read",
        "list the runs in files of the archive, or print one",
        _read_archive,
        argument("files", "runs-2026-11-23.jsonl", nargs="+", type=Path, metavar="FILE"),
        argument("--run", "print this run as JSON", dest="wanted", default="", metavar="ID"),
    ),
)
COMMANDS = (TOKEN, PERSON, GROUP, GRANT, APPLY, RETENTION)
