"""Invite people, deactivate and reactivate accounts, reset their sign-in; or all of it by a file of people.

Accounts are never deleted, because runs and requests name them. For a file what differs is found first, then
changed by the same actions as on pages, all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.models import Absence, ChatAccount, Grant, ServiceAccount
from checkpoints.models.user_model import EMAIL, USERNAME, User, email_of, new_user
from checkpoints.records import frozen
from wfdash.access.directory import find_group, is_service, problem_of_person
from wfdash.access.signin import second_factor
from wfdash.access.signin.links import LIFETIME, create_link, revoke_links
from wfdash.access.signin.sessions import end_sessions
from wfdash.access.viewer import EVERY, RIGHTS, Viewer, viewer_for
from wfdash.actions import audit
from wfdash.actions.account import absence_facts, end_tokens, insert_absence, remove_absence
from wfdash.actions.pacing import idempotent, made_before
from wfdash.actions.people.roles import (
    add_member,
    administering,
    delete_group,
    find_other,
    give,
    grant_role,
    lock_group,
    make_group,
    remove_member,
    revoke_role,
)
from wfdash.domain.errors import Invalid, NotAllowed, WrongState, wrong
from wfdash.domain.people_file import Account, BadPeopleFile, FileProblem, PeopleFile, RoleLine, read_people
from wfdash.domain.search_attributes import cleaned
from wfdash.installation.provider import Provider
from wfdash.notifications.letters import mail_link
from wfdash.values.schemas.validate import Problem

INVITED = timedelta(days=3)
"""How long the link of an invitation can be used."""
NO_ADDRESS = (
    "Who has this address could sign in or answer as {name}, so no one changes it on pages here. On the server, "
    "wfdash apply does"
)
NO_LINKS = "No one makes sign-in links on pages here. On the server, wfdash signin NAME prints one"
LONGEST_MAIL = 254
LONGEST_ABOUT = 300
MOST_ROLES = 50


@frozen
class Invitation:
    """A person with their one-time sign-in link, which is stored nowhere; empty where no links are made.

    ``mailed``: it was sent to them as well; None: mail is not configured, or they have no address.
    """

    user: User
    link: str
    mailed: bool | None = None


def invite_person(
    viewer: Viewer,
    name: str,
    *,
    email: str = "",
    groups: Sequence[str] = (),
    roles: Sequence[tuple[str, str]] = (),
    base: str = "",
    key: str | None = None,
) -> Invitation:
    """Create an account with groups and roles (``(role, workflow)``), and a link that signs the person in once, unless
    ``WFDASH_LINKS`` is 0.

    ``base``: the address of the dashboard. The same ``key`` invites once, and returns the link each time. ``Invalid``
    with errors per field (``name``, ``email``, ``groups``, ``roles``), ``NotAllowed``.
    """
    email, command = email.strip(), [name, email, *groups, *map(list, roles)]
    with administering(viewer), idempotent(viewer, key, "invite person", command) as call:
        known = call.previous_result
        user = _make(viewer, name.strip(), email, groups, roles) if known is None else made_before(User, known["user"])
        call.record(user=user.pk)
        once = f"{viewer.user.pk} {key}" if key else ""
        link = create_link(user, base=base, lifetime=INVITED, once=once) if settings.WFDASH_LINKS else ""
    if known is not None:
        return Invitation(user=user, link=link)
    mailed = mail_link(user, link, by=viewer.name, lifetime=INVITED, first=True)
    return Invitation(user=user, link=link, mailed=mailed)


def create_person(
    viewer: Viewer,
    name: str,
    *,
    email: str = "",
    groups: Sequence[str] = (),
    roles: Sequence[tuple[str, str]] = (),
) -> User:
    """Create a person's account as ``invite_person`` does, without a link: they get one when they are to sign in."""
    with administering(viewer):
        return _make(viewer, name.strip(), email.strip(), groups, roles)


def create_service_account(
    viewer: Viewer,
    name: str,
    *,
    about: str = "",
    groups: Sequence[str] = (),
    roles: Sequence[tuple[str, str]] = (),
) -> User:
    """Create an account of a program, which never signs in: it acts by tokens. ``about``: what it is for.

    ``Invalid`` with errors per field (``name``, ``about``, ``groups``, ``roles``), ``NotAllowed``.
    """
    about = cleaned(about, LONGEST_ABOUT + 1)
    if len(about) > LONGEST_ABOUT:
        raise Invalid.at("about", f"At most {LONGEST_ABOUT} characters")
    with administering(viewer):
        user = _make(viewer, name.strip(), "", groups, roles)
        ServiceAccount.objects.create(user=user, about=about, created=timezone.now())
        facts = {"user": user.get_username(), "about": about}
        audit.record(viewer, "create service account", right="admin", facts=facts)
    return user


