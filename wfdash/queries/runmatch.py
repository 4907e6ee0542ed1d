"""A filter of the list of runs as a search: each term said as a condition, with the indexes that lead there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import and_, or_

from django.contrib.auth.models import User
from django.db.models import BooleanField, Exists, F, Func, OuterRef, Q
from django.db.models.functions import Now
from django.utils import timezone

from checkpoints.fields import current_sealer
from checkpoints.models import Claim
from checkpoints.records import Phase, Status
from wfdash import facts
from wfdash.access import EVERY, Viewer
from wfdash.errors import Invalid
from wfdash.queries.language import Term, Wanted
from wfdash.queries.runfilter import bound_of, phases_of, read_filter, times_of
from wfdash.queries.runparts import (
    FACTS,
    RUNS,
    Begins,
    Part,
    Root,
    Search,
    Way,
    has,
    on_run,
    texts_beginning,
    values_of,
)

MOST_NAMES = 300
"""Workflows, or versions, among which those that begin so are looked for."""
MOST_LOOKED_UP = 8
"""Beginnings that are completed from an index; a filter with more of them is read along the runs."""
ID = re.compile(r"[0-9a-f][0-9a-f-]{5,35}")
PURE = frozenset(status.value for status in Status) & frozenset(phase.value for phase in Phase) - {Phase.PAUSED.value}
"""Statuses that are a phase, whoever acted and whoever holds a claim."""
SEALED = (
    "What runs were given is encrypted here, so it cannot be searched: use workflow, status, tag, error or the title"
)
COMPARED = {"<": "lt", ">": "gt", "<=": "lte", ">=": "gte"}


@dataclass(kw_only=True)
class Asker:
    """Who asks, when, and how many look-ups are left for this filter."""

    viewer: Viewer
    now: datetime
    left: int = MOST_LOOKED_UP
    people: dict[str, int] = field(default_factory=dict)

    def workflows(self, right: str) -> list[str] | None:
        """Return the workflows for which they have a right, None for all."""
        rights = self.viewer.rights
        if right in rights.get(EVERY, frozenset()):
            return None
        return sorted(name for name, those in rights.items() if right in those)

    def complete(self, name: str, prefix: str) -> tuple[str, ...] | None:
        """Return the texts of facts that begin so, None if they are too many to look for each."""
        self.left -= 1
        return texts_beginning(name, prefix) if self.left >= 0 else None


def searching(viewer: Viewer, text: str) -> Search:
    """Return the search a text asks for; ``Invalid`` names each part that cannot be understood, and its remedy.

    At most a constant number of queries: for names, and for what begins with ``…*`` or with a word.
    """
    wanted = read_filter(text)
    flaws = [{"loc": ["q", flaw.part], "msg": flaw.message} for flaw in wanted.flaws]
    if current_sealer().active:
        flaws += [{"loc": ["q", term.name], "msg": SEALED} for term in wanted.terms if term.key == "input"]
    if flaws:
        raise Invalid(flaws)
    asker = Asker(viewer=viewer, now=timezone.now())
    names = {name for term in wanted.terms if term.key == "by" for name in term.values} - {"me", "none"}
    if names:
        asker.people = dict(User.objects.filter(username__in=names).values_list("username", "pk"))
    return _search(asker, wanted)


def _search(asker: Asker, wanted: Wanted) -> Search:
    since = until = None
    parts = _seen(asker)
    for term in wanted.terms:
        if term.key == "started" and not term.negated and len(term.values) == 1:
            least, below = times_of(term.values[0], term.sign, asker.now)
            since = max(filter(None, (since, least)), default=None)
            until = min(filter(None, (until, below)), default=None)
        else:
            part = SAY[term.key](asker, term)
            parts.append(_not(part) if term.negated else part)
    parts += [_word(asker, word) for word in wanted.words]
    parts += [_not(_word(asker, word, ways=False)) for word in wanted.unwanted]
    return Search(parts=tuple(parts), since=since, until=until)


def status_filter(status: str, root: Root = RUNS) -> Q:
    """Return the condition of a status; the twin of ``records.status_of``."""
    phases = on_run(root, phase__in=sorted(phase.value for phase in phases_of(status)))
    claims = Claim.objects.filter(run_id=OuterRef(root.id))
    live, any_ = Q(Exists(claims.filter(expires__gt=Now()))), Q(Exists(claims))
    nobody = on_run(root, acted_by="")
    also = {"paused": ~nobody, "held": nobody, "queued": ~any_, "running": live, "interrupted": any_ & ~live}
    return phases & also.get(status, Q())


def _seen(asker: Asker) -> list[Part]:
    names = asker.workflows("see")
    if names is None:
        return []
    ways = tuple(Way(root=RUNS, where=Q(workflow=name)) for name in names) if len(names) <= MOST_NAMES // 10 else None
    return [Part(holds=lambda root: on_run(root, workflow__in=names), ways=ways, exact=True)]


def _not(part: Part) -> Part:
    return Part(holds=lambda root: ~part.holds(root))


def _either(qs: Iterable[Q]) -> Q:
    return reduce(or_, qs, Q(pk__in=[]))


def _status(asker: Asker, term: Term) -> Part:
    names = [value.lower() for value in term.values]
    if set(names) <= {"running", "interrupted"}:
        claimed = Way(root=RUNS, where=Q(pk__in=Claim.objects.values("run_id")), ordered=False)
        return Part(holds=lambda root: _either(status_filter(name, root) for name in names), ways=(claimed,))
    phases = sorted({phase.value for name in names for phase in phases_of(name)})
    return Part(
        holds=lambda root: _either(status_filter(name, root) for name in names),
        ways=tuple(Way(root=RUNS, where=Q(phase=phase)) for phase in phases),
        exact=set(names) <= PURE | {"open", "ended"},
    )


def _column(column: str, *, always: bool = False) -> Callable[[Asker, Term], Part]:
    """Return how a column is compared: as a whole, or (``always``, or with ``*``) by how it begins."""

    def say(asker: Asker, term: Term) -> Part:
        exact = [value for value in term.values if not (always or value.endswith("*"))]
        begins = [value.rstrip("*") for value in term.values if always or value.endswith("*")]
        known = values_of(column, MOST_NAMES) if begins and not term.negated else None
        if begins and known is None:
            return Part(
                holds=lambda root: _either(
                    [on_run(root, **{f"{column}__in": exact})]
                    + [Q(Begins(f"{root.run}{column}", prefix)) for prefix in begins]
                )
            )
        found = sorted(
            {*exact, *(value for value in known or () if value.startswith(tuple(begins)))} if begins else exact
        )
        ways = tuple(Way(root=RUNS, where=Q(**{column: value})) for value in found)
        return Part(holds=lambda root: on_run(root, **{f"{column}__in": found}), ways=ways, exact=True)

    return say


def _finished(asker: Asker, term: Term) -> Part:
    def within(root: Root) -> Q:
        some = on_run(root, finished__isnull=False)
        return some & _either(_span(root, times_of(value, term.sign, asker.now)) for value in term.values)

    return Part(holds=within, ways=(Way(root=RUNS, where=within(RUNS), ordered=False),), exact=True)


def _started(asker: Asker, term: Term) -> Part:
    return Part(holds=lambda root: _either(_began(times_of(value, term.sign, asker.now)) for value in term.values))


def _began(span: tuple[datetime | None, datetime | None]) -> Q:
    since, until = span
    return (Q(created__gte=since) if since else Q()) & (Q(created__lt=until) if until else Q())


def _span(root: Root, span: tuple[datetime | None, datetime | None]) -> Q:
    since, until = span
    least = on_run(root, finished__gte=since) if since else Q()
    return least & (on_run(root, finished__lt=until) if until else Q())


def _by(asker: Asker, term: Term) -> Part:
    mine = asker.viewer.user.pk
    people = [mine if value.lower() == "me" else asker.people.get(value) for value in term.values if value != "none"]
    known = [pk for pk in people if pk is not None]
    nobody = "none" in term.values

    def holds(root: Root) -> Q:
        by = on_run(root, created_by_id__isnull=False, created_by_id__in=known)
        return by | on_run(root, created_by_id__isnull=True) if nobody else by

    ways = [Way(root=RUNS, where=Q(created_by_id=pk)) for pk in known]
    ways += [Way(root=RUNS, where=Q(created_by_id__isnull=True))] if nobody else []
    return Part(holds=holds, ways=tuple(ways), exact=True)


def _id(asker: Asker, term: Term) -> Part:
    prefixes = [value.lower().rstrip("*") for value in term.values]
    return Part(
        holds=lambda root: _either(Q(Begins(f"{root.run}id", prefix)) for prefix in prefixes),
        ways=tuple(Way(root=RUNS, where=Q(Begins("id", prefix)), ordered=False) for prefix in prefixes),
        exact=True,
    )


def _is(asker: Asker, term: Term) -> Part:
    return _any_of([_state(asker, value.lower()) for value in term.values])


def _state(asker: Asker, state: str) -> Part:
    if state == "mine":
        return _by(asker, Term(key="by", values=("me",)))
    if state == "forked":
        where = Way(root=RUNS, where=Q(forked_from__isnull=False))
        return Part(holds=lambda root: on_run(root, forked_from__isnull=False), ways=(where,), exact=True)
    # Said in the statement itself: only so does SQLite know that the index of altered runs will do.
    altered = Q(Func(F("altered"), template="%(expressions)s > ''", output_field=BooleanField()))
    some = {} if state == "altered" else {"altered__contains": state}
    return Part(
        holds=lambda root: on_run(root, **(some or {"altered__gt": ""})),
        ways=(Way(root=RUNS, where=altered),),
        exact=not some,
    )


def _any_of(parts: list[Part]) -> Part:
    led = all(part.ways is not None for part in parts)
    return Part(
        holds=lambda root: _either(part.holds(root) for part in parts),
        ways=tuple(way for part in parts for way in part.ways or ()) if led else None,
        exact=all(part.exact for part in parts),
    )


def _fact(name: str) -> Callable[[Asker, Term], Part]:
    """Return how facts are compared: as a whole, or with ``*`` by how they begin."""
    return lambda asker, term: _texts(asker, name, [facts.folded(value) for value in term.values], term.negated)


def _texts(asker: Asker, name: str, texts: list[str], negated: bool = False) -> Part:
    exact = [text for text in texts if not text.endswith("*")]
    begins = [text[:-1] for text in texts if text.endswith("*")]
    completed = [None if negated else asker.complete(name, prefix) for prefix in begins]
    if None not in completed:
        found = sorted({*exact, *(text for some in completed for text in some or ())})
        where = Q(name=name, text__in=found)
        ways = tuple(Way(root=FACTS, where=Q(name=name, text=text)) for text in found)
        return Part(holds=lambda root: has(root, where, by_text=True), ways=ways, exact=True)
    some = _either([Q(text__in=exact), *(Q(Begins("text", prefix)) for prefix in begins)]) & Q(name=name)
    return Part(holds=lambda root: has(root, some))


def _input(asker: Asker, term: Term) -> Part:
    name = facts.path_name(term.path.split(".") if term.path else ())
    if term.sign:
        bounds = [Q(name=name, **{f"number__{COMPARED[term.sign]}": bound_of(value)}) for value in term.values]
        part = Part(
            holds=lambda root: has(root, _either(bounds)),
            ways=tuple(Way(root=FACTS, where=bound, ordered=False) for bound in bounds),
            exact=True,
        )
    else:
        numbers = [number for value in term.values if (number := facts.number_of(value)) is not None]
        texts = [facts.folded(value) for value in term.values if facts.number_of(value) is None]
        parts = [_equal(name, number) for number in numbers]
        part = _any_of([*parts, _texts(asker, name, texts, term.negated)] if texts else parts)
    return _for_inspectors(asker, part)


def _equal(name: str, number: float) -> Part:
    where = Q(name=name, number=number)
    return Part(holds=lambda root: has(root, where), ways=(Way(root=FACTS, where=where),), exact=True)


def _for_inspectors(asker: Asker, part: Part) -> Part:
    """What a run was given is for those who may read it: others do not even find it by that."""
    names = asker.workflows("inspect")
    if names is None:
        return part
    return Part(holds=lambda root: part.holds(root) & on_run(root, workflow__in=names), ways=part.ways)


def _word(asker: Asker, word: str, *, ways: bool = True) -> Part:
    """Every part of it begins a word of the title or workflow, or of input or failure; or the id begins so."""
    parts = facts.tokens(word)
    by_id = [word.lower()] if ID.fullmatch(word.lower()) else []
    names = asker.workflows("inspect")

    def token(root: Root, text: str) -> Q:
        title, content = Q(name=facts.TITLE), Q(name=facts.WORD)
        begun = Q(Begins("text", text))
        if names is None:
            return has(root, (title | content) & begun)
        return has(root, title & begun) | (has(root, content & begun) & on_run(root, workflow__in=names))

    def holds(root: Root) -> Q:
        said = reduce(and_, (token(root, text) for text in parts))
        return _either([said, *(Q(Begins(f"{root.run}id", prefix)) for prefix in by_id)])

    if not ways:
        return Part(holds=holds)
    longest = max(parts, key=len)
    found = [asker.complete(name, longest) for name in (facts.TITLE, facts.WORD)]
    if None in found:
        return Part(holds=holds)
    led = [
        Way(root=FACTS, where=Q(name=name, text=text))
        for name, texts in zip((facts.TITLE, facts.WORD), found, strict=True)
        for text in texts or ()
    ]
    led += [Way(root=RUNS, where=Q(Begins("id", prefix)), ordered=False) for prefix in by_id]
    return Part(holds=holds, ways=tuple(led), exact=names is None and len(parts) == 1)


SAY: dict[str, Callable[[Asker, Term], Part]] = {
    "status": _status,
    "workflow": _column("workflow"),
    "version": _column("version", always=True),
    "started": _started,
    "finished": _finished,
    "by": _by,
    "tag": _fact(facts.TAG),
    "error": _fact(facts.ERROR),
    "input": _input,
    "is": _is,
    "id": _id,
}
