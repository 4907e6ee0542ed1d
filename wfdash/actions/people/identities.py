"""Sign-in at the provider: find, connect or make the account of an identity, and follow the provider's groups.

Only issuer and subject say who someone is. Names and addresses can be changed, and given to someone else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from django.contrib.auth.models import Group
from django.db import IntegrityError

from checkpoints.database.storage import write
from checkpoints.models.user_model import EMAIL, User, email_of, fields_of, is_staff, new_user
from wfdash.access.directory import (
    find_group,
    is_service,
    people_who,
    problem_of_group,
    problem_of_person,
    refuse_token,
)
from wfdash.access.signin import second_factor
from wfdash.access.signin.identities import ProviderIdentity, groups_here, identities, identity_row, is_same_address
from wfdash.access.signin.sessions import end_sessions
from wfdash.access.viewer import EVERY, RIGHTS, Viewer, viewer_for
from wfdash.actions import audit
from wfdash.actions.account import check_identity
from wfdash.actions.audit import acting
from wfdash.actions.people import accounts
from wfdash.actions.people.roles import administering, find_other
from wfdash.domain.errors import NotAllowed, WrongState
from wfdash.installation.provider import Provider

log = logging.getLogger(__name__)

PROVIDER = "sign-in provider"
"""Who changes accounts and groups at a sign-in, in the audit. No person has such a name."""
STRANGER = (
    "{provider} knows you, but no account here is connected with you there. Sign in with a link or password and connect"
    " it under Settings, Account, or ask an administrator for an invitation"
)
DEACTIVATED = "The account {name} is deactivated. Ask an administrator"
TAKEN = (
    "The user name that {provider} gives you, {name!r}, cannot be used here: {problem}. If that account is yours, sign"
    " in to it another way and connect it under Settings, Account; otherwise ask an administrator"
)
NAMELESS = "{provider} gives you no name that can be a user name here. Ask an administrator for an invitation"


def sign_in_at(provider: Provider, identity: ProviderIdentity) -> User:
    """Return the account of an identity, connected or made where the settings allow it, with the groups it has now.

    ``NotAllowed`` for who has no account or a deactivated one; ``WrongState`` where another account has the name.
    """
    try:
        return _sign_in_at(provider, identity)
    except IntegrityError:
        return _sign_in_at(provider, identity)  # The same person's first sign-in came through at the same moment.


def connect_identity(viewer: Viewer, provider: Provider, identity: ProviderIdentity) -> None:
    """Connect one's own account with one's identity at the provider. ``WrongState`` if either has another one."""
    refuse_token(viewer)
    with write():
        row = identities().select_related("user").filter(provider=identity.issuer, uid=identity.subject).first()
        if row is not None and row.user_id == viewer.user.pk:
            return
        if row is not None:
            raise WrongState(f"You are connected with another account here: {row.user.get_username()}")
        user = User.objects.select_for_update(no_key=True).get(pk=viewer.user.pk)
        _refuse_second(user, provider)
        _connect(user, identity, provider, by=viewer)
        _follow_groups(user, provider, identity)


def may_connect(viewer: Viewer, provider: Provider, *, current: str = "", code: str = "", passkey: str = "") -> None:
    """Check before a person is sent to the provider that it is they who connect their account, as for a new password.

    ``Invalid`` with errors per field; ``TooManyTries``, ``Busy``, ``WrongState``.
    """
    refuse_token(viewer)
    _refuse_second(viewer.user, provider)
    check_identity(User.objects.get(pk=viewer.user.pk), current, code, passkey)


def disconnect_own(viewer: Viewer, *, session: str | None) -> None:
    """Disconnect one's own account; all other sessions end. ``WrongState`` if it is not connected."""
    refuse_token(viewer)
    with write():
        _disconnect(viewer, viewer.user, right="")
        end_sessions(viewer.user.pk, but=session)


def disconnect_person(viewer: Viewer, name: str) -> None:
    """Disconnect another person's account and end their sessions. ``WrongState`` if it is not connected."""
    with administering(viewer):
        user = find_other(viewer, name)
        _disconnect(viewer, user, right="admin")
        end_sessions(user.pk)


def _machine() -> Viewer:
    """Return who changes accounts at a sign-in: no account, every right. The settings say what it may change."""
    user = new_user(PROVIDER)
    user.is_superuser = True
    return Viewer(user=user, name=PROVIDER, rights={EVERY: RIGHTS["admin"]})


def _sign_in_at(provider: Provider, identity: ProviderIdentity) -> User:
    with write():
        row = identities().filter(provider=identity.issuer, uid=identity.subject).first()
        user = _matching(provider, identity) if row is None else row.user
        if user is None:
            user = _create(provider, identity)
        user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if not user.is_active or is_service(user):
            raise NotAllowed(DEACTIVATED.format(name=user.get_username()), cause="deactivated")
        if row is None:
            _connect(user, identity, provider, by=_machine())
        else:
            row.save(update_fields=["last_login"])
        _follow_groups(user, provider, identity)
        return user


