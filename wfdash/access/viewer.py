"""The only place that decides what a person may see and do.

Rights: ``see`` (that a run exists, its graph, events and status), ``inspect`` (inputs, state, outputs, values),
``answer`` (requests addressed to them), ``start``, ``code`` (read the workflow's source), ``operate`` (cancel, retry,
restore, fork), ``admin``. Objects are found *through* a Viewer: a query is filtered first, so a stranger's look-up is a
404.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeVar, cast

from django.contrib.auth.models import AnonymousUser, Group
from django.db.models import F, Q, QuerySet, Value
from django.db.models.expressions import BaseExpression
from django.utils import timezone
from django.utils.functional import LazyObject, empty

from checkpoints.database.compiled import compiled
from checkpoints.models import FOR_PEOPLE, Absence, Grant, HumanRequest, Run
from checkpoints.models.fields import JsonRows
from checkpoints.models.user_model import USERNAME, User
from checkpoints.records import frozen
from wfdash.contract import Addressees
from wfdash.engines import catalog
from wfdash.records.people import RoleRecord

T = TypeVar("T")
RightsRows = Sequence[tuple[str, str, str]]
"""What a viewer needs of a user beside their row: a tag, and two texts."""

Marks = Callable[["Viewer"], Mapping[str, BaseExpression]]
"""Returns what else a look-up reads of each request, for a viewer, as attributes of the request."""

EVERY = "*"
REQUESTER = "requester"
"""The word in ``by`` and ``not_by`` that means people of the run. It never names a user or a group."""

_GROUP, _GRANT, _ABSENCE = "group", "grant", "absence"
_NOTHING = Value("")

RIGHTS: dict[str, frozenset[str]] = {
    "viewer": frozenset({"see", "inspect"}),
    "reviewer": frozenset({"see", "answer"}),
    "author": frozenset({"see", "inspect", "start", "code"}),
    "operator": frozenset({"see", "inspect", "answer", "start", "code", "operate"}),
    "admin": frozenset({"see", "inspect", "answer", "start", "code", "operate", "admin"}),
}
THROUGH_AGENTS = "answer-through-agents"
"""What a person gives a token of their own, beside the right to answer, so that an agent may pass on their answer."""


@frozen
class Principal:
    """A person in whose name another acts: an absent one with a delegate, or who made a service account's token."""

    name: str
    groups: frozenset[str] = frozenset()


@frozen
class Right:
    """Why a person may answer, as text, and for whom they act (empty: for themselves).

    ``beyond``: the policy does not give it; an operator overrides it, and the audit says so.
    """

    words: str
    acting_for: str = ""
    beyond: bool = False


@frozen
class Origin:
    """The people a run belongs to. ``starter``: the name of who started it, empty if unknown.

    ``others``: who else counts as its requester for ``not_by``: who edited its values, made or changed its schedule or
    webhook, saw the secret of that, or made the token that started it. They may not answer as ``by="requester"``.
    """

    starter: str = ""
    others: frozenset[str] = frozenset()

    def includes(self, name: str) -> bool:
        """Return whether this person counts as the run's requester."""
        return bool(name) and (name == self.starter or name in self.others)


def origin_of(run: Run) -> Origin:
    """Return the people a run belongs to (one query, unless ``created_by`` is loaded)."""
    starter = run.created_by.get_username() if run.created_by else ""
    return Origin(starter=starter, others=frozenset(run.requesters or ()))


