"""The roles of people, each with the grant it comes from: what a ``Viewer``'s rights are made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from checkpoints.models import Grant
from checkpoints.models.user_model import User
from wfdash.access.viewer import EVERY, RIGHTS
from wfdash.records.people import RoleRecord

ORDER = ("see", "inspect", "answer", "start", "code", "operate", "admin")
"""All rights, as tables show them."""


class Role(RoleRecord):
    """A role that a person has; superusers are admins of every workflow without a grant."""

    @property
    def everywhere(self) -> bool:
        """Return whether it counts for every workflow."""
        return self.workflow == EVERY

    @property
    def superuser(self) -> bool:
        """Return whether it comes from no grant, because the person is a superuser."""
        return self.grant == 0

    @property
    def source(self) -> str:
        """Return where it comes from, as text."""
        if self.superuser:
            return "as superuser"
        return f"by group {self.group}" if self.group else "own grant"

    def covers(self, workflow: str) -> bool:
        """Return whether it counts for this workflow."""
        return self.workflow in (EVERY, workflow)

    def gives(self, right: str) -> bool:
        """Return whether the role has this right."""
        return right in RIGHTS[self.name]


def roles_of(users: Iterable[User], *, within: Collection[str] | None = None) -> dict[int, tuple[Role, ...]]:
    """Return these people's roles by user id, those for every workflow first (two queries).

    ``within``: only roles that count for one of these workflows.
    """
    people = list(users)
    found: defaultdict[int, list[Role]] = defaultdict(list)
    for user in people:
        found[user.pk] = [Role(name="admin", workflow=EVERY)] if user.is_superuser else []
    grants = Grant.objects.all() if within is None else Grant.objects.filter(workflow__in=[EVERY, *within])
    columns = ("pk", "workflow", "role")
    for person, pk, workflow, role in grants.filter(user__in=people).values_list("user_id", *columns):
        found[person].append(Role(name=role, workflow=workflow, grant=pk))
    shared = grants.filter(group__user__in=people).values_list("group__user", "group__name", *columns)
    for person, group, pk, workflow, role in shared:
        found[person].append(Role(name=role, workflow=workflow, group=group, grant=pk))
    return {person: tuple(sorted(roles, key=_place)) for person, roles in found.items()}


def sources(roles: Iterable[Role], workflow: str) -> Mapping[str, tuple[Role, ...]]:
    """Return for each right the roles that give it for this workflow; a right that none gives has no roles."""
    covering = [role for role in roles if role.covers(workflow)]
    return {right: tuple(role for role in covering if role.gives(right)) for right in ORDER}


def all_in(rights: Mapping[str, tuple[Role, ...]]) -> tuple[Role, ...]:
    """Return the roles that these rights come from, each once."""
    return tuple(dict.fromkeys(role for roles in rights.values() for role in roles))


def _place(role: Role) -> tuple[bool, str, str, str]:
    return not role.everywhere, role.workflow, role.group, role.name
