"""What the list of runs can be filtered by: one row for each key, with its condition and what is suggested for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import reduce
from operator import add, and_, or_
from typing import Any

from django.db.models import F, OuterRef, Q
from django.db.models.functions import Now
from django.db.models.lookups import Contains, Exact, GreaterThan, GreaterThanOrEqual, IsNull, LessThan, LessThanOrEqual
from django.utils import timezone

from checkpoints.database.compiled import Literally
from checkpoints.database.living_workers import served_workflows
from checkpoints.models import Claim, Event
from checkpoints.models.fields import current_encryptor
from checkpoints.models.user_model import USERNAME, User, has_name
from checkpoints.records import ENDED, Phase, Status
from checkpoints.rules import NANOS, TIMED
from wfdash.access.viewer import EVERY, Viewer
from wfdash.domain import search_attributes
from wfdash.domain.errors import Invalid
from wfdash.engines import catalog
from wfdash.queries.runs.finding import (
    BEGUN,
    ENDED_TOO,
    FACTS,
    RUNS,
    AccessPath,
    Condition,
    IndexScan,
    NoIndex,
    Root,
    Search,
    StartsWith,
    ToFilter,
    has,
    in_values,
    on_run,
    texts_beginning,
    values_of,
    within,
)
from wfdash.queries.search import (
    SIGNS,
    ListFilter,
    Qualifier,
    RowExists,
    Span,
    Suggestion,
    Term,
    is_time,
    times_of,
    visible_workflows,
)

# What ``is:`` finds in the list of runs: how people altered a run, and whether anyone can take it.


def is_in_state(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``is:altered,mine``."""
    return any_of([_state(asker, value.lower()) for value in term.values])


def _state(asker: SearchContext, state: str) -> Condition:
    if state == "mine":
        return started_by(asker, Term(key="by", values=("me",)))
    if state == "unserved":
        return _unserved()
    if state == "forked":
        routes = (AccessPath(ways=(IndexScan(root=RUNS, where=Q(forked_from__isnull=False)),)),)
        return Condition(holds=lambda root: Q(IsNull(NoIndex(f"{root.run}forked_from"), False)), routes=routes)
    # Said in the statement itself: only so does SQLite know that the index of altered runs will do.
    ways = (IndexScan(root=RUNS, where=Q(Literally("altered", "> ''"))),)
    named = "" if state == "altered" else state
    return Condition(
        holds=lambda root: on_run(root, "altered", Contains, named) & ~in_values(root, "altered", [""]),
        routes=(AccessPath(ways=ways, exact=not named),),
    )


def _unserved() -> Condition:
    """Return the condition of the runs that are due and that no running worker serves (two queries)."""
    served = served_workflows()
    timed = [phase.value for phase in sorted(TIMED)]

    def holds(root: Root) -> Q:
        if served is None:
            return either(())
        wake = NoIndex(f"{root.run}wake_at")
        woken = in_values(root, "phase", timed) & Q(IsNull(wake, False)) & Q(LessThanOrEqual(wake, Now()))
        due = woken | either(status_filter(status.value, root) for status in (Status.QUEUED, Status.INTERRUPTED))
        return due & in_values(root, "for_workers", [True]) & ~in_values(root, "workflow", sorted(served))

    ready, woken = Q(phase=Phase.READY.value), Q(wake_at__isnull=False, wake_at__lte=Now())
    ways = (IndexScan(root=RUNS, where=ready), IndexScan(root=RUNS, where=woken, orders=frozenset()))
    return Condition(holds=holds, routes=(AccessPath(ways=ways, exact=False),))


# Conditions of a search for runs, one function for each filter key, with the indexes that lead there.

MOST_NAMES = 300
"""Workflows, or versions, among which those that begin so are looked for."""
MOST_SEEN = 30
"""Workflows that are walked one beside the other; who may see more of them walks along all runs."""
TEXT_ATTRIBUTES = (search_attributes.TITLE, search_attributes.WORD)
MOST_LOOKED_UP = 8
"""Beginnings that are completed from an index; a filter with more of them is read along the runs."""
ID = re.compile(r"[0-9a-f][0-9a-f-]{5,35}")
PURE = frozenset(status.value for status in Status) & frozenset(phase.value for phase in Phase) - {Phase.PAUSED.value}
"""Statuses that depend on the phase only, not on the actor or a claim."""
COMPARED: dict[str, Any] = {"<": LessThan, ">": GreaterThan, "<=": LessThanOrEqual, ">=": GreaterThanOrEqual}


