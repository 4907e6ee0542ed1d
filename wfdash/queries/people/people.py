"""The list of people, and one of them, as far as an admin of every workflow or of some may know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from checkpoints.limits import findable
from checkpoints.models import Absence, Grant, ServiceAccount
from checkpoints.models.user_model import USERNAME, User, email_of, full_name_of, has_name, has_text, is_staff
from wfdash.access.administration import administered
from wfdash.access.directory import holders, people_who
from wfdash.access.roles import Role, roles_of
from wfdash.access.viewer import EVERY, Viewer
from wfdash.errors import NotAllowed, NotFound
from wfdash.queries.search.keyset import KeysetOrder
from wfdash.records.base import Page
from wfdash.records.people import PersonSummary
from wfdash.signin.second_factor import has_second_factor

PAGE = 50
BY_NAME = KeysetOrder(columns=(USERNAME,))
ASKED = 3
"""How many admins are named to someone without a role."""
SHOWN: Mapping[str, str] = {
    "": "Active",
    "away": "Out of office",
    "open": "No second factor",
    "never": "Never signed in",
    "service": "Service accounts",
    "off": "Deactivated",
    "all": "All",
}
"""The tabs of the list."""


class PersonRow(PersonSummary):
    """A person. An admin of some workflows sees name, state and the roles that count for these; nothing else is set.

    ``away``: until when they are out of office now, and ``delegate`` who decides for them.
    """

    roles: tuple[Role, ...]
    staff: bool = False
    service: bool = False
    """Whether it is a service account: a program, which never signs in."""
    about: str = ""
    """What a service account is for."""


@dataclass(frozen=True, kw_only=True)
class PeoplePage:
    """Part of the list. ``number`` counts from 1; ``pages`` is how many there are; ``found`` how many people."""

    rows: tuple[PersonRow, ...]
    number: int
    pages: int
    found: int


def people(viewer: Viewer, text: str = "", *, show: str = "", number: int = 1) -> PeoplePage:
    """Return one page of the people with all these words in name, address, groups or roles (eight queries).

    ``NotAllowed`` for someone who administers nothing.
    """
    found = _matching(viewer, text, show)
    count = found.count()
    pages = max(1, -(-count // PAGE))
    number = min(max(1, number), pages)
    users = list(found.order_by(USERNAME)[(number - 1) * PAGE : number * PAGE])
    return PeoplePage(rows=rows_of(viewer, users), number=number, pages=pages, found=count)


def people_after(
    viewer: Viewer, text: str = "", *, show: str = "", cursor: str = "", limit: int = PAGE
) -> tuple[Page[PersonRow], int]:
    """Return the same people by name after a cursor, and how many there are in all (eight queries)."""
    found = _matching(viewer, text, show)
    users, more = users_after(found, cursor, limit)
    return Page.trusted(items=rows_of(viewer, users), next=more), found.count()


def users_after(found: QuerySet[User], cursor: str, limit: int) -> tuple[list[User], str]:
    """Return the users by name after a cursor, and the cursor of those that follow (one query). No two share a name."""
    place = BY_NAME.place(cursor)
    some = list((found.filter(BY_NAME.after(place)) if place else found).order_by(*BY_NAME.columns)[: limit + 1])
    more = BY_NAME.cursor({USERNAME: some[limit - 1].get_username()}) if len(some) > limit else ""
    return some[:limit], more


def _matching(viewer: Viewer, text: str, show: str) -> QuerySet[User]:
    found = visible_people(viewer)
    for word in findable(text).split()[:10]:
        found = found.filter(_says(viewer, word))
    return _shown(found, show if administered(viewer) is None else "all").distinct()


def visible_people(viewer: Viewer) -> QuerySet[User]:
    """Return the people an admin may know of: all, or those with a role for a workflow of theirs. ``NotAllowed``."""
    mine = administered(viewer)
    if mine is None:
        return User.objects.all()
    if not mine:
        raise NotAllowed("Only admins can see people and their roles")
    grants = Grant.objects.filter(workflow__in=[EVERY, *mine])
    return User.objects.filter(holders(grants) | Q(is_superuser=True)).distinct()


def find(viewer: Viewer, name: str) -> User:
    """Return a person an admin may know of (one query). ``NotFound``, ``NotAllowed``."""
    user = visible_people(viewer).filter(has_name(findable(name))).first()
    if user is None:
        raise NotFound("Person not found, or you do not have access")
    return user


def whom_to_ask() -> tuple[str, ...]:
    """Return the names of a few admins of every workflow, for someone without a role (four queries)."""
    return tuple(person.name for person in people_who("admin", EVERY, limit=ASKED, programs=False))


def rows_of(viewer: Viewer, users: Iterable[User]) -> tuple[PersonRow, ...]:
    """Return these people in their order (six queries at most)."""
    mine, found = administered(viewer), list(users)
    roles = roles_of(found, within=mine)
    service_accounts = dict(ServiceAccount.objects.filter(user__in=found).values_list("user_id", "about"))
    if mine is not None:
        return tuple(
            PersonRow.trusted(
                name=one.get_username(), active=one.is_active, roles=roles[one.pk], service=one.pk in service_accounts
            )
            for one in found
        )
    now = timezone.now()
    groups: dict[int, list[str]] = {}
    members = Group.objects.filter(user__in=found).order_by("name")
    for pk, group in members.values_list("user", "name"):
        groups.setdefault(pk, []).append(group)
    factors = set(
        User.objects.filter(has_second_factor(), pk__in=[one.pk for one in found]).values_list("pk", flat=True)
    )
    absences = Absence.objects.filter(user__in=found, since__lte=now, until__gt=now).select_related("delegate")
    away = {absence.user_id: absence for absence in absences}
    rows = (
        _row(one, roles[one.pk], tuple(groups.get(one.pk, ())), one.pk in factors, away.get(one.pk)) for one in found
    )
    return tuple(
        row.model_copy(update={"service": one.pk in service_accounts, "about": service_accounts.get(one.pk, "")})
        for one, row in zip(found, rows, strict=True)
    )


def _row(user: User, roles: tuple[Role, ...], groups: tuple[str, ...], factor: bool, away: Absence | None) -> PersonRow:
    return PersonRow.trusted(
        name=user.get_username(),
        full_name=full_name_of(user),
        email=email_of(user),
        active=user.is_active,
        roles=roles,
        groups=groups,
        last_sign_in=user.last_login,
        second_factor=factor,
        away=away.until if away else None,
        delegate=away.delegate.get_username() if away else "",
        superuser=user.is_superuser,
        staff=is_staff(user),
    )


def _says(viewer: Viewer, word: str) -> Q:
    """Return the filter of people about whom a word says something that the viewer may know."""
    if administered(viewer) is not None:
        return has_name(word, "icontains")
    grants = Grant.objects.filter(Q(role=word.lower()) | Q(workflow__icontains=word))
    return has_text(word) | Q(groups__name__icontains=word) | holders(grants)


def _shown(found: QuerySet[User], show: str) -> QuerySet[User]:
    now = timezone.now()
    if show == "all":
        return found
    if show == "off":
        return found.filter(is_active=False)
    found = found.filter(is_active=True)
    if show == "away":
        return found.filter(Exists(Absence.objects.filter(user=OuterRef("pk"), since__lte=now, until__gt=now)))
    if show == "service":
        return found.filter(service_account__isnull=False)
    if show in {"open", "never"}:
        found = found.filter(service_account__isnull=True)
    if show == "open":
        return found.exclude(has_second_factor())
    return found.filter(last_login__isnull=True) if show == "never" else found
