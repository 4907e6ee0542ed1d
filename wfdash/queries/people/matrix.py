"""Who may do what in a workflow, and who may answer its questions: each with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.db.models import Q, QuerySet

from checkpoints.models import Grant
from checkpoints.models.user_model import USERNAME, User
from wfdash import catalog
from wfdash.access.administration import administered
from wfdash.access.directory import holders, people_who
from wfdash.access.policies import AddressedQuestion, AnswerStanding, questions, standing_of
from wfdash.access.roles import Role, roles_of, sources
from wfdash.access.viewer import EVERY, Viewer
from wfdash.errors import NotAllowed, NotFound
from wfdash.queries.people.groups import Need, needs_of
from wfdash.queries.people.people import users_after
from wfdash.queries.people.person import step_titles
from wfdash.records.base import Page
from wfdash.records.people import AccessRecord

PAGE = 100
MOST = 2_000
"""How many people with the right to answer are examined for each workflow."""


@dataclass(frozen=True, kw_only=True)
class QuestionAccess:
    """A question, who may answer it and why, and the names in it that no one answers to.

    ``may``, ``override``, ``excluded``: names with their standing. ``needs``: what keeps it from being answered.
    """

    question: AddressedQuestion
    title: str
    may: tuple[tuple[str, AnswerStanding], ...]
    override: tuple[tuple[str, AnswerStanding], ...]
    excluded: tuple[tuple[str, AnswerStanding], ...]
    needs: tuple[Need, ...]

    @property
    def few(self) -> bool:
        """Return whether fewer people may answer it than it needs."""
        return len(self.may) < self.question.need


@dataclass(frozen=True, kw_only=True)
class WorkflowAccess:
    """A workflow's people and questions. ``grants``: those of groups and people for it, which its admins may revoke."""

    workflow: str
    title: str
    loaded: bool
    rows: tuple[AccessRecord, ...]
    number: int
    pages: int
    found: int
    questions: tuple[QuestionAccess, ...]
    grants: tuple[tuple[str, bool, Role], ...]


def managed_workflows(viewer: Viewer) -> tuple[tuple[str, str], ...]:
    """Return name and title of the workflows whose roles this person manages: loaded ones, and those with grants
    (one query). ``NotAllowed`` for someone who manages none.
    """
    mine, titles = administered(viewer), catalog.titles()
    if mine == ():
        raise NotAllowed("Only admins can see who may do what")
    granted = Grant.objects.exclude(workflow=EVERY).values_list("workflow", flat=True).distinct()
    names = {*titles, *granted} if mine is None else set(mine)
    return tuple(sorted(((name, titles.get(name, name)) for name in names), key=lambda one: (one[1].lower(), one[0])))


def workflow_access(viewer: Viewer, workflow: str, *, number: int = 1) -> WorkflowAccess:
    """Return who may do what in a workflow (twelve queries). ``NotFound`` for one that the viewer does not manage."""
    title = _title(viewer, workflow)
    users = _people(workflow)
    count = users.count()
    pages = max(1, -(-count // PAGE))
    number = min(max(1, number), pages)
    some = list(users.order_by(USERNAME)[(number - 1) * PAGE : number * PAGE])
    return WorkflowAccess(
        workflow=workflow,
        title=title,
        loaded=catalog.find(workflow) is not None,
        rows=_rows(some, workflow),
        number=number,
        pages=pages,
        found=count,
        questions=_questions(workflow),
        grants=_grants(workflow),
    )


def access_after(
    viewer: Viewer, workflow: str, *, cursor: str = "", limit: int = PAGE
) -> tuple[Page[AccessRecord], tuple[QuestionAccess, ...]]:
    """Return its people by name after a cursor, and its questions (eleven queries). ``NotFound``."""
    _title(viewer, workflow)
    users, more = users_after(_people(workflow), cursor, limit)
    return Page.trusted(items=_rows(users, workflow), next=more), _questions(workflow)


def _title(viewer: Viewer, workflow: str) -> str:
    """Return the title of a workflow that the viewer manages. ``NotFound``, ``NotAllowed``."""
    known = dict(managed_workflows(viewer))
    if workflow not in known:
        raise NotFound("Workflow not found, or you are not its admin")
    return known[workflow]


def _rows(users: list[User], workflow: str) -> tuple[AccessRecord, ...]:
    roles = roles_of(users, within=[workflow])
    return tuple(
        AccessRecord.trusted(name=one.get_username(), rights=sources(roles[one.pk], workflow)) for one in users
    )


def _people(workflow: str) -> QuerySet[User]:
    grants = Grant.objects.filter(workflow__in=[EVERY, workflow])
    return User.objects.filter(holders(grants) | Q(is_superuser=True), is_active=True).distinct()


def _questions(workflow: str) -> tuple[QuestionAccess, ...]:
    asked, titles = questions([workflow]), step_titles()
    lacking = needs_of(asked)
    people = _answerers(workflow) if asked else []
    return tuple(
        _question(one, titles.get((workflow, one.step), one.step), people, [n for n in lacking if n.name in one.names])
        for one in asked
    )


def _question(one: AddressedQuestion, title: str, people: Iterable[Viewer], lacking: Iterable[Need]) -> QuestionAccess:
    found = [(person.name, standing_of(person, one)) for person in people]
    kinds = {kind: tuple(each for each in found if each[1].kind == kind) for kind in ("may", "override", "excluded")}
    return QuestionAccess(question=one, title=title, needs=tuple(lacking), **kinds)


def _answerers(workflow: str) -> list[Viewer]:
    """Return everyone who may answer requests of a workflow, with the right to operate where they have it."""
    operators = {person.name for person in people_who("operate", workflow, limit=MOST)}
    both = {workflow: frozenset({"answer", "operate"})}
    people = people_who("answer", workflow, limit=MOST)
    return [replace(person, rights=both) if person.name in operators else person for person in people]


def _grants(workflow: str) -> tuple[tuple[str, bool, Role], ...]:
    """Return holder, whether it is a group, and role of each grant that counts for the workflow."""
    rows = Grant.objects.filter(workflow__in=[EVERY, workflow]).select_related("user", "group")
    rows = rows.filter(Q(user__is_active=True) | Q(group__isnull=False)).order_by("-workflow", "role", "pk")
    return tuple(
        (
            row.group.name if row.group else row.user.get_username() if row.user else "",
            row.group is not None,
            Role(name=row.role, workflow=row.workflow, group=row.group.name if row.group else "", grant=row.pk),
        )
        for row in rows[:MOST]
    )
