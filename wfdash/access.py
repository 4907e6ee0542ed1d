"""The one resolver: what a person may see and do.

Rights: ``see`` (that a run exists, its graph, events and status), ``inspect`` (inputs, state, outputs, values),
``answer`` (requests addressed to them), ``start``, ``operate`` (cancel, retry, restore, fork), ``admin``.
Objects are found *through* a Viewer: a query is filtered first, so a stranger's look-up is a 404.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q

from checkpoints.models import Grant

EVERY = "*"

RIGHTS: dict[str, frozenset[str]] = {
    "viewer": frozenset({"see", "inspect"}),
    "reviewer": frozenset({"see", "answer"}),
    "operator": frozenset({"see", "inspect", "answer", "start", "operate"}),
    "admin": frozenset({"see", "inspect", "answer", "start", "operate", "admin"}),
}


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """A person with their rights, read once per request."""

    user: Any
    name: str
    groups: frozenset[str] = frozenset()
    rights: dict[str, frozenset[str]] = field(default_factory=dict)
    """Workflow name (or ``*``) -> rights."""

    def may(self, right: str, workflow: str) -> bool:
        """Say whether this person has the right for that workflow."""
        return right in self.rights.get(EVERY, frozenset()) or right in self.rights.get(workflow, frozenset())

    def may_anywhere(self, right: str) -> bool:
        """Say whether there is any workflow for which this person has the right."""
        return any(right in rights for rights in self.rights.values())

    def scope(self, right: str) -> Q:
        """Return the filter ``workflow in those this person has the right for``; every row for ``*``."""
        if right in self.rights.get(EVERY, frozenset()):
            # Not Q(): an empty filter vanishes from ``a | Q()`` instead of matching everything.
            return Q(pk__isnull=False)
        return Q(workflow__in=sorted(name for name, rights in self.rights.items() if right in rights))

    def addressed(
        self, by: list[str] | tuple[str, ...], not_by: list[str] | tuple[str, ...], requester: str | None
    ) -> bool:
        """Say whether a request with this ``by`` and ``not_by`` may be answered by this person."""
        if self.name in not_by or ("requester" in not_by and requester == self.name):
            return False
        if "requester" in by and requester == self.name:
            return True
        return not by or self.name in by or not self.groups.isdisjoint(by)


def viewer_for(user: User | AnonymousUser) -> Viewer:
    """Read a user's groups and grants (two queries). Anonymous and inactive users get no right at all."""
    if isinstance(user, AnonymousUser) or not user.is_active:
        return Viewer(user=user, name="")
    groups = dict(user.groups.values_list("id", "name"))
    rights: dict[str, frozenset[str]] = {}
    if user.is_superuser:
        rights[EVERY] = RIGHTS["admin"]
    grants = Grant.objects.filter(Q(user_id=user.pk) | Q(group_id__in=list(groups)))
    for workflow, role in grants.values_list("workflow", "role"):
        rights[workflow] = rights.get(workflow, frozenset()) | RIGHTS[role]
    return Viewer(user=user, name=user.get_username(), groups=frozenset(groups.values()), rights=rights)
