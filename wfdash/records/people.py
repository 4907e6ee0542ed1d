"""People, groups, roles, and who may do what."""

from __future__ import annotations

from datetime import datetime

from wfdash.records.base import ApiRecord, Body


class RoleRecord(ApiRecord):
    """A role for a workflow, ``*`` for every one. ``group``: whose grant it is; ``grant``: its id, 0 for none."""

    name: str
    workflow: str
    group: str = ""
    grant: int = 0


class PersonSummary(ApiRecord):
    """A person, as far as you may know of them."""

    name: str
    active: bool
    roles: list[RoleRecord]
    full_name: str = ""
    email: str = ""
    groups: list[str] = []
    last_sign_in: datetime | None = None
    second_factor: bool = False
    away: datetime | None = None
    delegate: str = ""
    superuser: bool = False


class PersonPage(ApiRecord):
    """A page of people by name; ``next`` is the cursor of the next page, empty at the end."""

    items: list[PersonSummary]
    next: str = ""
    found: int


class GroupRecord(ApiRecord):
    """A group. ``members``: how many active ones."""

    name: str
    members: int
    roles: list[RoleRecord]


class GroupPage(ApiRecord):
    """All groups by name."""

    items: list[GroupRecord]
    next: str = ""


class GroupDetail(GroupRecord):
    """A group with its members' names; ``more``: how many are not listed."""

    people: list[str]
    more: int


class MakeGroup(Body):
    """A new group with these active people."""

    name: str
    members: list[str] = []


class RenameGroup(Body):
    """The new name."""

    name: str


class GrantRole(Body):
    """A role for a person or a group (one of them), for a workflow or for every one (``*``)."""

    role: str
    workflow: str = "*"
    person: str = ""
    group: str = ""


class AccessRecord(ApiRecord):
    """A person's rights in a workflow, each with the roles that give it."""

    name: str
    rights: dict[str, list[RoleRecord]]


class QuestionRecord(ApiRecord):
    """A question of a workflow, and who may answer it. ``override``: operators who may decide beyond the policy."""

    step: str
    by: list[str]
    not_by: list[str]
    need: int
    may: list[str]
    override: list[str]
    excluded: list[str]


class AccessPage(ApiRecord):
    """Who may do what in a workflow; ``next`` is the cursor of the next page of people, empty at the end."""

    items: list[AccessRecord]
    next: str = ""
    workflow: str
    questions: list[QuestionRecord]
