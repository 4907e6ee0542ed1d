"""Invite people, deactivate and reactivate accounts. They are never deleted, because runs and requests name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils import timezone

from checkpoints.limits import cleaned
from checkpoints.models import ServiceAccount
from checkpoints.models.user_model import EMAIL, User, new_user
from wfdash.access.directory import find_group, is_service, problem_of_person
from wfdash.access.signin.links import LIFETIME, create_link, revoke_links
from wfdash.access.signin.open_sessions import end_sessions
from wfdash.access.viewer import EVERY, Viewer
from wfdash.actions import audit
from wfdash.actions.account.tokens import end_tokens
from wfdash.actions.pacing import idempotent, made_before
from wfdash.actions.people.authority import administering, find_other, lock_group
from wfdash.actions.people.grants import give
from wfdash.domain.errors import Invalid, WrongState
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


@dataclass(frozen=True, kw_only=True)
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
    about = " ".join(cleaned(about).split())
    if len(about) > LONGEST_ABOUT:
        raise Invalid([{"loc": ["about"], "msg": f"At most {LONGEST_ABOUT} characters"}])
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
        problems.append({"loc": ["roles"], "msg": f"At most {MOST_ROLES} roles"})
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
        return [{"loc": ["email"], "msg": "Enter an email address such as ana@example.org"}]
    return [] if len(email) <= LONGEST_MAIL else [{"loc": ["email"], "msg": f"At most {LONGEST_MAIL} characters"}]


def _no_name(name: str) -> list[Problem]:
    problem = problem_of_person(User.normalize_username(name)) if name else "Enter a user name"
    return [{"loc": ["name"], "msg": problem}] if problem else []


def _no_groups(groups: Sequence[str]) -> list[Problem]:
    unknown = [group for group in groups if find_group(group) is None]
    how = "Add the group first, on the page Groups or by 'wfdash group add'"
    return [{"loc": ["groups"], "msg": f"Group {unknown[0][:80]} not found. {how}"}] if unknown else []


def _give(viewer: Viewer, user: User, role: str, workflow: str) -> None:
    try:
        give(viewer, role, workflow, person=user.get_username())
    except Invalid as error:
        raise Invalid([{"loc": ["roles"], "msg": str(one["msg"])} for one in error.errors]) from None
