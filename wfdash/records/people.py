"""People, groups, roles, and who may do what."""

from __future__ import annotations

from datetime import datetime

from wfdash.records.base import ApiRecord, Body, Page


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
    roles: tuple[RoleRecord, ...]
    full_name: str = ""
    email: str = ""
    groups: tuple[str, ...] = ()
    last_sign_in: datetime | None = None
    second_factor: bool = False
    away: datetime | None = None
    delegate: str = ""
    superuser: bool = False


class PersonPage(Page[PersonSummary]):
    """A page of people by name; ``next`` is the cursor of the next page, empty at the end."""

    found: int


class GroupRecord(ApiRecord):
    """A group. ``members``: how many active ones."""

    name: str
    members: int
    roles: tuple[RoleRecord, ...]


class GroupPage(Page[GroupRecord]):
    """All groups by name."""


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
    rights: dict[str, tuple[RoleRecord, ...]]


class QuestionRecord(ApiRecord):
    """A question of a workflow, and who may answer it. ``override``: operators who may decide beyond the policy."""

    step: str
    by: list[str]
    not_by: list[str]
    need: int
    may: list[str]
    override: list[str]
    excluded: list[str]


class AccessPage(Page[AccessRecord]):
    """Who may do what in a workflow; ``next`` is the cursor of the next page of people, empty at the end."""

    workflow: str
    questions: list[QuestionRecord]