@dataclass(kw_only=True)
class SearchContext:
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


def bound_of(value: str) -> float | None:
    """Return what values of an input are compared with: a number, or the seconds of a day; None for anything else."""
    moment = search_attributes.moment_in(value)
    return search_attributes.number_of(value) if moment is None else moment.timestamp()


def phases_of(status: str) -> frozenset[Phase]:
    """Return the phases in which a run may have this status, or one of those that ``open`` and ``ended`` mean."""
    if status in {"open", "ended"}:
        return ENDED if status == "ended" else frozenset(Phase) - ENDED
    if status in {"queued", "running", "interrupted"}:
        return frozenset({Phase.READY})
    return frozenset({Phase.PAUSED if status == "held" else Phase(status)})


def status_filter(status: str, root: Root = RUNS) -> Q:
    """Return the condition of a status; the twin of ``records.status_of``."""
    phases = in_values(root, "phase", sorted(phase.value for phase in phases_of(status)))
    claims = Claim.objects.filter(run_id=OuterRef(root.id), epoch__gte=F("run__epoch"))
    live, any_ = Q(RowExists(claims.filter(expires__gt=Now()))), Q(RowExists(claims))
    no_one = in_values(root, "acted_by", [""])
    also = {"paused": ~no_one, "held": no_one, "queued": ~any_, "running": live, "interrupted": any_ & ~live}
    return phases & also.get(status, Q())


def visible_to(asker: SearchContext) -> list[Condition]:
    """Return what restricts runs to those of workflows that a person may see; nothing where they may see all."""
    names = asker.workflows("see")
    if names is None:
        return []
    route = _routes_by("workflow", names)
    routes = (route,) if len(names) <= MOST_SEEN else ()
    return [Condition(holds=lambda root: in_values(root, "workflow", names), routes=routes)]


def inverse(part: Condition) -> Condition:
    """Return the condition of the runs for which another does not hold."""
    return Condition(holds=lambda root: ~part.holds(root))


def either(qs: Iterable[Q]) -> Q:
    """Return the condition that any of these is true; of none, that nothing is."""
    return reduce(or_, qs, Q(pk__in=[]))


def _routes_by(column: str, values: Iterable[Any], orders: frozenset[str] = BEGUN) -> AccessPath:
    return AccessPath(ways=tuple(IndexScan(root=RUNS, where=Q(**{column: value}), orders=orders) for value in values))


def _unsorted(*wheres: Q, root: Root = RUNS) -> AccessPath:
    """Return a route whose rows do not come newest first."""
    return AccessPath(ways=tuple(IndexScan(root=root, where=where, orders=frozenset()) for where in wheres))


