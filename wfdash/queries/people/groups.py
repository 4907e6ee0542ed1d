"""Groups: their members and grants, what needs them, and which ones policies name in vain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db.models import Count, Q, QuerySet

from checkpoints.limits import findable
from checkpoints.models import Grant
from checkpoints.models.user_model import USERNAME, User, has_name
from wfdash.access.policies import AddressedQuestion, questions
from wfdash.access.roles import Role, roles_of
from wfdash.access.viewer import EVERY, Viewer
from wfdash.errors import NotAllowed, NotFound
from wfdash.records.people import GroupRecord

MISSING, EMPTY, POWERLESS = "missing", "empty", "powerless"
"""No user or group has this name; the group has no active member; no member may answer requests of the workflow."""
MOST = 500


@dataclass(frozen=True, kw_only=True)
class Need:
    """A name in policies that no one answers to. ``problem``: one of the constants above. ``team``: it is a group's."""

    name: str
    problem: str
    team: bool
    questions: tuple[AddressedQuestion, ...]


class ListedGroup(GroupRecord):
    """A group. ``members``: active ones. ``needed``: the questions that name it."""

    roles: tuple[Role, ...]
    needed: tuple[AddressedQuestion, ...]
    django: bool
    """It has Django permissions, so only a superuser changes it."""


@dataclass(frozen=True, kw_only=True)
class GroupView:
    """A group for its page. ``members``: name and whether the account is active; ``more``: how many are not listed."""

    row: ListedGroup
    members: tuple[tuple[str, bool], ...]
    more: int
    locked: bool
    need: Need | None


def groups(viewer: Viewer) -> tuple[ListedGroup, ...]:
    """Return every group by name (four queries). ``NotAllowed``."""
    refuse_unless_admin(viewer)
    return _rows(Group.objects.all(), questions())


def group(viewer: Viewer, name: str) -> GroupView:
    """Return a group. ``NotFound``, ``NotAllowed``."""
    refuse_unless_admin(viewer)
    asked = questions()
    rows = _rows(Group.objects.filter(name=findable(name)), asked)
    if not rows:
        raise NotFound("Group not found")
    members = User.objects.filter(groups__name=name).order_by("-is_active", USERNAME)
    found = list(members.values_list(USERNAME, "is_active")[:MOST])
    more = max(0, members.count() - MOST) if len(found) == MOST else 0
    need = next((need for need in needs_of(asked) if need.name == name), None)
    locked = rows[0].django and not viewer.user.is_superuser
    return GroupView(row=rows[0], members=tuple(found), more=more, locked=locked, need=need)


def needs(viewer: Viewer) -> tuple[Need, ...]:
    """Return the names in policies that no one answers to, by name (five queries). ``NotAllowed``."""
    refuse_unless_admin(viewer)
    return needs_of(questions())


def refuse_unless_admin(viewer: Viewer) -> None:
    """Raise ``NotAllowed`` for someone who is not admin of every workflow."""
    if not viewer.may("admin", EVERY):
        raise NotAllowed("Only admins of every workflow can see groups")


def _rows(found: QuerySet[Group], asked: Collection[AddressedQuestion]) -> tuple[ListedGroup, ...]:
    active = Count("user", filter=Q(user__is_active=True), distinct=True)
    rows = found.annotate(active=active).annotate(allowed=Count("permissions", distinct=True)).order_by("name")
    granted: defaultdict[int, list[Role]] = defaultdict(list)
    grants = Grant.objects.filter(group__isnull=False).order_by("workflow", "role")
    for pk, team, name, workflow, role in grants.values_list("pk", "group_id", "group__name", "workflow", "role"):
        granted[team or 0].append(Role(name=role, workflow=workflow, group=name or "", grant=pk))
    return tuple(
        ListedGroup.trusted(
            name=row.name,
            members=row.active,
            roles=tuple(granted[row.pk]),
            needed=tuple(question for question in asked if row.name in question.names),
            django=row.allowed > 0,
        )
        for row in rows
    )


def needs_of(asked: Collection[AddressedQuestion]) -> tuple[Need, ...]:
    """Return the same for these questions, for someone who may know their names (four queries)."""
    wanted = {name for question in asked for name in question.names}
    users = dict(User.objects.filter(has_name(wanted, "in")).values_list(USERNAME, "is_active"))
    teams = set(Group.objects.filter(name__in=wanted).values_list("name", flat=True))
    members = _members(teams - users.keys())
    found = [(name, [one for one in asked if name in one.names]) for name in sorted(wanted)]
    problems = [(name, _problem(name, named, users, teams, members), named) for name, named in found]
    return tuple(
        Need(name=name, problem=why, team=name in teams, questions=tuple(named)) for name, why, named in problems if why
    )


def _members(teams: Collection[str]) -> dict[str, list[tuple[Role, ...]]]:
    """Return the roles of each active member of these groups (three queries)."""
    users = list(User.objects.filter(is_active=True, groups__name__in=teams).distinct().prefetch_related("groups"))
    roles = roles_of(users)
    found: defaultdict[str, list[tuple[Role, ...]]] = defaultdict(list)
    for user in users:
        for team in user.groups.all():
            found[team.name].append(roles[user.pk])
    return found


def _problem(
    name: str,
    named: Iterable[AddressedQuestion],
    users: Mapping[str, bool],
    teams: Collection[str],
    members: Mapping[str, list[tuple[Role, ...]]],
) -> str:
    """Return what is wrong with a name. Who is only excluded needs no right, but must exist: else all are excluded."""
    asking = [question for question in named if name in (*question.by, *question.escalate)]
    if name not in users and name not in teams:
        return MISSING
    if not asking or users.get(name):
        return ""
    if not members.get(name):
        return EMPTY
    return "" if all(_may_answer(members[name], question.workflow) for question in asking) else POWERLESS


def _may_answer(members: Iterable[tuple[Role, ...]], workflow: str) -> bool:
    return any(role.covers(workflow) and role.gives("answer") for roles in members for role in roles)
