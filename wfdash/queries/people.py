"""Reads of people, groups and roles: who is here, who may do what, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from django.contrib.auth.models import Group
from django.core import paginator
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from checkpoints.limits import findable
from checkpoints.models import OPEN, Absence, Grant, HumanRequest, Run, Schedule, ServiceAccount, SignInLink
from checkpoints.models.user_model import USERNAME, User, email_of, full_name_of, has_name, has_text, is_staff
from checkpoints.records import Pairs, frozen
from wfdash.access.directory import administered, holders, obstacle, people_who
from wfdash.access.signin.identities import identity_row
from wfdash.access.signin.second_factor import has_second_factor
from wfdash.access.signin.sessions import sessions_of
from wfdash.access.viewer import (
    EVERY,
    AddressedQuestion,
    AnswerStanding,
    Role,
    Viewer,
    questions,
    roles_of,
    sources,
    standing_of,
    viewer_for,
)
from wfdash.domain.errors import NotAllowed, NotFound
from wfdash.engines import catalog
from wfdash.queries.account import TokenRow, tokens_of
from wfdash.queries.requests.request import possible_delegates, read_absences
from wfdash.queries.search import KeysetOrder
from wfdash.records.account import AbsenceRecord
from wfdash.records.base import Page
from wfdash.records.people import AccessRecord, GroupRecord, PersonSummary

# Who may do what in a workflow, and who may answer its questions: each with the reason.

ACCESS_PAGE = 100
MOST_ANSWERERS = 2_000
"""How many people with the right to answer are examined for each workflow."""


@frozen
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


@frozen
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


def managed_workflows(viewer: Viewer) -> Pairs:
    """Return name and title of the workflows whose roles this person manages: loaded ones, and those with grants
    (one query). ``NotAllowed`` for someone who manages none.
    """
    mine = administered(viewer)
    if mine == ():
        raise NotAllowed("Only admins can see who may do what")
    granted = Grant.objects.exclude(workflow=EVERY).values_list("workflow", flat=True).distinct()
    names = {*catalog.titles(), *granted} if mine is None else set(mine)
    return tuple(sorted(((name, catalog.title_of(name)) for name in names), key=lambda one: (one[1].lower(), one[0])))


def workflow_access(viewer: Viewer, workflow: str, *, number: int = 1) -> WorkflowAccess:
    """Return who may do what in a workflow (twelve queries). ``NotFound`` for one that the viewer does not manage."""
    title = _title(viewer, workflow)
    page = _page(_people(workflow), number, ACCESS_PAGE)
    return WorkflowAccess(
        workflow=workflow,
        title=title,
        loaded=catalog.find(workflow) is not None,
        rows=_access_rows(list(page), workflow),
        number=page.number,
        pages=page.paginator.num_pages,
        found=page.paginator.count,
        questions=_questions(workflow),
        grants=_grants(workflow),
    )


def access_after(
    viewer: Viewer, workflow: str, *, cursor: str = "", limit: int = ACCESS_PAGE
) -> tuple[Page[AccessRecord], tuple[QuestionAccess, ...]]:
    """Return its people by name after a cursor, and its questions (eleven queries). ``NotFound``."""
    _title(viewer, workflow)
    users, more = users_after(_people(workflow), cursor, limit)
    return Page.trusted(items=_access_rows(users, workflow), next=more), _questions(workflow)


def _title(viewer: Viewer, workflow: str) -> str:
    """Return the title of a workflow that the viewer manages. ``NotFound``, ``NotAllowed``."""
    known = dict(managed_workflows(viewer))
    if workflow not in known:
        raise NotFound("Workflow not found, or you are not its admin")
    return known[workflow]


def _access_rows(users: list[User], workflow: str) -> tuple[AccessRecord, ...]:
    roles = roles_of(users, within=[workflow])
    return tuple(
        AccessRecord.trusted(name=one.get_username(), rights=sources(roles[one.pk], workflow)) for one in users
    )


def _people(workflow: str) -> QuerySet[User]:
    grants = Grant.objects.filter(workflow__in=[EVERY, workflow])
    return User.objects.filter(holders(grants) | Q(is_superuser=True), is_active=True).distinct()


def _questions(workflow: str) -> tuple[QuestionAccess, ...]:
    asked = questions([workflow])
    lacking = needs_of(asked)
    people = _answerers(workflow) if asked else []
    return tuple(_question(one, people, [n for n in lacking if n.name in one.names]) for one in asked)


def _question(one: AddressedQuestion, people: Iterable[Viewer], lacking: Iterable[Need]) -> QuestionAccess:
    found = [(person.name, standing_of(person, one)) for person in people]
    kinds = {kind: tuple(each for each in found if each[1].kind == kind) for kind in ("may", "override", "excluded")}
    return QuestionAccess(question=one, title=step_title(one), needs=tuple(lacking), **kinds)


def _answerers(workflow: str) -> list[Viewer]:
    """Return everyone who may answer requests of a workflow, with the right to operate where they have it."""
    operators = {person.name for person in people_who("operate", workflow, limit=MOST_ANSWERERS)}
    both = {workflow: frozenset({"answer", "operate"})}
    people = people_who("answer", workflow, limit=MOST_ANSWERERS)
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
        for row in rows[:MOST_ANSWERERS]
    )


# One person: what they may do and why, their absences, and what an admin may change.


@frozen
class WorkflowRights:
    """What a person may do in a workflow (``*``: in every one), each right with the roles that give it."""

    workflow: str
    title: str
    rights: Mapping[str, tuple[Role, ...]]


@frozen
class MayAnswer:
    """A question, and whether a person may answer it."""

    question: AddressedQuestion
    title: str
    standing: AnswerStanding


@frozen
class Duties:
    """What depends on a person: open requests assigned to them, schedules whose runs they start, runs they started,
    people who are away and named them as delegate.
    """

    assigned: int = 0
    schedules: int = 0
    runs: int = 0
    delegate_of: int = 0


@frozen
class PersonView:
    """A person for their page. ``obstacle``: why the viewer cannot change the account, empty if they can.

    ``whole``: the viewer is admin of every workflow; otherwise only what concerns their workflows is there.
    ``subject``: whom the sign-in provider knows them as, empty if they are not connected.
    """

    row: PersonRow
    whole: bool
    own: bool
    obstacle: str
    rights: tuple[WorkflowRights, ...]
    answers: tuple[MayAnswer, ...]
    absences: tuple[AbsenceRecord, ...] = ()
    stands_in: tuple[AbsenceRecord, ...] = ()
    delegates: tuple[str, ...] = ()
    sessions: int = 0
    links: int = 0
    subject: str = ""
    duties: Duties = Duties()
    tokens: tuple[TokenRow, ...] = ()


def person(viewer: Viewer, name: str) -> PersonView:
    """Return a person. ``NotFound``, ``NotAllowed``."""
    user = find(viewer, name)
    (row,) = rows_of(viewer, [user])
    mine = administered(viewer)
    view = PersonView(
        row=row,
        whole=mine is None,
        own=user.pk == viewer.user.pk,
        obstacle=obstacle(viewer, user) if mine is None else "Only admins of every workflow can change accounts",
        # Roles of someone who is deactivated give no right until they are back.
        rights=_rights(row, mine) if user.is_active else (),
        answers=_answers(user, mine) if user.is_active else (),
    )
    return view if mine is not None else _whole(view, user)


def _whole(view: PersonView, user: User) -> PersonView:
    now, of = timezone.now(), viewer_for(user)
    away, stands_in = read_absences(of)
    return replace(
        view,
        absences=away,
        stands_in=stands_in,
        delegates=possible_delegates(of) if user.is_active else (),
        sessions=len(sessions_of(user.pk)),
        subject=str(getattr(identity_row(user), "uid", "")),
        links=SignInLink.objects.filter(user=user, used__isnull=True, expires__gt=now).count(),
        duties=_duties(user),
        tokens=tokens_of(user),
    )


def _duties(user: User) -> Duties:
    now = timezone.now()
    return Duties(
        assigned=HumanRequest.objects.filter(OPEN, assignee=user).count(),
        schedules=Schedule.objects.filter(owner=user, paused=False, next_at__isnull=False).count(),
        runs=Run.objects.filter(created_by=user)[:1000].count(),
        delegate_of=Absence.objects.filter(delegate=user, until__gt=now).count(),
    )


def _rights(row: PersonRow, mine: Sequence[str] | None) -> tuple[WorkflowRights, ...]:
    """Return the rights for every workflow, and those for single ones that give more than that."""
    named = dict.fromkeys(role.workflow for role in row.roles if not role.everywhere)
    everywhere = any(role.everywhere for role in row.roles)
    wanted = [*([EVERY] if everywhere else []), *(name for name in named if mine is None or name in mine)]
    return tuple(
        WorkflowRights(
            workflow=name,
            title="Every workflow" if name == EVERY else catalog.title_of(name),
            rights=sources(row.roles, name),
        )
        for name in wanted
    )


def _answers(user: User, mine: Sequence[str] | None) -> tuple[MayAnswer, ...]:
    """Return the questions a person may answer or is excluded from, by title of the workflow (four queries)."""
    of = viewer_for(user)
    known = (question for question in questions(mine) if mine is None or question.workflow in mine)
    found = [MayAnswer(question=one, title=step_title(one), standing=standing_of(of, one)) for one in known]
    return tuple(one for one in found if one.standing.kind != "none")


def step_title(question: AddressedQuestion) -> str:
    """Return the title of the step that asks, its name without one."""
    return catalog.step_title(question.workflow, question.step) or question.step


# The list of people, and one of them, as far as an admin of every workflow or of some may know.

PEOPLE_PAGE = 50
BY_NAME = KeysetOrder(columns=(USERNAME,))
MAX_NAMED_ADMINS = 3
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


@frozen
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
    page = _page(_matching(viewer, text, show), number, PEOPLE_PAGE)
    rows = rows_of(viewer, list(page))
    return PeoplePage(rows=rows, number=page.number, pages=page.paginator.num_pages, found=page.paginator.count)


def _page(found: QuerySet[User], number: int, size: int) -> paginator.Page[User]:
    """Return a page of people by name; the nearest page there is for any other number (two queries)."""
    return paginator.Paginator(found.order_by(USERNAME), size).get_page(max(1, number))


def people_after(
    viewer: Viewer, text: str = "", *, show: str = "", cursor: str = "", limit: int = PEOPLE_PAGE
) -> tuple[Page[PersonRow], int]:
    """Return the same people by name after a cursor, and how many there are in all (eight queries)."""
    found = _matching(viewer, text, show)
    users, more = users_after(found, cursor, limit)
    return Page.trusted(items=rows_of(viewer, users), next=more), found.count()


def users_after(found: QuerySet[User], cursor: str, limit: int) -> tuple[list[User], str]:
    """Return the users by name after a cursor, and the cursor of those that follow (one query). No two share a name."""
    after = BY_NAME.after(BY_NAME.place(cursor))
    some = list(found.filter(after).order_by(*BY_NAME.columns)[: limit + 1])
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
    return tuple(person.name for person in people_who("admin", EVERY, limit=MAX_NAMED_ADMINS, programs=False))


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
        PersonRow.trusted(
            name=one.get_username(),
            full_name=full_name_of(one),
            email=email_of(one),
            active=one.is_active,
            roles=roles[one.pk],
            groups=tuple(groups.get(one.pk, ())),
            last_sign_in=one.last_login,
            second_factor=one.pk in factors,
            away=absence.until if (absence := away.get(one.pk)) else None,
            delegate=absence.delegate.get_username() if absence else "",
            superuser=one.is_superuser,
            staff=is_staff(one),
        )
        for one in found
    )
    return tuple(
        row.model_copy(update={"service": one.pk in service_accounts, "about": service_accounts.get(one.pk, "")})
        for one, row in zip(found, rows, strict=True)
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


# Groups: their members and grants, what needs them, and which ones policies name in vain.

MISSING, EMPTY, POWERLESS = "missing", "empty", "powerless"
"""No user or group has this name; the group has no active member; no member may answer requests of the workflow."""
MOST_MEMBERS = 500


@frozen
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


@frozen
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
    return _group_rows(Group.objects.all(), questions())


def group(viewer: Viewer, name: str) -> GroupView:
    """Return a group. ``NotFound``, ``NotAllowed``."""
    refuse_unless_admin(viewer)
    asked = questions()
    rows = _group_rows(Group.objects.filter(name=findable(name)), asked)
    if not rows:
        raise NotFound("Group not found")
    members = User.objects.filter(groups__name=name).order_by("-is_active", USERNAME)
    found = list(members.values_list(USERNAME, "is_active")[:MOST_MEMBERS])
    more = max(0, members.count() - MOST_MEMBERS) if len(found) == MOST_MEMBERS else 0
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


def _group_rows(found: QuerySet[Group], asked: Collection[AddressedQuestion]) -> tuple[ListedGroup, ...]:
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
    able = (
        any(role.covers(question.workflow) and role.gives("answer") for roles in members[name] for role in roles)
        for question in asking
    )
    return "" if all(able) else POWERLESS
