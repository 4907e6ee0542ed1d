"""One person: what they may do and why, their absences, and what an admin may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.utils import timezone

from checkpoints.models import OPEN, Absence, HumanRequest, Run, Schedule, SignInLink
from checkpoints.models.user_model import User
from wfdash import catalog
from wfdash.access.administration import administered, obstacle
from wfdash.access.policies import AddressedQuestion, AnswerStanding, questions, standing_of
from wfdash.access.roles import Role, all_in, sources
from wfdash.access.viewer import EVERY, Viewer, viewer_for
from wfdash.queries.account.tokens import TokenRow, tokens_of
from wfdash.queries.people.people import PersonRow, find, rows_of
from wfdash.queries.requests.collaboration import possible_delegates, read_absences
from wfdash.records.account import AbsenceRecord
from wfdash.signin.identities import identity_row
from wfdash.signin.open_sessions import sessions_of


@dataclass(frozen=True, kw_only=True)
class WorkflowRights:
    """What a person may do in a workflow (``*``: in every one), each right with the roles that give it."""

    workflow: str
    title: str
    rights: Mapping[str, tuple[Role, ...]]

    @property
    def roles(self) -> tuple[Role, ...]:
        """Return the roles that the rights come from."""
        return all_in(self.rights)


@dataclass(frozen=True, kw_only=True)
class MayAnswer:
    """A question, and whether a person may answer it."""

    question: AddressedQuestion
    title: str
    standing: AnswerStanding


@dataclass(frozen=True, kw_only=True)
class Duties:
    """What depends on a person: open requests assigned to them, schedules whose runs they start, runs they started,
    people who are away and named them as delegate.
    """

    assigned: int = 0
    schedules: int = 0
    runs: int = 0
    delegate_of: int = 0


@dataclass(frozen=True, kw_only=True)
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
    titles = catalog.titles()
    named = dict.fromkeys(role.workflow for role in row.roles if not role.everywhere)
    everywhere = any(role.everywhere for role in row.roles)
    wanted = [*([EVERY] if everywhere else []), *(name for name in named if mine is None or name in mine)]
    return tuple(
        WorkflowRights(
            workflow=name,
            title="Every workflow" if name == EVERY else titles.get(name, name),
            rights=sources(row.roles, name),
        )
        for name in wanted
    )


def _answers(user: User, mine: Sequence[str] | None) -> tuple[MayAnswer, ...]:
    """Return the questions a person may answer or is excluded from, by title of the workflow (four queries)."""
    of, titles = viewer_for(user), step_titles()
    known = (question for question in questions(mine) if mine is None or question.workflow in mine)
    found = [
        MayAnswer(question=one, title=titles.get((one.workflow, one.step), one.step), standing=standing_of(of, one))
        for one in known
    ]
    return tuple(one for one in found if one.standing.kind != "none")


def step_titles() -> dict[tuple[str, str], str]:
    """Return the title of each step of each workflow that is loaded."""
    return {
        (entry.name, step.name): step.title or step.name
        for entry in catalog.entries()
        for step in entry.description.steps
    }