def _make(viewer: Viewer, name: str, email: str, groups: Sequence[str], roles: Sequence[tuple[str, str]]) -> User:
    """Create an account without a password, in the caller's transaction. ``Invalid``."""
    problems = [*_no_name(name), *no_address(email), *_no_groups(groups)]
    if len(roles) > MOST_ROLES:
        problems.append(wrong("roles", f"At most {MOST_ROLES} roles"))
    if problems:
        raise Invalid(problems)
    user = new_user(name, email=email)
    user.save(force_insert=True)
    for group in dict.fromkeys(groups):
        user.groups.add(lock_group(viewer, group))
    for role, workflow in dict.fromkeys(roles):
        _give(viewer, user, role, workflow.strip() or EVERY)
    return user


def make_sign_in_link(viewer: Viewer, name: str, *, base: str = "", key: str | None = None) -> Invitation:
    """Return a link that signs another active person in once; links made before end. The same ``key`` makes one link.

    ``WrongState`` if they are deactivated, or where no links are made.
    """
    if not settings.WFDASH_LINKS:
        raise WrongState(NO_LINKS)
    with administering(viewer), idempotent(viewer, key, "make sign-in link", [name]) as call:
        user = find_other(viewer, name)
        if not user.is_active:
            raise WrongState(f"{name} is deactivated. Reactivate the account first")
        if call.previous_result is None:
            revoke_links(user)
        link = create_link(user, base=base, once=f"{viewer.user.pk} {key}" if key else "")
    if call.previous_result is not None:
        return Invitation(user=user, link=link)
    return Invitation(user=user, link=link, mailed=mail_link(user, link, by=viewer.name, lifetime=LIFETIME))


def change_address(viewer: Viewer, name: str, email: str) -> None:
    """Set the mail address of a person, or remove it. ``Invalid`` at ``email``; ``WrongState`` for a program.

    ``WrongState`` also where ``WFDASH_LINKS=0`` keeps admins from signing in as others, and an address would let them,
    because the provider connects people by their addresses, or mails bring the links by which they answer: then only a
    command on the server sets one.
    """
    email = email.strip()
    with administering(viewer):
        user = find_other(viewer, name)
        if is_service(user):
            raise WrongState(f"{name} is a service account: it gets no mail")
        if problems := no_address(email):
            raise Invalid(problems)
        provider: Provider | None = settings.WFDASH_OIDC
        by_address = (provider is not None and provider.by_email) or settings.WFDASH_MAIL
        if email and by_address and not settings.WFDASH_LINKS and viewer.user.pk is not None:
            raise WrongState(NO_ADDRESS.format(name=name))
        setattr(user, EMAIL, email)
        user.save(update_fields=[EMAIL])


def deactivate_person(viewer: Viewer, name: str) -> None:
    """Keep a person from signing in and take all their rights until they are reactivated. Sessions, links and tokens
    end.
    """
    with administering(viewer):
        user = find_other(viewer, name)
        if not user.is_active:
            raise WrongState(f"{name} is deactivated already")
        user.is_active = False
        user.save(update_fields=["is_active"])
        revoke_links(user)
        end_tokens(user)
        end_sessions(user.pk)
        ChatAccount.objects.filter(user=user).delete()


def reactivate_person(viewer: Viewer, name: str) -> None:
    """Give a deactivated person their account back, with the groups and roles it had."""
    with administering(viewer):
        user = find_other(viewer, name)
        if user.is_active:
            raise WrongState(f"{name} is active already")
        user.is_active = True
        user.save(update_fields=["is_active"])


def no_address(email: str) -> list[Problem]:
    """Return the error of a mail address; none for an empty one."""
    try:
        if email:
            validate_email(email)
    except ValidationError:
        return [wrong("email", "Enter an email address such as ana@example.org")]
    return [] if len(email) <= LONGEST_MAIL else [wrong("email", f"At most {LONGEST_MAIL} characters")]


def _no_name(name: str) -> list[Problem]:
    problem = problem_of_person(User.normalize_username(name)) if name else "Enter a user name"
    return [wrong("name", problem)] if problem else []


def _no_groups(groups: Sequence[str]) -> list[Problem]:
    unknown = [group for group in groups if find_group(group) is None]
    how = "Add the group first, on the page Groups or by 'wfdash group add'"
    return [wrong("groups", f"Group {unknown[0][:80]} not found. {how}")] if unknown else []


def _give(viewer: Viewer, user: User, role: str, workflow: str) -> None:
    try:
        give(viewer, role, workflow, person=user.get_username())
    except Invalid as error:
        raise Invalid([wrong("roles", str(one["msg"])) for one in error.errors]) from None


LONGEST_REASON = 300