def has_status(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``status:waiting,failed``."""
    names = [value.lower() for value in term.values]

    def holds(root: Root) -> Q:
        return either(status_filter(name, root) for name in names)

    phases = _routes_by("phase", sorted({phase.value for name in names for phase in phases_of(name)}), ENDED_TOO)
    routes = [replace(phases, exact=set(names) <= PURE | {"open", "ended"})]
    if set(names) <= {"running", "interrupted"}:
        routes.append(replace(_unsorted(Q(pk__in=Claim.objects.values("run_id"))), exact=False))
    return Condition(holds=holds, routes=tuple(routes))


def by_column(column: str, *, always: bool = False) -> Callable[[SearchContext, Term], Condition]:
    """Return how a column is compared: as a whole, or (``always``, or with ``*``) by how it begins."""

    def say(asker: SearchContext, term: Term) -> Condition:
        exact = [value for value in term.values if not (always or value.endswith("*"))]
        begins = tuple(value.rstrip("*") for value in term.values if always or value.endswith("*"))
        known = values_of(column, MOST_NAMES) if begins and not term.negated else ()
        if known is None or (begins and term.negated):
            return Condition(holds=lambda root: in_values(root, column, exact) | _begins(root, column, begins))
        found = sorted({*exact, *(value for value in known if value.startswith(begins))})
        return Condition(holds=lambda root: in_values(root, column, found), routes=(_routes_by(column, found),))

    return say


def _begins(root: Root, column: str, prefixes: Iterable[str]) -> Q:
    return either(Q(StartsWith(NoIndex(f"{root.run}{column}"), prefix)) for prefix in prefixes)


def has_finished(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``finished:<1h``."""
    spans = [times_of(value, term.sign, asker.now) for value in term.values]

    def holds(root: Root) -> Q:
        column = NoIndex(f"{root.run}finished")
        return Q(IsNull(column, False)) & either(within(column, span) for span in spans)

    wheres = (Q(finished__isnull=False) & within(F("finished"), span) for span in spans)
    ways = tuple(IndexScan(root=RUNS, where=where, orders=ENDED_TOO - BEGUN) for where in wheres)
    return Condition(holds=holds, routes=(AccessPath(ways=ways),))


def has_started(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``started:<1h``, where it does not bound the search itself."""
    spans = [times_of(value, term.sign, asker.now) for value in term.values]
    return Condition(holds=lambda root: either(within(F("created"), span) for span in spans))


def was_active(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``active:2026-01-31``: begun before its end, and not ended before its start."""
    spans = [times_of(value, term.sign, asker.now) for value in term.values]

    def lasted(root: Root, span: Span) -> Q:
        finished = NoIndex(f"{root.run}finished")
        ended = Q(IsNull(finished, True)) | Q(GreaterThanOrEqual(finished, span[0])) if span[0] else Q()
        return ended & within(NoIndex("created"), (None, span[1]))

    return Condition(holds=lambda root: either(lasted(root, span) for span in spans))


def reached_step(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``step:review``."""
    names = list(term.values)
    return Condition(
        holds=lambda root: Q(RowExists(Event.objects.filter(run_id=OuterRef(root.id), step__in=names))),
    )


def started_by(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``by:me,none``."""
    mine = asker.viewer.user.pk
    people = [mine if value.lower() == "me" else asker.people.get(value) for value in term.values if value != "none"]
    known = [pk for pk in people if pk is not None]
    no_one = "none" in term.values

    def holds(root: Root) -> Q:
        column = NoIndex(f"{root.run}created_by_id")
        someone = Q(IsNull(column, False)) & in_values(root, "created_by_id", known)
        return someone | Q(IsNull(column, True)) if no_one else someone

    ways = [IndexScan(root=RUNS, where=Q(created_by_id=pk)) for pk in known]
    ways += [IndexScan(root=RUNS, where=Q(created_by_id__isnull=True))] if no_one else []
    return Condition(holds=holds, routes=(AccessPath(ways=tuple(ways)),))


def id_begins(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``id:0198``."""
    prefixes = [value.lower().rstrip("*") for value in term.values]
    route = _unsorted(*(Q(StartsWith("id", prefix)) for prefix in prefixes))
    return Condition(holds=lambda root: _begins(root, "id", prefixes), routes=(route,))


def in_thread(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``thread:01980c7e-…``, the id of a thread's first run."""
    ids = [value.lower() for value in term.values]
    return Condition(
        holds=lambda root: Q(IsNull(NoIndex(f"{root.run}thread"), False)) & in_values(root, "thread", ids),
        routes=(AccessPath(ways=tuple(IndexScan(root=RUNS, where=Q(thread=one)) for one in ids)),),
    )


def any_of(parts: list[Condition]) -> Condition:
    """Return the condition of the runs for which any of these holds."""
    led = [part.routes[-1] for part in parts if part.routes]
    route = AccessPath(ways=tuple(way for one in led for way in one.ways), exact=all(one.exact for one in led))
    return Condition(
        holds=lambda root: either(part.holds(root) for part in parts),
        routes=(route,) if len(led) == len(parts) else (),
    )


def has_attribute(name: str) -> Callable[[SearchContext, Term], Condition]:
    """Return how facts are compared: as a whole, or with ``*`` by how they begin."""
    return lambda asker, term: _texts(
        asker, name, [search_attributes.folded(value) for value in term.values], term.negated
    )


def _texts(asker: SearchContext, name: str, texts: list[str], negated: bool = False) -> Condition:
    exact = [text for text in texts if not text.endswith("*")]
    begins = [text[:-1] for text in texts if text.endswith("*")]
    if not begins:
        where = Q(name=name, text__in=exact)
        return Condition(holds=lambda root: has(root, where, equal=True), routes=(_by_texts([(name, exact)]),))
    some = either([Q(text__in=exact), *(Q(StartsWith(NoIndex("text"), prefix)) for prefix in begins)]) & Q(name=name)
    if negated:
        return Condition(holds=lambda root: has(root, some))
    wheres = [Q(text__in=exact), *(Q(StartsWith("text", prefix)) for prefix in begins)]
    routes = [_unsorted(*(Q(name=name) & where for where in wheres), root=FACTS)]
    completed = [asker.complete(name, prefix) for prefix in begins]
    if None not in completed:
        routes.append(_by_texts([(name, [*exact, *(text for found in completed for text in found or ())])]))
    return Condition(holds=lambda root: has(root, some), routes=tuple(routes))


def _by_texts(named: Iterable[tuple[str, Iterable[str]]]) -> AccessPath:
    pairs = ((name, text) for name, texts in named for text in dict.fromkeys(texts))
    return AccessPath(ways=tuple(IndexScan(root=FACTS, where=Q(name=name, text=text)) for name, text in pairs))


def input_is(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``input.amount:>100``."""
    name = search_attributes.path_name(term.path.split(".") if term.path else ())
    if term.sign:
        compare, bounds = COMPARED[term.sign], [bound_of(value) for value in term.values]
        beyond = Q(name=name) & either(Q(compare(NoIndex("number"), bound)) for bound in bounds)
        route = _unsorted(*(Q(compare(F("number"), bound), name=name) for bound in bounds), root=FACTS)
        return _for_inspectors(asker, Condition(holds=lambda root: has(root, beyond), routes=(route,)))
    numbers = [number for value in term.values if (number := search_attributes.number_of(value)) is not None]
    texts = [search_attributes.folded(value) for value in term.values if search_attributes.number_of(value) is None]
    parts = [_equal(name, number) for number in numbers]
    parts += [_texts(asker, name, texts, term.negated)] if texts else []
    return _for_inspectors(asker, parts[0] if len(parts) == 1 else any_of(parts))


def _equal(name: str, number: float) -> Condition:
    where = Q(name=name, number=number)
    route = AccessPath(ways=(IndexScan(root=FACTS, where=where),))
    return Condition(holds=lambda root: has(root, where, equal=True), routes=(route,))


def _for_inspectors(asker: SearchContext, part: Condition) -> Condition:
    """What a run was given is for those who may read it: others do not even find it by that."""
    names = asker.workflows("inspect")
    if names is None:
        return part
    routes = tuple(replace(route, exact=False) for route in part.routes)
    return Condition(holds=lambda root: part.holds(root) & in_values(root, "workflow", names), routes=routes)


UNKNOWN = "unknown"
MOST_STORED = 2**63 - 1
AMOUNT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([km]?)", re.ASCII | re.IGNORECASE)


def amount_of(value: str) -> Decimal | None:
    """Return a number such as ``0.25``, ``10k`` or ``2.5M``; None for any other text."""
    found = AMOUNT.fullmatch(value)
    return found and Decimal(found[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[found[2].lower()]


def costs(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``cost:>1,unknown``."""
    unpriced = UNKNOWN in map(str.lower, term.values)
    return _used(term, ("cost",), NANOS, lambda root: on_run(root, "unpriced", GreaterThan, 0) if unpriced else Q())


def uses_tokens(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``tokens:>10k``."""
    return _used(term, ("input_tokens", "output_tokens"), 1)


def _used(term: Term, columns: Iterable[str], unit: int, other: ToFilter = lambda root: Q()) -> Condition:
    """Return how a sum of what models used is compared, among the runs that used any."""
    amounts = (amount_of(value) for value in term.values)
    bounds = [min(int(amount * unit), MOST_STORED) for amount in amounts if amount is not None]

    def holds(root: Root) -> Q:
        total: Any = reduce(add, (F(f"{root.run}{column}") for column in columns))
        compared = either(Q(COMPARED.get(term.sign, Exact)(total, bound)) for bound in bounds)
        return Q(IsNull(F(f"{root.run}input_tokens"), False)) & (compared | other(root))

    ways = (IndexScan(root=RUNS, where=Q(input_tokens__isnull=False)),)
    return Condition(holds=holds, routes=(AccessPath(ways=ways, exact=False),))


def word_occurs(asker: SearchContext, word: str, *, negated: bool = False) -> Condition:
    """Every part of it begins a word of the title or workflow, or of input or failure; or the id begins so."""
    parts = search_attributes.tokens(word)
    by_id = [word.lower()] if ID.fullmatch(word.lower()) else []
    names = asker.workflows("inspect")

    def token(root: Root, text: str) -> Q:
        begun = Q(StartsWith(NoIndex("text"), text))
        if names is None:
            return has(root, begun & Q(name__in=TEXT_ATTRIBUTES))
        content = has(root, begun & Q(name=search_attributes.WORD)) & in_values(root, "workflow", names)
        return has(root, begun & Q(name=search_attributes.TITLE)) | content

    def holds(root: Root) -> Q:
        return reduce(and_, (token(root, text) for text in parts)) | _begins(root, "id", by_id)

    if negated:
        return Condition(holds=holds)
    longest, ids = max(parts, key=len), _unsorted(*(Q(StartsWith("id", prefix)) for prefix in by_id)).ways
    begun = _unsorted(*(Q(StartsWith("text", longest), name=name) for name in TEXT_ATTRIBUTES), root=FACTS)
    routes = [begun]
    completed = [(name, asker.complete(name, longest)) for name in TEXT_ATTRIBUTES]
    if all(found is not None for _, found in completed):
        routes.append(_by_texts([(name, found or ()) for name, found in completed]))
    exact = names is None and len(parts) == 1
    return Condition(holds=holds, routes=tuple(AccessPath(ways=(*route.ways, *ids), exact=exact) for route in routes))


MAX_SUGGESTED_TEXTS = 100
MOST_PATHS = 60
SEALED = "Run input is encrypted and cannot be searched. Use workflow, status, tag, error or the title"

ToCondition = Callable[[SearchContext, Term], Condition]


def _occurring(attribute: str) -> Callable[[Viewer], Iterable[str]]:
    return lambda viewer: texts_beginning(attribute, "", MAX_SUGGESTED_TEXTS) or ()


def _paths(viewer: Viewer) -> Iterable[Suggestion]:
    """Return the fields of inputs that this person may look for, each with its workflow's title."""
    found = (
        Suggestion(search_attributes.path_name(path), f"input of {entry.description.title or entry.name}")
        for entry in catalog.entries()
        if viewer.may("inspect", entry.name)
        for path in search_attributes.paths_of(entry.description.input_schema)
    )
    return list(dict.fromkeys(found))[:MOST_PATHS]


QUALIFIERS: tuple[Qualifier[ToCondition, Viewer], ...] = (
    Qualifier(
        "status",
        "status:waiting",
        "waiting, running, queued, failed, completed, paused …; open or ended",
        only=(*(status.value for status in Status), "open", "ended"),
        condition=has_status,
    ),
    Qualifier(
        "workflow",
        "workflow:refund",
        "this workflow; ref* for prefix",
        suggest=visible_workflows,
        condition=by_column("workflow"),
    ),
    Qualifier(
        "started",
        "started:<2d",
        "<2d: within two days, >2d: longer ago, today, 2026-01-31, 2026-01-31T14, a range with two dots",
        accepts=is_time,
        signs=SIGNS,
        values=("<1h", "<1d", "<7d", ">7d", "today"),
        condition=has_started,
    ),
    Qualifier(
        "finished",
        "finished:<1h",
        "<1h, >2d, today, 2026-01-31, 2026-01-31T14..2026-02-01",
        accepts=is_time,
        signs=SIGNS,
        values=("<1h", "<1d", "today"),
        condition=has_finished,
    ),
    Qualifier(
        "active",
        "active:<1h",
        "open at any time in this period: <1h, today, 2026-01-31T14..2026-01-31T15",
        accepts=is_time,
        signs=SIGNS,
        values=("<1h", "<1d", "today"),
        condition=was_active,
    ),
    Qualifier("step", "step:review", "has reached this step", condition=reached_step),
    Qualifier("by", "by:me", "started by me, a user name, or none", values=("me", "none"), condition=started_by),
    Qualifier(
        "tag",
        "tag:eu",
        "has this tag; eu* for prefix; -tag:* for no tags",
        suggest=_occurring(search_attributes.TAG),
        condition=has_attribute(search_attributes.TAG),
    ),
    Qualifier(
        "error",
        "error:ValueError",
        "error class of the last failure",
        suggest=_occurring(search_attributes.ERROR),
        condition=has_attribute(search_attributes.ERROR),
    ),
    Qualifier(
        "input",
        "input.amount:>100",
        "an input value: >100, <=5, >2026-01-31, text, begins*, true",
        accepts=lambda value, sign: not sign or bound_of(value) is not None,
        signs=SIGNS,
        paths=_paths,
        condition=input_is,
    ),
    Qualifier(
        "cost",
        "cost:>1",
        "what its models cost, in the dashboard's currency: >1, <=0.25; unknown: of a part",
        accepts=lambda value, sign: amount_of(value) is not None or (value.lower() == UNKNOWN and not sign),
        signs=SIGNS,
        values=(">1", UNKNOWN),
        condition=costs,
    ),
    Qualifier(
        "tokens",
        "tokens:>10k",
        "tokens of its models, in and out together: >10k, <=2.5M",
        accepts=lambda value, sign: amount_of(value) is not None,
        signs=SIGNS,
        values=(">10k", ">1M"),
        condition=uses_tokens,
    ),
    Qualifier(
        "is",
        "is:altered",
        "altered, restored, edited, overridden, forked, mine; unserved: due, and no running worker serves it",
        only=("altered", "restored", "edited", "overridden", "forked", "mine", "unserved"),
        condition=is_in_state,
    ),
    Qualifier("version", "version:4f1c", "version prefix", condition=by_column("version", always=True)),
    Qualifier(
        "thread", "thread:01980c7e-…", "runs that follow one another, by the ID of the first", condition=in_thread
    ),
    Qualifier("id", "id:0198", "ID prefix", condition=id_begins),
)


def _word_flaw(word: str) -> str:
    return "" if search_attributes.tokens(word) else "Contains no letter or digit to search for."


FILTER = ListFilter(
    qualifiers=QUALIFIERS,
    words="words (or their beginning) in title, workflow name, input or error; or an ID",
    word_flaw=_word_flaw,
)


def search_for(viewer: Viewer, text: str) -> Search:
    """Return the search a text asks for; ``Invalid`` names each part that cannot be understood, and its remedy.

    At most a constant number of queries: for names, and for what begins with ``…*`` or with a word.
    """
    wanted = FILTER.parse(text)
    hidden = [term.name for term in wanted.terms if term.key == "input"] if current_encryptor().active else []
    if hidden:
        raise Invalid([{"loc": ["q", name], "msg": SEALED} for name in hidden])
    asker = SearchContext(viewer=viewer, now=timezone.now())
    names = {name for term in wanted.terms if term.key == "by" for name in term.values} - {"me", "none"}
    if names:
        asker.people = dict(User.objects.filter(has_name(names, "in")).values_list(USERNAME, "pk"))
    since = until = None
    parts = visible_to(asker)
    for term in wanted.terms:
        if term.key == "started" and not term.negated and len(term.values) == 1:
            least, below = times_of(term.values[0], term.sign, asker.now)
            since = max(filter(None, (since, least)), default=None)
            until = min(filter(None, (until, below)), default=None)
        else:
            until = _bounded(until, asker, term)
            part = FILTER[term.key].condition(asker, term)
            parts.append(inverse(part) if term.negated else part)
    parts += [word_occurs(asker, word) for word in wanted.words]
    parts += [inverse(word_occurs(asker, word, negated=True)) for word in wanted.unwanted]
    return Search(parts=tuple(parts), since=since, until=until)


def _bounded(until: datetime | None, asker: SearchContext, term: Term) -> datetime | None:
    """Return before when runs began: those active in a time had begun by its end, so the search need not pass later
    ones.
    """
    if term.key != "active" or term.negated or len(term.values) > 1:
        return until
    below = times_of(term.values[0], term.sign, asker.now)[1]
    return min(filter(None, (until, below)), default=None)
