"""The people of a bench: made as rows, found as viewers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from checkpoints.models import Grant
from wfdash.access.viewer import EVERY, RIGHTS, Viewer, viewer_for

STAGE = "bench"
"""Who starts runs and operates them where a test names no one. They answer nothing, so they count for no policy."""


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Everyone, with their groups and roles."""

    groups: Mapping[str, frozenset[str]]
    roles: Mapping[str, str]

    @classmethod
    def of(
        cls,
        people: Mapping[str, str | Iterable[str]] | Iterable[str],
        groups: Mapping[str, Iterable[str]],
        roles: Mapping[str, str],
    ) -> Cast:
        """Read what a test says. ``ValueError`` for a role that there is not, or a name that is taken."""
        named = (
            people
            if isinstance(people, Mapping)
            else dict.fromkeys([people] if isinstance(people, str) else people, ())
        )
        found = {name: {given} if isinstance(given, str) else set(given) for name, given in named.items()}
        for group, members in groups.items():
            for name in members:
                found.setdefault(name, set()).add(group)
        for name, role in roles.items():
            found.setdefault(name, set())
            if role not in RIGHTS:
                raise ValueError(f"{name}: no role named {role!r}; there are {', '.join(RIGHTS)}")
        if STAGE in found:
            raise ValueError(f"{STAGE!r} is the bench's own name: give this person another one")
        return cls(groups={name: frozenset(of) for name, of in found.items()}, roles=dict(roles))

    def make(self) -> None:
        """Write everyone into the database."""
        users = get_user_model()
        made = {name: _person(users, name) for name in (*self.groups, STAGE)}
        for name in sorted(frozenset[str]().union(*self.groups.values())):
            group = Group.objects.create(name=name)
            group.user_set.set([made[member] for member, of in self.groups.items() if name in of])
        Grant.objects.bulk_create(
            [Grant(user=made[name], role=self.roles.get(name, "reviewer"), workflow=EVERY) for name in self.groups]
        )

    def viewer(self, name: str) -> Viewer:
        """Return a person's rights as they are now; without a name the bench's own. ``ValueError`` for a stranger."""
        users: Any = get_user_model()
        if not name:
            own = viewer_for(users.objects.get_by_natural_key(STAGE))
            return replace(own, rights={EVERY: RIGHTS["operator"] - {"answer"}})
        if name not in self.groups:
            near = get_close_matches(name, self.groups, 1)
            hint = f" Did you mean {near[0]!r}?" if near else f" Name them: bench(..., people=[{name!r}])."
            raise ValueError(f"There is no {name!r} in this bench.{hint}")
        return viewer_for(users.objects.get_by_natural_key(name))


def _person(users: Any, name: str) -> Any:
    user = users(**{users.USERNAME_FIELD: name})
    user.set_unusable_password()
    user.save()
    return user
