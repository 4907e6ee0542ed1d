"""Whom and what a person may administer: pages that offer something and actions that do it ask the same."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from checkpoints.models.user_model import User, is_staff
from wfdash.access.directory import find_person, is_service
from wfdash.access.viewer import EVERY, Viewer
from wfdash.domain.errors import Invalid, NotAllowed

OWN = "You cannot do this to your own account. Use Settings, or ask another admin"
NARROW = "This token has limits. For what is yours in every workflow, use one with all rights for every workflow"
PEOPLE_ONLY = "Only people can do this, signed in. A token cannot change passwords, sessions or tokens"
OUTRANKED = "{name} is a Django superuser or staff member. Only a superuser can change this account"


def obstacle(viewer: Viewer, user: Any) -> str:
    """Return why an admin cannot change this account, empty if they can.

    Not their own, so that a forgotten browser is no way around a second factor; nor one with more power than theirs,
    because what is done to it could be used to get that power.
    """
    if user.pk == viewer.user.pk:
        return OWN
    if (user.is_superuser or is_staff(user)) and not viewer.user.is_superuser:
        return OUTRANKED.format(name=user.get_username())
    return ""


def administered(viewer: Viewer) -> tuple[str, ...] | None:
    """Return the workflows whose roles a person manages, by name; None for every one. Empty: no admin."""
    if viewer.may("admin", EVERY):
        return None
    return tuple(sorted(name for name, rights in viewer.rights.items() if "admin" in rights))


def service_account(viewer: Viewer, name: str) -> User:
    """Return the service account that an admin of every workflow gives something that acts as it: a token, a webhook.

    No one gives that to another person. ``NotAllowed``; ``Invalid`` at ``owner``.
    """
    if not viewer.may("admin", EVERY):
        raise NotAllowed("Only admins of every workflow can set up what acts as a service account")
    user = find_person(name)
    if user is None or not user.is_active:
        raise Invalid([{"loc": ["owner"], "msg": f"No active account named {name[:80]}"}])
    if not is_service(user):
        raise NotAllowed(f"{name} is a person: they make their own tokens and webhooks in their settings")
    if problem := obstacle(viewer, user):
        raise NotAllowed(problem)
    return user


def refuse_narrow(viewer: Viewer) -> None:
    """Raise ``NotAllowed`` for a token with limits: settings, notifications and absences belong to no workflow."""
    if not viewer.whole:
        raise NotAllowed(NARROW)


def refuse_token(viewer: Viewer) -> None:
    """Raise ``NotAllowed`` for every token: anyone who finds one must not gain access that outlives it."""
    if viewer.token:
        raise NotAllowed(PEOPLE_ONLY)


def managed_by(viewer: Viewer) -> Q:
    """Return the filter of webhooks, by their ``owner``, that this person manages: their own, as an admin of every
    workflow all.
    """
    if viewer.may("admin", EVERY):
        return Q(pk__isnull=False)
    return Q(owner=viewer.user.pk) if viewer.name else Q(pk__in=[])
