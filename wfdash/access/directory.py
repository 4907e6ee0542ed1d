"""The people of a workflow, those who may see it or answer its requests; and whom and what a person may administer.

Pages that offer something and actions that do it ask the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib.auth.models import Group
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.db.models import F, OuterRef, Q, QuerySet
from django.utils import timezone

from checkpoints.database.compiled import Among, Placeholder, compiled_rows
from checkpoints.limits import findable
from checkpoints.models import Absence, Grant, HumanRequest, Reply, ServiceAccount
from checkpoints.models.fields import JsonRows
from checkpoints.models.user_model import USERNAME, User, has_name, is_staff
from checkpoints.records import frozen
from wfdash.access.viewer import EVERY, REQUESTER, RIGHTS, Origin, Principal, Viewer, origin_of
from wfdash.domain.errors import Invalid, NotAllowed
from wfdash.domain.votes import Count, Vote, choice_of, counts, is_split, vetoes
from wfdash.questions.policy import Policy

# The votes of a request, who could still vote, and whether that is enough.

MOST_VOTERS = 2_000
"""How many people with the right to answer are examined."""
NO_ONE, FEW, SPLIT, UNKNOWN = "nobody", "few", "split", "unknown"
"""Why a request cannot be decided: no one may answer, too few may, the votes are split, ``not_by`` names unknown
people.
"""


@frozen
class Decidability:
    """The votes of a request, and whether it can still be decided.

    ``able``: the names of those whose vote is still to come. ``problem``: one of the constants above, empty where it
    can be decided; ``words`` is the text of the problem, ``remedy`` what can be done.
    """

    need: int
    counts: tuple[Count, ...] = ()
    able: tuple[str, ...] = ()
    problem: str = ""
    words: str = ""
    remedy: str = ""

    @property
    def votes(self) -> int:
        """Return how many votes the leading answer has."""
        return self.counts[0].people if self.counts else 0


def votes_of(request: HumanRequest) -> list[Reply]:
    """Return the replies that count now, oldest first (one query)."""
    return list(live_replies().all(request=request.pk))


@compiled_rows
def live_replies() -> QuerySet[Reply, Reply]:
    """Return the query of the replies to a ``request`` that count now."""
    live = Reply.objects.select_related("by").filter(request=Placeholder("request"), undone__isnull=True)
    return live.order_by("at", "id")


def spoken_in(replies: Sequence[Reply]) -> dict[str, Reply]:
    """Return the replies by the name of the person whose vote they are: their own, or the person's they acted for."""
    return {reply.acting_for or (reply.by.get_username() if reply.by else ""): reply for reply in replies}


def names_of_voters(request: HumanRequest, *, but: Reply) -> list[str]:
    """Return the names of everyone who gave another vote that counts, and in whose name they did, sorted."""
    if Policy.model_validate(request.policy or {}).need == 1:
        return []
    votes = [vote for vote in votes_of(request) if vote.pk != but.pk]
    givers = {vote.by.get_username() for vote in votes if vote.by}
    return sorted(givers | {vote.acting_for for vote in votes if vote.acting_for})


def votes_in(replies: Sequence[Reply]) -> dict[str, Vote]:
    """Return replies as votes, by the id of the reply."""
    named = spoken_in(replies).items()
    return {reply.pk: Vote(by=name, verdict=reply.verdict, value=reply.value) for name, reply in named}