@frozen
class TokenScope:
    """What a token may be used for: these rights (always ``see``) for these workflows (``*``: every one)."""

    rights: frozenset[str]
    workflows: frozenset[str]

    def covers(self, right: str, workflow: str) -> bool:
        """Return whether the token may use this right of its owner for that workflow."""
        return right in self.rights and (EVERY in self.workflows or workflow in self.workflows)

    def narrowed(self, rights: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        """Return which of its owner's rights (by workflow) a token has."""
        if EVERY in self.workflows:
            return {workflow: given & self.rights for workflow, given in rights.items()}
        everywhere = rights.get(EVERY, frozenset())
        return {name: (everywhere | rights.get(name, frozenset())) & self.rights for name in self.workflows}


@frozen
class Viewer:
    """A person with their rights, read once per request."""

    user: Any
    name: str
    groups: frozenset[str] = frozenset()
    rights: dict[str, frozenset[str]] = field(default_factory=dict)
    """Workflow name (or ``*``) -> rights."""
    acts_for: tuple[Principal, ...] = ()
    """Absent people who named this person as their delegate."""
    token: str = ""
    """The name of the token that a program acts with as this person; empty for the person."""
    within: TokenScope | None = None
    """What that token may be used for: nothing gives a right beyond it, not even an assignment or one's own run."""
    made_by: Principal | None = None
    """Who made that token, if it acts as a service account: what it does is theirs too, where a policy wants others."""

    def __hash__(self) -> int:
        return hash(
            (
                self.user and self.user.pk,
                self.name,
                self.groups,
                frozenset(self.rights.items()),
                self.acts_for,
                self.within,
                self.made_by,
            )
        )

    @property
    def names(self) -> frozenset[str]:
        """The people whose act this is: the person, and who made the token of a service account."""
        return frozenset({self.name, self.made_by.name if self.made_by else self.name})

    def reaches(self, right: str, workflow: str) -> bool:
        """Return whether a right that comes from no role counts here: always for a person, within its scope for a
        token.
        """
        return self.within is None or self.within.covers(right, workflow)

    @property
    def whole(self) -> bool:
        """Return whether this is the person, or a token without limits: what belongs to no workflow is theirs, too."""
        return self.within is None or (EVERY in self.within.workflows and self.within.rights >= RIGHTS["admin"])

    def with_token(self, name: str, scope: TokenScope, made_by: Principal | None = None) -> Viewer:
        """Return a program that acts as this person with a token of this name and scope, which another one made."""
        return replace(self, rights=scope.narrowed(self.rights), token=name, within=scope, made_by=made_by)

    @property
    def through_agents(self) -> bool:
        """Return whether this is a person's own token with which an agent may pass on what that person answers."""
        return self.within is not None and self.made_by is None and THROUGH_AGENTS in self.within.rights

    def may(self, right: str, workflow: str) -> bool:
        """Return whether the person has the right for that workflow."""
        return right in self.rights.get(EVERY, frozenset()) or right in self.rights.get(workflow, frozenset())

    def may_anywhere(self, right: str) -> bool:
        """Return whether there is any workflow for which the person has the right."""
        return any(right in rights for rights in self.rights.values())

    def scope(self, right: str) -> Q:
        """Return the filter ``workflow in those the person has the right for``; every row for ``*``."""
        if right in self.rights.get(EVERY, frozenset()):
            # Not Q(): an empty filter vanishes from ``a | Q()`` instead of matching everything.
            return Q(pk__isnull=False)
        return Q(workflow__in=sorted(name for name, rights in self.rights.items() if right in rights))

    def reads_card(self, workflow: str, by: Sequence[str], origin: Origin, *, assigned: bool) -> bool:
        """Return whether the person may read a request's card and its comments, not only its subject."""
        own = bool(self.name) and origin.starter == self.name
        personal = own or assigned or self.addressed(by, (), origin)
        reaches = self.reaches("answer", workflow) or self.reaches("inspect", workflow)
        return self.may("inspect", workflow) or (personal and reaches)

    def started(self) -> Q:
        """Return the filter of requests whose run this person started."""
        return Q(run__created_by_id=self.user.pk) & self.reach() if self.name else Q(pk__in=[])

    def reach(self) -> Q:
        """Return the filter ``workflow in those a token may be used for``; every row for a person."""
        if self.within is None or EVERY in self.within.workflows:
            return Q()
        return Q(workflow__in=sorted(self.within.workflows))

    def addressed(self, by: Sequence[str], not_by: Sequence[str], origin: Origin) -> bool:
        """Return whether the person may answer a request with this ``by`` and ``not_by``."""
        return self.right_for(by, not_by, origin) is not None

    def right_for(
        self, by: Sequence[str], not_by: Sequence[str], origin: Origin, *, spoken: Collection[str] = ()
    ) -> Right | None:
        """Return the right to answer a request with this ``by`` and ``not_by``; None if there is none.

        Own rights come first. An excluded person gets in through no one else, and no one else through an excluded
        person. ``spoken``: people whose vote was given already, so no one can act for them any more.
        """
        if self.excluded(not_by, origin):
            return None
        own = _words_for(self.name, self.groups, by, origin)
        if own:
            return Right(words=own)
        for absent in self.acts_for:
            words = _words_for(absent.name, absent.groups, by, origin)
            free = absent.name not in spoken and not _excluded(absent.name, absent.groups, not_by, origin)
            if words and free:
                return Right(words=f"{words}, on behalf of {absent.name}", acting_for=absent.name)
        return None

    def right_to(self, request: HumanRequest, *, spoken: Collection[str] = ()) -> Right | None:
        """Return the right to answer a stored request: what its policy gives, or that it was assigned to this person.

        Operators assign requests, so an assignment gives an operator no right: they decide by overriding.
        """
        origin = origin_of(request.run)
        right = self.right_for(request.by, request.not_by, origin, spoken=spoken)
        mine = request.assignee_id is not None and request.assignee_id == self.user.pk
        if right or not mine or self.may("operate", request.workflow) or self.excluded(request.not_by, origin):
            return right
        return Right(words="assigned")

    def excluded(self, not_by: Sequence[str], origin: Origin) -> bool:
        """Return whether ``not_by`` keeps the person from answering, whatever else they may."""
        maker = self.made_by
        own = _excluded(self.name, self.groups, not_by, origin)
        return own or (maker is not None and _excluded(maker.name, maker.groups, not_by, origin))


def _excluded(name: str, groups: frozenset[str], not_by: Sequence[str], origin: Origin) -> bool:
    named = name in not_by or not groups.isdisjoint(not_by)
    return named or (REQUESTER in not_by and origin.includes(name))


def _words_for(name: str, groups: frozenset[str], by: Sequence[str], origin: Origin) -> str:
    if not by:
        return "any reviewer"
    if name in by and name != REQUESTER:
        return f"named: {name}"
    if REQUESTER in by and name and origin.starter == name:
        return "the requester"
    return next((f"group {group}" for group in by if group in groups and group != REQUESTER), "")


def viewer_for(user: User | AnonymousUser, rows: RightsRows | None = None) -> Viewer:
    """Return a user as a viewer, with groups, grants and whom they act for (one query; three for a delegate).

    Anonymous and inactive users get no right at all. ``rows``: what ``rights_of`` has just found of them, if they were
    read with it: that saves the first query.
    """
    user = evaluated(user)
    if isinstance(user, AnonymousUser) or not user.is_active:
        return Viewer(user=user, name="")
    rows = _facts_of(user.pk).rows() if rows is None else rows
    rights = _rights(user, _of(_GRANT, rows))
    named = bool(rights) and any(_of(_ABSENCE, rows))
    return Viewer(
        user=user,
        name=user.get_username(),
        groups=frozenset(name for name, _ in _of(_GROUP, rows)),
        rights=rights,
        acts_for=_principals_of(user) if named else (),
    )


def evaluated(found: T) -> T:
    """Return the object that a lazy one wraps: keeping the lazy one would keep the request that it belongs to, too."""
    if not isinstance(found, LazyObject):
        return found
    if found._wrapped is empty:
        found._setup()
    return cast(T, found._wrapped)


def watcher_for(user: User, rows: RightsRows | None = None) -> Viewer:
    """Return a viewer with a user's rights only (one query, none with ``rows``): enough to see, not to answer."""
    if not user.is_active:
        return Viewer(user=user, name="")
    rows = _granted_to(user.pk).rows() if rows is None else rows
    return Viewer(user=user, name=user.get_username(), rights=_rights(user, _of(_GRANT, rows)))


def rights_of(user: Any) -> JsonRows:
    """Return what a viewer needs of a user, as a column to read with them: see ``rights_rows``."""
    return JsonRows(_facts(user), "tag", "first", "second")


def rights_rows(text: str | None) -> RightsRows:
    """Return what was read as a column of ``rights_of``."""
    return [(tag, first, second) for tag, first, second in json.loads(text or "[]")]


def maker_of(user_id: int) -> Principal | None:
    """Return the person who made something that acts as a service account (one query)."""
    rows = list(_name_and_groups(user_id).rows())
    groups = frozenset(group for _, group in rows if group is not None)
    return Principal(name=rows[0][0], groups=groups) if rows else None


@compiled
def _name_and_groups(user: int) -> QuerySet[Any, Any]:
    return User.objects.filter(pk=user).values_list(USERNAME, "groups__name")


@compiled
def _facts_of(user: int) -> QuerySet[Any, Any]:
    return _facts(user)


def _facts(user: Any) -> QuerySet[Any, Any]:
    """Return one row per group and grant of a user, and one per absence in which they are the delegate."""
    groups = _tagged(_GROUP, Group.objects.filter(user=user), F("name"))
    return groups.union(*_grants_to(user), _tagged(_ABSENCE, Absence.objects.filter(delegate=user)))


@compiled
def _granted_to(user: int) -> QuerySet[Any, Any]:
    own, by_groups = _grants_to(user)
    return own.union(by_groups)


def _grants_to(user: Any) -> tuple[QuerySet[Any, Any], QuerySet[Any, Any]]:
    # Two queries, each with its index: with OR, PostgreSQL would read every grant.
    own, by_groups = Grant.objects.filter(user=user), Grant.objects.filter(group__user=user)
    return _tagged(_GRANT, own, F("workflow"), F("role")), _tagged(_GRANT, by_groups, F("workflow"), F("role"))


def _tagged(tag: str, found: QuerySet[Any], first: Any = _NOTHING, second: Any = _NOTHING) -> QuerySet[Any, Any]:
    """Return a part of a union: the tag, and two texts of each row."""
    tagged = found.order_by().annotate(tag=Value(tag), first=first, second=second)
    texts: QuerySet[Any, Any] = tagged.values_list("tag", "first", "second")
    return texts


def _of(tag: str, rows: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the two texts of each row with this tag."""
    return ((first, second) for found, first, second in rows if found == tag)


def _rights(user: User, granted: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    rights: dict[str, frozenset[str]] = {}
    if user.is_superuser:
        rights[EVERY] = RIGHTS["admin"]
    for workflow, role in granted:
        rights[workflow] = rights.get(workflow, frozenset()) | RIGHTS[role]
    return rights


def _principals_of(user: User) -> tuple[Principal, ...]:
    """Return who is absent now and named this person as delegate (two queries)."""
    now = timezone.now()
    absent = Absence.objects.filter(delegate=user, since__lte=now, until__gt=now, user__is_active=True)
    people = User.objects.filter(pk__in=absent.values("user_id")).prefetch_related("groups")
    return tuple(
        Principal(name=person.get_username(), groups=frozenset(group.name for group in person.groups.all()))
        for person in people
    )


# Whom questions are addressed to: those of the workflows that are loaded, and those that are open now.

STRANGER = Origin()


@frozen
class AddressedQuestion(Addressees):
    """What a step asks of the same people. ``open``: how many such requests are open; 0: only the code has it."""

    workflow: str
    open: int = 0

    @property
    def names(self) -> frozenset[str]:
        """Return the names of people and groups in it."""
        return frozenset({*self.by, *self.not_by, *self.escalate} - {REQUESTER})


@frozen
class AnswerStanding:
    """Whether a person may answer a question, and why. ``kind``: may, override, excluded, or none.

    ``own``: what it says of the runs they started themselves, empty where that makes no difference.
    """

    kind: str
    words: str = ""
    own: str = ""


def standing_of(person: Viewer, question: AddressedQuestion) -> AnswerStanding:
    """Return whether a person may answer what a step asks, in a run that they did not start.

    Decided by the rules that decide when they answer. ``person`` has their groups, their rights for the workflow and
    whom they act for.
    """
    if not person.may("answer", question.workflow):
        return AnswerStanding(kind="none")
    excluding = next((name for name in question.not_by if name == person.name or name in person.groups), "")
    if person.excluded(question.not_by, STRANGER):
        return AnswerStanding(kind="excluded", words=f"by group {excluding}" if excluding != person.name else "by name")
    own = "not in runs they started" if REQUESTER in question.not_by else ""
    right = person.right_for(question.by, question.not_by, STRANGER)
    if right is not None:
        return AnswerStanding(kind="may", words=right.words, own=own)
    if person.right_for(question.by, question.not_by, Origin(starter=person.name)) is not None:
        return AnswerStanding(kind="may", words="the requester", own="only in runs they started")
    if question.override and person.may("operate", question.workflow):
        return AnswerStanding(kind="override", words="operator, with a reason", own=own)
    return AnswerStanding(kind="none")


def questions(workflows: Collection[str] | None = None) -> list[AddressedQuestion]:
    """Return the questions of these workflows (of all: None), by workflow in the order of steps (one query)."""
    known = dict.fromkeys(_in_code(workflows), 0)
    # What is open has the policy it was asked with: it is the same question if all that is stored is the same.
    stored = {replace(one, certain=True): one for one in reversed(known)}
    for question, count in _open(workflows).items():
        match = stored.get(question, question)
        known[match] = known.get(match, 0) + count
    return sorted(
        (replace(one, open=count) for one, count in known.items()), key=lambda one: (one.workflow, one.step, one.by)
    )


def named_in(workflows: Collection[str] | None = None) -> frozenset[str]:
    """Return the names of people and groups that questions of these workflows name (one query)."""
    return frozenset[str]().union(*(question.names for question in questions(workflows)))


def naming(name: str) -> list[AddressedQuestion]:
    """Return the questions of all workflows that name this person or group (one query)."""
    return [question for question in questions() if name in question.names]


def _in_code(workflows: Collection[str] | None) -> Iterator[AddressedQuestion]:
    for entry in catalog.entries():
        if workflows is None or entry.name in workflows:
            for found in entry.addressees or ():
                yield AddressedQuestion(workflow=entry.name, **vars(found))


def _open(workflows: Collection[str] | None) -> Counter[AddressedQuestion]:
    rows = HumanRequest.objects.filter(FOR_PEOPLE, closed__isnull=True, answered__isnull=True)
    rows = rows if workflows is None else rows.filter(workflow__in=list(workflows))
    found = Counter[AddressedQuestion]()
    for workflow, step, by, not_by, policy in rows.values_list("workflow", "step", "by", "not_by", "policy"):
        given = policy or {}
        question = AddressedQuestion(
            workflow=workflow,
            step=step,
            by=tuple(by),
            not_by=tuple(not_by),
            escalate=tuple(given.get("escalate", ())),
            need=given.get("need", 1),
            override=given.get("override", True),
        )
        found[question] += 1
    return found


# The roles of people, each with the grant it comes from: what a ``Viewer``'s rights are made of.

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
    return {person: tuple(sorted(roles, key=_role_order)) for person, roles in found.items()}


def sources(roles: Iterable[Role], workflow: str) -> Mapping[str, tuple[Role, ...]]:
    """Return for each right the roles that give it for this workflow; a right that none gives has no roles."""
    covering = [role for role in roles if role.covers(workflow)]
    return {right: tuple(role for role in covering if role.gives(right)) for right in ORDER}


def all_in(rights: Mapping[str, tuple[Role, ...]]) -> tuple[Role, ...]:
    """Return the roles that these rights come from, each once."""
    return tuple(dict.fromkeys(role for roles in rights.values() for role in roles))


def _role_order(role: Role) -> tuple[bool, str, str, str]:
    return not role.everywhere, role.workflow, role.group, role.name
