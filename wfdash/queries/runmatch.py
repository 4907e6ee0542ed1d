"""A filter of the list of runs as a search: each term said as a condition, with the indexes that lead there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from operator import and_, or_
from typing import Any

from django.contrib.auth.models import User
from django.db.models import BooleanField, F, Func, OuterRef, Q
from django.db.models.functions import Now
from django.db.models.lookups import Contains, GreaterThan, GreaterThanOrEqual, IsNull, LessThan, LessThanOrEqual
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
    Aside,
    Asked,
    Begins,
    Part,
    Root,
    Route,
    Search,
    Way,
    among,
    has,
    on_run,
    texts_beginning,
    values_of,
    within,
)

MOST_NAMES = 300
"""Workflows, or versions, among which those that begin so are looked for."""
MOST_SEEN = 30
"""Workflows that are walked one beside the other; who may see more of them walks along all runs."""
SAID = (facts.TITLE, facts.WORD)
MOST_LOOKED_UP = 8
"""Beginnings that are completed from an index; a filter with more of them is read along the runs."""
ID = re.compile(r"[0-9a-f][0-9a-f-]{5,35}")
PURE = frozenset(status.value for status in Status) & frozenset(phase.value for phase in Phase) - {Phase.PAUSED.value}
"""Statuses that are a phase, whoever acted and whoever holds a claim."""
SEALED = (
    "What runs were given is encrypted here, so it cannot be searched: use workflow, status, tag, error or the title"
)
COMPARED: dict[str, Any] = {"<": LessThan, ">": GreaterThan, "<=": LessThanOrEqual, ">=": GreaterThanOrEqual}


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
    parts += [_not(_word(asker, word, negated=True)) for word in wanted.unwanted]
    return Search(parts=tuple(parts), since=since, until=until)


def status_filter(status: str, root: Root = RUNS) -> Q:
    """Return the condition of a status; the twin of ``records.status_of``."""
    phases = among(root, "phase", sorted(phase.value for phase in phases_of(status)))
    claims = Claim.objects.filter(run_id=OuterRef(root.id))
    live, any_ = Q(Asked(claims.filter(expires__gt=Now()))), Q(Asked(claims))
    nobody = among(root, "acted_by", [""])
    also = {"paused": ~nobody, "held": nobody, "queued": ~any_, "running": live, "interrupted": any_ & ~live}
    return phases & also.get(status, Q())


def _seen(asker: Asker) -> list[Part]:
    names = asker.workflows("see")
    if names is None:
        return []
    route = _by_column("workflow", names)
    return [Part(holds=lambda root: among(root, "workflow", names), routes=(route,) if len(names) <= MOST_SEEN else ())]


def _not(part: Part) -> Part:
    return Part(holds=lambda root: ~part.holds(root))


def _either(qs: Iterable[Q]) -> Q:
    return reduce(or_, qs, Q(pk__in=[]))


def _by_column(column: str, values: Iterable[Any]) -> Route:
    return Route(ways=tuple(Way(root=RUNS, where=Q(**{column: value})) for value in values))


def _gathered(*wheres: Q, root: Root = RUNS) -> Route:
    """Return a route whose rows do not come newest first."""
    return Route(ways=tuple(Way(root=root, where=where, ordered=False) for where in wheres))


def _status(asker: Asker, term: Term) -> Part:
    names = [value.lower() for value in term.values]

    def holds(root: Root) -> Q:
        return _either(status_filter(name, root) for name in names)

    phases = _by_column("phase", sorted({phase.value for name in names for phase in phases_of(name)}))
    routes = [replace(phases, exact=set(names) <= PURE | {"open", "ended"})]
    if set(names) <= {"running", "interrupted"}:
        routes.append(replace(_gathered(Q(pk__in=Claim.objects.values("run_id"))), exact=False))
    return Part(holds=holds, routes=tuple(routes))


def _column(column: str, *, always: bool = False) -> Callable[[Asker, Term], Part]:
    """Return how a column is compared: as a whole, or (``always``, or with ``*``) by how it begins."""

    def say(asker: Asker, term: Term) -> Part:
        exact = [value for value in term.values if not (always or value.endswith("*"))]
        begins = tuple(value.rstrip("*") for value in term.values if always or value.endswith("*"))
        known = values_of(column, MOST_NAMES) if begins and not term.negated else ()
        if known is None or (begins and term.negated):
            return Part(holds=lambda root: among(root, column, exact) | _begins(root, column, begins))
        found = sorted({*exact, *(value for value in known if value.startswith(begins))})
        return Part(holds=lambda root: among(root, column, found), routes=(_by_column(column, found),))

    return say


def _begins(root: Root, column: str, prefixes: Iterable[str]) -> Q:
    return _either(Q(Begins(Aside(f"{root.run}{column}"), prefix)) for prefix in prefixes)


def _finished(asker: Asker, term: Term) -> Part:
    spans = [times_of(value, term.sign, asker.now) for value in term.values]

    def holds(root: Root) -> Q:
        column = Aside(f"{root.run}finished")
        return Q(IsNull(column, False)) & _either(within(column, span) for span in spans)

    route = _gathered(*(Q(finished__isnull=False) & within(F("finished"), span) for span in spans))
    return Part(holds=holds, routes=(route,))


def _started(asker: Asker, term: Term) -> Part:
    spans = [times_of(value, term.sign, asker.now) for value in term.values]
    return Part(holds=lambda root: _either(within(F("created"), span) for span in spans))


def _by(asker: Asker, term: Term) -> Part:
    mine = asker.viewer.user.pk
    people = [mine if value.lower() == "me" else asker.people.get(value) for value in term.values if value != "none"]
    known = [pk for pk in people if pk is not None]
    nobody = "none" in term.values

    def holds(root: Root) -> Q:
        column = Aside(f"{root.run}created_by_id")
        someone = Q(IsNull(column, False)) & among(root, "created_by_id", known)
        return someone | Q(IsNull(column, True)) if nobody else someone

    ways = [Way(root=RUNS, where=Q(created_by_id=pk)) for pk in known]
    ways += [Way(root=RUNS, where=Q(created_by_id__isnull=True))] if nobody else []
    return Part(holds=holds, routes=(Route(ways=tuple(ways)),))


def _id(asker: Asker, term: Term) -> Part:
    prefixes = [value.lower().rstrip("*") for value in term.values]
    route = _gathered(*(Q(Begins("id", prefix)) for prefix in prefixes))
    return Part(holds=lambda root: _begins(root, "id", prefixes), routes=(route,))


def _is(asker: Asker, term: Term) -> Part:
    return _any_of([_state(asker, value.lower()) for value in term.values])


def _state(asker: Asker, state: str) -> Part:
    if state == "mine":
        return _by(asker, Term(key="by", values=("me",)))
    if state == "forked":
        ways = (Way(root=RUNS, where=Q(forked_from__isnull=False)),)
        return Part(holds=lambda root: Q(IsNull(Aside(f"{root.run}forked_from"), False)), routes=(Route(ways=ways),))
    # Said in the statement itself: only so does SQLite know that the index of altered runs will do.
    ways = (Way(root=RUNS, where=Q(Func(F("altered"), template="%(expressions)s > ''", output_field=BooleanField()))),)
    named = "" if state == "altered" else state
    return Part(
        holds=lambda root: on_run(root, "altered", Contains, named) & ~among(root, "altered", [""]),
        routes=(Route(ways=ways, exact=not named),),
    )


def _any_of(parts: list[Part]) -> Part:
    led = [part.routes[-1] for part in parts if part.routes]
    route = Route(ways=tuple(way for one in led for way in one.ways), exact=all(one.exact for one in led))
    return Part(
        holds=lambda root: _either(part.holds(root) for part in parts),
        routes=(route,) if len(led) == len(parts) else (),
    )


def _fact(name: str) -> Callable[[Asker, Term], Part]:
    """Return how facts are compared: as a whole, or with ``*`` by how they begin."""
    return lambda asker, term: _texts(asker, name, [facts.folded(value) for value in term.values], term.negated)


def _texts(asker: Asker, name: str, texts: list[str], negated: bool = False) -> Part:
    exact = [text for text in texts if not text.endswith("*")]
    begins = [text[:-1] for text in texts if text.endswith("*")]
    if not begins:
        where = Q(name=name, text__in=exact)
        return Part(holds=lambda root: has(root, where, equal=True), routes=(_by_texts([(name, exact)]),))
    some = _either([Q(text__in=exact), *(Q(Begins(Aside("text"), prefix)) for prefix in begins)]) & Q(name=name)
    if negated:
        return Part(holds=lambda root: has(root, some))
    wheres = [Q(text__in=exact), *(Q(Begins("text", prefix)) for prefix in begins)]
    routes = [_gathered(*(Q(name=name) & where for where in wheres), root=FACTS)]
    completed = [asker.complete(name, prefix) for prefix in begins]
    if None not in completed:
        routes.append(_by_texts([(name, [*exact, *(text for found in completed for text in found or ())])]))
    return Part(holds=lambda root: has(root, some), routes=tuple(routes))


def _by_texts(named: Iterable[tuple[str, Iterable[str]]]) -> Route:
    ways = (Way(root=FACTS, where=Q(name=name, text=text)) for name, texts in named for text in dict.fromkeys(texts))
    return Route(ways=tuple(ways))


def _input(asker: Asker, term: Term) -> Part:
    name = facts.path_name(term.path.split(".") if term.path else ())
    if term.sign:
        compare, bounds = COMPARED[term.sign], [bound_of(value) for value in term.values]
        beyond = Q(name=name) & _either(Q(compare(Aside("number"), bound)) for bound in bounds)
        route = _gathered(*(Q(compare(F("number"), bound), name=name) for bound in bounds), root=FACTS)
        return _for_inspectors(asker, Part(holds=lambda root: has(root, beyond), routes=(route,)))
    numbers = [number for value in term.values if (number := facts.number_of(value)) is not None]
    texts = [facts.folded(value) for value in term.values if facts.number_of(value) is None]
    parts = [_equal(name, number) for number in numbers]
    parts += [_texts(asker, name, texts, term.negated)] if texts else []
    return _for_inspectors(asker, parts[0] if len(parts) == 1 else _any_of(parts))


def _equal(name: str, number: float) -> Part:
    where = Q(name=name, number=number)
    route = Route(ways=(Way(root=FACTS, where=where),))
    return Part(holds=lambda root: has(root, where, equal=True), routes=(route,))


def _for_inspectors(asker: Asker, part: Part) -> Part:
    """What a run was given is for those who may read it: others do not even find it by that."""
    names = asker.workflows("inspect")
    if names is None:
        return part
    routes = tuple(replace(route, exact=False) for route in part.routes)
    return Part(holds=lambda root: part.holds(root) & among(root, "workflow", names), routes=routes)


def _word(asker: Asker, word: str, *, negated: bool = False) -> Part:
    """Every part of it begins a word of the title or workflow, or of input or failure; or the id begins so."""
    parts = facts.tokens(word)
    by_id = [word.lower()] if ID.fullmatch(word.lower()) else []
    names = asker.workflows("inspect")

    def token(root: Root, text: str) -> Q:
        begun = Q(Begins(Aside("text"), text))
        if names is None:
            return has(root, begun & Q(name__in=SAID))
        content = has(root, begun & Q(name=facts.WORD)) & among(root, "workflow", names)
        return has(root, begun & Q(name=facts.TITLE)) | content

    def holds(root: Root) -> Q:
        return reduce(and_, (token(root, text) for text in parts)) | _begins(root, "id", by_id)

    if negated:
        return Part(holds=holds)
    longest, ids = max(parts, key=len), _gathered(*(Q(Begins("id", prefix)) for prefix in by_id)).ways
    begun = _gathered(*(Q(Begins("text", longest), name=name) for name in SAID), root=FACTS)
    routes = [begun]
    completed = [(name, asker.complete(name, longest)) for name in SAID]
    if all(found is not None for _, found in completed):
        routes.append(_by_texts([(name, found or ()) for name, found in completed]))
    exact = names is None and len(parts) == 1
    return Part(holds=holds, routes=tuple(Route(ways=(*route.ways, *ids), exact=exact) for route in routes))


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
