"""The people of a workflow: those who may see it, or answer its requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Prefetch, Q, QuerySet
from django.utils import timezone

from checkpoints.models import Absence, Grant, ServiceAccount
from checkpoints.models.user_model import USERNAME, User, has_name
from wfdash.access.viewer import EVERY, RIGHTS, Origin, Principal, Viewer

MOST = 200
"""How many people a list contains at most."""


def people_who(
    right: str, workflow: str, *, names: Iterable[str] | None = None, limit: int = MOST, programs: bool = True
) -> list[Viewer]:
    """Return the people who have this right for the workflow, by name (four queries); only those of ``names``, if
    given. ``programs``: service accounts as well.

    Each is a ``Viewer`` that knows its groups, whom it is a delegate of, and this one right.
    """
    roles = [role for role, rights in RIGHTS.items() if right in rights]
    grants = Grant.objects.filter(workflow__in=[EVERY, workflow], role__in=roles)
    granted = holders(grants) | Q(is_superuser=True)
    users = User.objects.filter(granted, is_active=True)
    if not programs:
        users = users.filter(service_account__isnull=True)
    if names is not None:
        users = users.filter(has_name(list(names), "in"))
    now = timezone.now()
    absent = Absence.objects.filter(since__lte=now, until__gt=now, user__is_active=True).select_related("user")
    stands = Prefetch("stands_in_for", absent.prefetch_related("user__groups"), to_attr="present_absences")
    found = users.distinct().prefetch_related("groups", stands).order_by(USERNAME)[:limit]
    return [_viewer(user, right, workflow) for user in found]


def colleagues(viewer: Viewer) -> QuerySet[User]:
    """Return the other active people who have a role for a workflow that this person has a role for. No programs."""
    mine = [workflow for workflow, rights in viewer.rights.items() if rights]
    if not mine:
        return User.objects.none()
    grants = Grant.objects.all() if EVERY in mine else Grant.objects.filter(workflow__in=[EVERY, *mine])
    granted = holders(grants) | Q(is_superuser=True)
    people = User.objects.filter(granted, is_active=True, service_account__isnull=True)
    return people.exclude(pk=viewer.user.pk).distinct()


def is_service(user: User) -> bool:
    """Return whether this is a service account (one query)."""
    return ServiceAccount.objects.filter(pk=user.pk).exists()


def holders(grants: QuerySet[Grant]) -> Q:
    """Return the filter of people whom one of these grants counts for, by itself or through a group."""
    return Q(pk__in=grants.values("user_id")) | Q(groups__in=grants.values("group_id"))


def readers(workflow: str, by: Sequence[str], origin: Origin, *, names: Iterable[str] | None = None) -> list[Viewer]:
    """Return the people who may read a request's card: who may inspect values, its addressees, the starter of the
    run. No programs.
    """
    wanted = None if names is None else list(names)
    found = {person.name: person for person in people_who("inspect", workflow, names=wanted, programs=False)}
    for person in people_who("see", workflow, names=wanted, programs=False):
        if person.addressed(tuple(by), (), origin):
            found.setdefault(person.name, person)
    if origin.starter and origin.starter not in found and (wanted is None or origin.starter in wanted):
        people = User.objects.filter(is_active=True, service_account__isnull=True)
        starter = people.filter(has_name(origin.starter)).first()
        found |= {origin.starter: Viewer(user=starter, name=origin.starter)} if starter else {}
    return [found[name] for name in sorted(found)]


def _viewer(user: User, right: str, workflow: str) -> Viewer:
    return Viewer(
        user=user,
        name=user.get_username(),
        groups=_groups(user),
        rights={workflow: frozenset({right})},
        acts_for=tuple(
            Principal(name=absence.user.get_username(), groups=_groups(absence.user))
            for absence in getattr(user, "present_absences", ())
        ),
    )


def _groups(user: User) -> frozenset[str]:
    return frozenset(group.name for group in user.groups.all())