def end_sessions_of(viewer: Viewer, name: str) -> int:
    """Sign another person out everywhere, and end their unused sign-in links. Return how many sessions there were."""
    with administering(viewer):
        user = find_other(viewer, name)
        count = end_sessions(user.pk)
        revoke_links(user)
        audit.record(viewer, "end sessions", right="admin", facts={"user": name, "sessions": count})
    return count


def reset_second_factor(viewer: Viewer, name: str) -> None:
    """Remove another person's second factor, because they lost it. ``WrongState`` if there is none."""
    with administering(viewer):
        if not second_factor.reset(find_other(viewer, name)):
            raise WrongState(f"{name} has no second factor")


def set_absence_of(
    viewer: Viewer, name: str, delegate: str, since: datetime, until: datetime, *, reason: str
) -> Absence:
    """Name a delegate for another person who is away and did not do it themselves.

    ``NotAllowed`` to name oneself: an admin would decide with someone else's vote. ``Invalid`` with errors per field.
    """
    with administering(viewer):
        person = viewer_for(find_other(viewer, name))
        if delegate == viewer.name:
            raise NotAllowed("You cannot make yourself someone's delegate. Choose someone else")
        absence = insert_absence(person, delegate, since, until)
        reason = cleaned(reason, LONGEST_REASON + 1)
        if not reason:
            raise Invalid.at("reason", "Enter a reason")
        if len(reason) > LONGEST_REASON:
            raise Invalid.at("reason", f"At most {LONGEST_REASON} characters")
        facts = {"user": name, **absence_facts(absence), "reason": reason}
        audit.record(viewer, "away", right="admin", facts=facts)
    return absence


def end_absence_of(viewer: Viewer, name: str, absence_id: int) -> None:
    """End another person's absence now, or delete one that has not started. ``NotFound``."""
    with administering(viewer):
        absence = remove_absence(find_other(viewer, name), absence_id)
        facts = {"user": name, "delegate": absence.delegate.get_username()}
        audit.record(viewer, "back", right="admin", facts=facts)


@frozen
class Change:
    """Something that the file wants and the database does not have. ``words``: what is done, for people."""

    words: str
    do: Callable[..., Any]
    args: tuple[Any, ...]


@frozen
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
            yield Change(words=f"make group {group}", do=make_group, args=(group,))
    for account in file.accounts.values():
        yield from _account_changes(account, known.users.get(account.name))
    for group, name in file.members:
        if (group, name) not in known.members:
            yield Change(words=f"add {name} to group {group}", do=add_member, args=(group, name))
    for line in file.roles:
        if line not in known.grants:
            yield Change(words=f"grant {_text(line)}", do=_grant, args=(line,))
    for account in file.accounts.values():
        user = known.users.get(account.name)
        if not account.active and (user is None or user.is_active):
            yield Change(words=f"deactivate {account.name}", do=deactivate_person, args=(account.name,))


def _account_changes(account: Account, user: User | None) -> Iterator[Change]:
    name, email = account.name, account.email
    if user is None:
        kind = "service account" if account.service else "person"
        yield Change(words=f"make {kind} {name}", do=_make_account, args=(account,))
        return
    if account.active and not user.is_active:
        yield Change(words=f"reactivate {name}", do=reactivate_person, args=(name,))
    if email is not None and email != email_of(user):
        words = f"set the email of {name} to {email or 'none'}"
        yield Change(words=words, do=change_address, args=(name, email))


def _surplus(file: PeopleFile, known: Known) -> Iterator[Change]:
    for line, pk in known.grants.items():
        # What a group that is deleted has goes with it.
        if line not in file.roles and not (line.group and line.holder not in file.groups):
            yield Change(words=f"revoke {_text(line)}", do=revoke_role, args=(pk,))
    for group, name in sorted(known.members - set(file.members)):
        if group in file.groups:
            yield Change(words=f"remove {name} from group {group}", do=remove_member, args=(group, name))
    for group in sorted(known.groups - set(file.groups)):
        yield Change(words=f"delete group {group}", do=delete_group, args=(group,))
    for name, user in sorted(known.users.items()):
        if name not in file.accounts and user.is_active and not user.is_superuser:
            yield Change(words=f"deactivate {name}", do=deactivate_person, args=(name,))


def _make_account(viewer: Viewer, account: Account) -> None:
    if account.service:
        create_service_account(viewer, account.name, about=account.about)
    else:
        create_person(viewer, account.name, email=account.email or "")


def _grant(viewer: Viewer, line: RoleLine) -> None:
    holder = {"group": line.holder} if line.group else {"person": line.holder}
    grant_role(viewer, line.role, workflow=line.workflow, **holder)


def _text(line: RoleLine) -> str:
    where = "every workflow" if line.workflow == "*" else line.workflow
    return f"{line.role} of {where} to {'group ' if line.group else ''}{line.holder}"