def unknown_in(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are neither a user's nor a group's (two queries, none without names)."""
    wanted = set(names) - {REQUESTER}
    if not wanted:
        return ()
    users = User.objects.filter(has_name(wanted, "in")).values_list(USERNAME, flat=True)
    groups = Group.objects.filter(name__in=wanted).values_list("name", flat=True)
    return tuple(sorted(wanted - set(users) - set(groups)))


def unknown_words(names: Sequence[str]) -> str:
    """Return the text that ``not_by`` names people who do not exist, so that no one may answer."""
    quoted = ", ".join(f"“{name}”" for name in names)
    return f"{quoted} must not answer, but no such user or group exists, so no one can answer."


def decidability_of(
    request: HumanRequest, *, reviewers: Sequence[Viewer] | None = None, replies: Sequence[Reply] | None = None
) -> Decidability:
    """Return a request's votes and who could still vote. ``request.run`` and ``created_by`` are loaded.

    ``reviewers``: everyone who may answer requests of its workflow, ``replies``: its votes, if they are known already.
    """
    policy = Policy.model_validate(request.policy or {})
    given = votes_of(request) if replies is None else replies
    found = counts(list(votes_in(given).values()), request.card.get("proposal"))
    if unknown := unknown_in(request.not_by):
        return _stuck(policy, found, (), UNKNOWN, unknown_words(unknown), "Create it or fix the workflow.")
    people = people_who("answer", request.workflow, limit=MOST_VOTERS) if reviewers is None else reviewers
    spoken, hands = spoken_in(given), {reply.by_id for reply in given}
    rights = [
        (person.name, person.right_to(request, spoken=spoken))
        for person in people
        if person.user.pk not in hands and person.name not in spoken
    ]
    able = tuple(sorted({right.acting_for or name for name, right in rights if right is not None}))
    if found and is_split(found, need=policy.need, left=len(able), vetoes=vetoes(request.card, veto=policy.veto)):
        each = ", ".join(f"{count.people} of {policy.need} for {count.verdict}" for count in found)
        return _stuck(policy, found, able, SPLIT, f"{each}: no one is left to decide.", "Withdraw a vote or override.")
    if not found and not able:
        return _stuck(policy, found, able, NO_ONE, _no_one_words(request, people), _remedy(policy))
    if not found and len(able) < policy.need:
        names = ", ".join(able[:5])
        words = f"Needs {policy.need} people, but only {len(able)} can answer: {names}."
        return _stuck(policy, found, able, FEW, words, _remedy(policy))
    return Decidability(need=policy.need, counts=found, able=able)


def _stuck(
    policy: Policy, found: tuple[Count, ...], able: tuple[str, ...], problem: str, words: str, remedy: str
) -> Decidability:
    return Decidability(need=policy.need, counts=found, able=able, problem=problem, words=words, remedy=remedy)


def _remedy(policy: Policy) -> str:
    members = "Add people to the group, or give them a role"
    return f"{members}." if not policy.override else f"{members}; or assign the request, or override."


def _no_one_words(request: HumanRequest, people: Sequence[Viewer]) -> str:
    if not request.by:
        return "No one can answer this: no one has a role that allows it."
    origin = origin_of(request.run)
    if any(person.right_for(request.by, (), origin) for person in people):
        return "No one can answer this: everyone it is addressed to is excluded."
    return f"No one can answer this: {'; '.join(_absent_words(request, name) for name in request.by)}."


def _absent_words(request: HumanRequest, name: str) -> str:
    """Return why no one matches a name in ``by``."""
    if name == REQUESTER:
        starter = origin_of(request.run).starter
        return f"{starter} cannot answer requests of this workflow" if starter else "it is unknown who started it"
    group = Group.objects.filter(name=name).first()
    if group is not None:
        members = group.user_set.filter(is_active=True).exists()
        return f"no one in group {name} can answer requests" if members else f"group {name} has no members"
    if User.objects.filter(has_name(name), is_active=True).exists():
        return f"{name} cannot answer requests of this workflow"
    if User.objects.filter(has_name(name)).exists():
        return f"{name}’s account is disabled"
    return f"there is no user or group named {name}"


def vote_progress(reply: Reply) -> tuple[int, int, bool]:
    """Return how many people gave the same answer as a reply, how many are needed, and whether that decided it."""
    request, need = reply.request, Policy.model_validate(reply.request.policy or {}).need
    # Where one answer decides, there are no other votes.
    votes, proposal = votes_in(votes_of(request) if need > 1 else [reply]), request.card.get("proposal")
    mine = votes.get(reply.pk)
    same = {vote.by for vote in votes.values() if mine and choice_of(vote, proposal) == choice_of(mine, proposal)}
    decided = request.answered is not None or request.settles is not None
    return len(same), need, decided


# Names of people and groups: policies address both by name, so each name means one of them and nothing else.

GROUP = re.compile(r"\w([\w.@+ -]*[\w.@+-])?")
PERSON = re.compile(UnicodeUsernameValidator.regex)
MAX_NAME_CHARACTERS = 150
RESERVED = frozenset({REQUESTER})


def problem_of_group(name: str, *, now: str = "") -> str:
    """Return why a group cannot have this name, empty if it can. ``now``: what it is called now."""
    if not GROUP.fullmatch(name):
        return "Use letters, digits, spaces inside, and . @ + - _"
    if problem := _problem_of_any(name):
        return problem
    if name != now and User.objects.filter(has_name(name, "iexact")).exists():
        return "A user has this name, and requests address users and groups by name. Choose another name"
    if name.lower() != now.lower() and Group.objects.filter(name__iexact=name).exists():
        return "A group of this name exists already"
    return ""


def problem_of_person(name: str, *, now: str = "") -> str:
    """Return why a person cannot have this name, empty if they can. ``now``: what they are called now."""
    if not PERSON.fullmatch(name):
        return "Use letters, digits, and . @ + - _"
    if problem := _problem_of_any(name):
        return problem
    if name.lower() != now.lower() and User.objects.filter(has_name(name, "iexact")).exists():
        return "A user of this name exists already"
    if Group.objects.filter(name__iexact=name).exists():
        return "A group has this name, and requests address users and groups by name. Choose another name"
    return ""


def find_person(name: str) -> User | None:
    """Return the person of this name (one query), None if there is none."""
    return User.objects.filter(has_name(findable(name))).first()


def find_group(name: str) -> Group | None:
    """Return the group of this name (one query), None if there is none."""
    return Group.objects.filter(name=findable(name)).first()


def _problem_of_any(name: str) -> str:
    if len(name) > MAX_NAME_CHARACTERS:
        return f"At most {MAX_NAME_CHARACTERS} characters"
    return f"{name} is reserved in policies. Choose another name" if name.lower() in RESERVED else ""


MOST_PEOPLE = 200
"""How many people a list contains at most."""


def people_who(
    right: str, workflow: str, *, names: Iterable[str] | None = None, limit: int = MOST_PEOPLE, programs: bool = True
) -> list[Viewer]:
    """Return the people who have this right for the workflow, by name (one query); only those of ``names``, if
    given. ``programs``: service accounts as well.

    Each is a ``Viewer`` that knows its groups, whom it is a delegate of, and this one right.
    """
    given = {} if names is None else {"names": list(names)}
    found = people_with(right, workflow, limit, programs, *given).all(now=timezone.now(), **given)
    return [_viewer(user, right, workflow) for user in found]


@compiled_rows
def people_with(right: str, workflow: str, limit: int, programs: bool, *named: str) -> QuerySet[User, User]:
    """Return the query of these people: of each the names of its groups, and whom it is a delegate of now, a row for
    each group of theirs.
    """
    roles = [role for role, rights in RIGHTS.items() if right in rights]
    grants = Grant.objects.filter(workflow__in=[EVERY, workflow], role__in=roles)
    users = User.objects.filter(holders(grants) | Q(is_superuser=True), is_active=True)
    if not programs:
        users = users.filter(service_account__isnull=True)
    if named:
        users = users.filter(Among(USERNAME, Placeholder(*named)))
    now = Placeholder("now", Absence._meta.get_field("since"))
    absent = Absence.objects.filter(since__lte=now, until__gt=now, user__is_active=True, delegate=OuterRef("pk"))
    absent = absent.annotate(name=F(f"user__{USERNAME}"), member=F("user__groups__name"))
    groups = Group.objects.filter(user=OuterRef("pk")).order_by()
    users = users.annotate(
        in_groups=JsonRows(groups.values_list("name"), "name"),
        for_absent=JsonRows(absent.values_list("name", "member"), "name", "member"),
    )
    return users.order_by(USERNAME)[:limit]


def colleagues(viewer: Viewer) -> QuerySet[User]:
    """Return the other active people who have a role for a workflow that this person has a role for. No programs."""
    mine = [workflow for workflow, rights in viewer.rights.items() if rights]
    if not mine:
        return User.objects.none()
    grants = Grant.objects.all() if EVERY in mine else Grant.objects.filter(workflow__in=[EVERY, *mine])
    granted = holders(grants) | Q(is_superuser=True)
    people = User.objects.filter(granted, is_active=True, service_account__isnull=True)
    return people.exclude(pk=viewer.user.pk).distinct()


def is_service(user: User) -> bool:
    """Return whether this is a service account (one query)."""
    return ServiceAccount.objects.filter(pk=user.pk).exists()


def holders(grants: QuerySet[Grant]) -> Q:
    """Return the filter of people whom one of these grants counts for, by itself or through a group."""
    members = User.objects.filter(groups__in=grants.values("group_id"))
    return Q(pk__in=grants.values("user_id")) | Q(pk__in=members.values("pk"))


def readers(workflow: str, by: Sequence[str], origin: Origin, *, names: Iterable[str] | None = None) -> list[Viewer]:
    """Return the people who may read a request's card: who may inspect values, its addressees, the starter of the
    run. No programs.
    """
    wanted = None if names is None else list(names)
    found = {person.name: person for person in people_who("inspect", workflow, names=wanted, programs=False)}
    for person in people_who("see", workflow, names=wanted, programs=False):
        if person.addressed(tuple(by), (), origin):
            found.setdefault(person.name, person)
    if origin.starter and origin.starter not in found and (wanted is None or origin.starter in wanted):
        people = User.objects.filter(is_active=True, service_account__isnull=True)
        starter = people.filter(has_name(origin.starter)).first()
        found |= {origin.starter: Viewer(user=starter, name=origin.starter)} if starter else {}
    return [found[name] for name in sorted(found)]


def _viewer(user: Any, right: str, workflow: str) -> Viewer:
    absent: dict[str, set[str]] = {}
    for name, group in json.loads(user.for_absent or "[]"):
        absent.setdefault(name, set()).update([group] if group else ())
    return Viewer(
        user=user,
        name=user.get_username(),
        groups=frozenset(name for (name,) in json.loads(user.in_groups or "[]")),
        rights={workflow: frozenset({right})},
        acts_for=tuple(Principal(name=name, groups=frozenset(groups)) for name, groups in absent.items()),
    )


OWN = "You cannot do this to your own account. Use Settings, or ask another admin"
NARROW = "This token has limits. For what is yours in every workflow, use one with all rights for every workflow"
PEOPLE_ONLY = "Only people can do this, signed in. A token cannot change passwords, sessions or tokens"
OUTRANKED = "{name} is a Django superuser or staff member. Only a superuser can change this account"


def obstacle(viewer: Viewer, user: Any) -> str:
    """Return why an admin cannot change this account, empty if they can.

    Not their own, so that a forgotten browser is no way around a second factor; nor one with more power than theirs,
    because what is done to it could be used to get that power.
    """
    if user.pk == viewer.user.pk:
        return OWN
    if (user.is_superuser or is_staff(user)) and not viewer.user.is_superuser:
        return OUTRANKED.format(name=user.get_username())
    return ""


def administered(viewer: Viewer) -> tuple[str, ...] | None:
    """Return the workflows whose roles a person manages, by name; None for every one. Empty: no admin."""
    if viewer.may("admin", EVERY):
        return None
    return tuple(sorted(name for name, rights in viewer.rights.items() if "admin" in rights))


def service_account(viewer: Viewer, name: str) -> User:
    """Return the service account that an admin of every workflow gives something that acts as it: a token, a webhook.

    No one gives that to another person. ``NotAllowed``; ``Invalid`` at ``owner``.
    """
    if not viewer.may("admin", EVERY):
        raise NotAllowed("Only admins of every workflow can set up what acts as a service account")
    user = find_person(name)
    if user is None or not user.is_active:
        raise Invalid.at("owner", f"No active account named {name[:80]}")
    if not is_service(user):
        raise NotAllowed(f"{name} is a person: they make their own tokens and webhooks in their settings")
    if problem := obstacle(viewer, user):
        raise NotAllowed(problem)
    return user


def refuse_narrow(viewer: Viewer) -> None:
    """Raise ``NotAllowed`` for a token with limits: settings, notifications and absences belong to no workflow."""
    if not viewer.whole:
        raise NotAllowed(NARROW)


def refuse_token(viewer: Viewer) -> None:
    """Raise ``NotAllowed`` for every token: anyone who finds one must not gain access that outlives it."""
    if viewer.token:
        raise NotAllowed(PEOPLE_ONLY)


def managed_by(viewer: Viewer) -> Q:
    """Return the filter of webhooks, by their ``owner``, that this person manages: their own, as an admin of every
    workflow all.
    """
    if viewer.may("admin", EVERY):
        return Q(pk__isnull=False)
    return Q(owner=viewer.user.pk) if viewer.name else Q(pk__in=[])
