"""Apply a file of people: what differs is found first, then changed by the same actions as on pages, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Group

from checkpoints.database.storage import write
from checkpoints.models import Grant, ServiceAccount
from checkpoints.models.user_model import USERNAME, User, email_of
from wfdash.access.viewer import RIGHTS, Viewer
from wfdash.actions.people import accounts, grants, groups
from wfdash.domain.people_file import Account, BadPeopleFile, FileProblem, PeopleFile, RoleLine, read_people


@dataclass(frozen=True, kw_only=True)
class Change:
    """Something that the file wants and the database does not have. ``words``: what is done, for people."""

    words: str
    do: Callable[..., Any]
    args: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Known:
    """What there is now. ``grants``: role -> the id of its grant."""

    users: dict[str, User]
    services: frozenset[str]
    groups: frozenset[str]
    members: frozenset[tuple[str, str]]
    grants: dict[RoleLine, int]


def apply_people(viewer: Viewer, text: str, *, prune: bool = False, dry_run: bool = False) -> list[str]:
    """Make people, groups and roles as a file says, and return what was changed (with ``dry_run``: would be).

    Applied again, it changes nothing. ``prune``: also revoke roles, remove members, delete groups and deactivate
    accounts that are not in it, superusers apart. ``BadPeopleFile`` with lines; what an action refuses undoes
    everything.
    """
    file = read_people(text, roles=tuple(RIGHTS))
    with write():
        known = _known()
        if problems := list(_unknown_names(file, known)):
            raise BadPeopleFile(problems)
        changes = [*_wanted(file, known), *(_surplus(file, known) if prune else ())]
        if not dry_run:
            for change in changes:
                change.do(viewer, *change.args)
    return [change.words for change in changes]


def _known() -> Known:
    users = {user.get_username(): user for user in User.objects.all()}
    members = User.groups.through.objects.values_list("group__name", f"user__{USERNAME}")
    rows = Grant.objects.values_list("pk", f"user__{USERNAME}", "group__name", "role", "workflow")
    return Known(
        users=users,
        services=frozenset(ServiceAccount.objects.values_list(f"user__{USERNAME}", flat=True)),
        groups=frozenset(Group.objects.values_list("name", flat=True)),
        members=frozenset(members),
        grants={
            RoleLine(holder=user or group, group=not user, role=role, workflow=workflow): pk
            for pk, user, group, role, workflow in rows
        },
    )


def _unknown_names(file: PeopleFile, known: Known) -> Iterator[FileProblem]:
    for group, name in file.members:
        if group not in file.groups and group not in known.groups:
            line = file.line("people", name) or file.line("service_accounts", name)
            yield FileProblem(line=line, words=f"{name} is in group {group}, which does not exist")
        if name not in file.accounts and name not in known.users:
            words = f"member {name} of {group} does not exist"
            yield FileProblem(line=file.line("groups", group), words=words)
    for name, account in file.accounts.items():
        if name in known.users and account.service != (name in known.services):
            section, other = ("service_accounts", "a person") if account.service else ("people", "a service account")
            yield FileProblem(line=file.line(section, name), words=f"{name} exists and is {other}")


def _wanted(file: PeopleFile, known: Known) -> Iterator[Change]:
    for group in file.groups:
        if group not in known.groups:
            yield Change(words=f"make group {group}", do=groups.make_group, args=(group,))
    for account in file.accounts.values():
        yield from _account_changes(account, known.users.get(account.name))
    for group, name in file.members:
        if (group, name) not in known.members:
            yield Change(words=f"add {name} to group {group}", do=groups.add_member, args=(group, name))
    for line in file.roles:
        if line not in known.grants:
            yield Change(words=f"grant {_text(line)}", do=_grant, args=(line,))
    for account in file.accounts.values():
        user = known.users.get(account.name)
        if not account.active and (user is None or user.is_active):
            yield Change(words=f"deactivate {account.name}", do=accounts.deactivate_person, args=(account.name,))


def _account_changes(account: Account, user: User | None) -> Iterator[Change]:
    name, email = account.name, account.email
    if user is None:
        kind = "service account" if account.service else "person"
        yield Change(words=f"make {kind} {name}", do=_make, args=(account,))
        return
    if account.active and not user.is_active:
        yield Change(words=f"reactivate {name}", do=accounts.reactivate_person, args=(name,))
    if email is not None and email != email_of(user):
        words = f"set the email of {name} to {email or 'none'}"
        yield Change(words=words, do=accounts.change_address, args=(name, email))


def _surplus(file: PeopleFile, known: Known) -> Iterator[Change]:
    for line, pk in known.grants.items():
        # What a group that is deleted has goes with it.
        if line not in file.roles and not (line.group and line.holder not in file.groups):
            yield Change(words=f"revoke {_text(line)}", do=grants.revoke_role, args=(pk,))
    for group, name in sorted(known.members - set(file.members)):
        if group in file.groups:
            yield Change(words=f"remove {name} from group {group}", do=groups.remove_member, args=(group, name))
    for group in sorted(known.groups - set(file.groups)):
        yield Change(words=f"delete group {group}", do=groups.delete_group, args=(group,))
    for name, user in sorted(known.users.items()):
        if name not in file.accounts and user.is_active and not user.is_superuser:
            yield Change(words=f"deactivate {name}", do=accounts.deactivate_person, args=(name,))


def _make(viewer: Viewer, account: Account) -> None:
    if account.service:
        accounts.create_service_account(viewer, account.name, about=account.about)
    else:
        accounts.create_person(viewer, account.name, email=account.email or "")


def _grant(viewer: Viewer, line: RoleLine) -> None:
    holder = {"group": line.holder} if line.group else {"person": line.holder}
    grants.grant_role(viewer, line.role, workflow=line.workflow, **holder)


def _text(line: RoleLine) -> str:
    where = "every workflow" if line.workflow == "*" else line.workflow
    return f"{line.role} of {where} to {'group ' if line.group else ''}{line.holder}"
