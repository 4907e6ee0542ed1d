"""Inbox filters as SQL: one condition per term of the filter language."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import reduce
from operator import or_

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from checkpoints.models import Presence
from checkpoints.rules import RISKS
from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.errors import Invalid
from wfdash.queries.requests.filters import read_filter
from wfdash.queries.search.json_names import NamesAny
from wfdash.queries.search.language import ParsedFilter, Term, duration_of, moment_of

ToCondition = Callable[[Viewer, Term, str, datetime], Q]


def filter_requests(viewer: Viewer, text: str) -> Q:
    """Return the condition of a filter text; ``Invalid`` names each part that cannot be parsed, and its remedy."""
    wanted = read_filter(text)
    if wanted.flaws:
        raise Invalid([{"loc": ["q", flaw.part], "msg": flaw.message} for flaw in wanted.flaws])
    return condition_of(viewer, wanted, timezone.now())


def condition_of(viewer: Viewer, wanted: ParsedFilter, now: datetime) -> Q:
    """Return the condition of a parsed filter: all terms and words hold, the values of one term are alternatives."""
    found = Q()
    for term in wanted.terms:
        one = reduce(or_, (CONDITIONS[term.key](viewer, term, value, now) for value in term.values))
        found &= ~one if term.negated else one
    for word in wanted.words:
        found &= _word(word)
    for word in wanted.unwanted:
        found &= ~_word(word)
    return found


def _word(word: str) -> Q:
    """Return the condition that the subject, or the name or title of the workflow, contains the word."""
    lower = word.lower()
    titled = [entry.name for entry in catalog.entries() if lower in (entry.description.title or "").lower()]
    # Null for a headline that cannot be read: it must not make "not this word" neither true nor false.
    subject = Q(subject__isnull=False, subject__icontains=word)
    return subject | Q(workflow__icontains=word) | Q(workflow__in=titled)


def _workflow(viewer: Viewer, term: Term, value: str, now: datetime) -> Q:
    return Q(workflow__startswith=value[:-1]) if value.endswith("*") else Q(workflow=value)


def _risk(viewer: Viewer, term: Term, value: str, now: datetime) -> Q:
    return Q(risk=RISKS.get(value.lower(), 0))


def _due(viewer: Viewer, term: Term, value: str, now: datetime) -> Q:
    word = value.lower()
    some = Q(due__isnull=False)
    if word in {"none", "any"}:
        return ~some if word == "none" else some
    if word == "overdue":
        return some & Q(due__lt=now)
    if word == "today":
        return some & Q(due__lt=now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1))
    bound = moment_of(value, now)
    return some & (Q(due__gt=bound) if term.sign == ">" else Q(due__lte=bound))


def _age(viewer: Viewer, term: Term, value: str, now: datetime) -> Q:
    since = now - min(duration_of(value) or timedelta(), timedelta(days=36_500))
    return Q(created__gt=since) if term.sign == "<" else Q(created__lte=since)


def _assignee(viewer: Viewer, term: Term, value: str, now: datetime) -> Q:
    if value.lower() == "none":
        return Q(assignee__isnull=True)
    if value.lower() == "me":
        return Q(assignee__isnull=False, assignee_id=viewer.user.pk)
    return Q(assignee__isnull=False, assignee__username=value)


def _by(viewer: Viewer, term: Term, value: str, now: datetime) -> Q:
    if value.lower() == "me":
        return Q(NamesAny("by", [viewer.name, *viewer.groups]))
    return Q(NamesAny("by", [value]))


def _is(viewer: Viewer, term: Term, value: str, now: datetime) -> Q:
    seen = Presence.objects.filter(request=OuterRef("pk"), user_id=viewer.user.pk)
    return {
        "overdue": Q(due__isnull=False, due__lt=now),
        "unread": ~Q(Exists(seen)),
        "asked": Q(asked__isnull=False),
        "assigned": Q(assignee__isnull=False),
        "unanswerable": ~Q(stuck=""),
    }[value.lower()]


CONDITIONS: dict[str, ToCondition] = {
    "workflow": _workflow,
    "step": lambda viewer, term, value, now: Q(step=value),
    "kind": lambda viewer, term, value, now: Q(kind=value.lower()),
    "risk": _risk,
    "due": _due,
    "age": _age,
    "assignee": _assignee,
    "by": _by,
    "is": _is,
}