def _matching(provider: Provider, identity: ProviderIdentity) -> User | None:
    """Return the one person with this verified address, where the settings say that it proves who they are.

    Never a superuser, staff or an admin of any workflow, nor someone who is connected already, or has a second factor
    here: an address can be given to someone else.
    """
    if not (provider.by_email and identity.email and EMAIL):
        return None
    # Databases take letters for the same that are not: PostgreSQL finds "mike" by "mıke".
    near = User.objects.filter(**{f"{EMAIL}__iexact": identity.email})
    found = [user for user in near if is_same_address(email_of(user), identity.email)]
    if len(found) != 1 or is_service(found[0]):
        return None
    (user,) = found
    guarded = user.is_superuser or is_staff(user) or second_factor.is_on(user)
    guarded = guarded or viewer_for(user).may_anywhere("admin")
    return None if guarded or identity_row(user) is not None else user


def _create(provider: Provider, identity: ProviderIdentity) -> User:
    if not provider.creates:
        raise NotAllowed(STRANGER.format(provider=provider.name), cause="no account")
    if not identity.name:
        raise NotAllowed(NAMELESS.format(provider=provider.name), cause="no name")
    if problem := problem_of_person(User.normalize_username(identity.name)):
        words = TAKEN.format(provider=provider.name, name=identity.name, problem=problem)
        raise WrongState(words, cause=f"user name: {problem}")
    email = "" if accounts.no_address(identity.email) else identity.email
    user = accounts.create_person(_machine(), identity.name, email=email)
    names = {"first_name": identity.first_name, "last_name": identity.last_name}
    if known := fields_of(*(name for name, value in names.items() if value)):
        for name in known:
            setattr(user, name, names[name])
        with acting(_machine(), ""):
            user.save(update_fields=known)
    return user


def _refuse_second(user: User, provider: Provider) -> None:
    if identity_row(user) is not None:
        raise WrongState(f"This account is connected with someone at {provider.name} already. Disconnect it first")


def _connect(user: User, identity: ProviderIdentity, provider: Provider, *, by: Viewer) -> None:
    """Make this the only identity of an account. What an earlier provider gave, this one may take."""
    given = {pk for row in identities().filter(user=user) for pk in _given(row)}
    identities().filter(user=user).delete()
    row = {"user": user, "provider": identity.issuer, "uid": identity.subject}
    identities().create(**row, extra_data={"groups": sorted(given)})
    facts = {"user": user.get_username(), "issuer": identity.issuer, "subject": identity.subject}
    audit.record(by, "connect identity", facts=facts)


def _disconnect(viewer: Viewer, user: User, *, right: str) -> None:
    row = identity_row(user)
    if row is None:
        raise WrongState(f"{user.get_username()} is not connected with the sign-in provider")
    with acting(viewer, right):
        _leave(user, _given(row))
    row.delete()
    facts = {"user": user.get_username(), "issuer": row.provider, "subject": row.uid}
    audit.record(viewer, "disconnect identity", right=right, facts=facts)


def _follow_groups(user: User, provider: Provider, identity: ProviderIdentity) -> None:
    """Put a person into the groups that the provider gives now, and out of those that only it gave before."""
    if identity.groups is None and provider.groups:
        log.warning("%s says nothing about groups: its answer has no claim %s", provider.name, provider.groups_claim)
    row = identity_row(user)
    with acting(_machine(), ""):
        wanted = {group.pk: group for group in _groups_named(groups_here(identity.groups or (), provider.groups))}
        present = set(user.groups.values_list("pk", flat=True))
        before = _given(row)
        new = [group for pk, group in wanted.items() if pk not in present]
        user.groups.add(*new)
        lost = before & present - set(wanted)
        _leave(user, lost)
    row.extra_data = {"groups": sorted((before & present & set(wanted)) | {group.pk for group in new})}
    row.save(update_fields=["extra_data"])
    if lost and not people_who("admin", EVERY, limit=1, programs=False):
        log.warning("No admin of every workflow is left: make one with wfdash grant add admin NAME")


def _groups_named(names: Iterable[str]) -> list[Group]:
    found = []
    for name in sorted(names):
        group = find_group(name)
        if group is None and (problem := problem_of_group(name)):
            log.warning("WFDASH_OIDC_GROUPS names the group %r, which cannot be made: %s", name, problem)
        else:
            found.append(group or Group.objects.create(name=name))
    return found


def _leave(user: User, groups: set[int]) -> None:
    if groups:
        user.groups.remove(*Group.objects.filter(pk__in=groups))


def _given(row: object) -> set[int]:
    """Return the keys of the groups that only the provider gave this identity."""
    found = getattr(row, "extra_data", {}).get("groups", [])
    return {pk for pk in found if isinstance(pk, int)}
