"""What the list of runs can be filtered by: one row for each key, with its condition and what is suggested for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from django.utils import timezone

from checkpoints.models.fields import current_encryptor
from checkpoints.models.user_model import USERNAME, User, has_name
from checkpoints.records import Status
from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.domain import search_attributes
from wfdash.errors import Invalid
from wfdash.queries.runs.filtering import conditions
from wfdash.queries.runs.filtering.conditions import SearchContext
from wfdash.queries.runs.filtering.expressions import Condition, Search, texts_beginning
from wfdash.queries.runs.filtering.states import is_in_state
from wfdash.queries.search.language import SIGNS, ParsedFilter, Term
from wfdash.queries.search.qualifiers import ListFilter, Qualifier, Suggestion
from wfdash.queries.search.suggestions import visible_workflows
from wfdash.queries.search.times import is_time, times_of

MOST = 100
MOST_PATHS = 60
SEALED = "Run input is encrypted and cannot be searched. Use workflow, status, tag, error or the title"

ToCondition = Callable[[SearchContext, Term], Condition]


def _occurring(attribute: str) -> Callable[[Viewer], Iterable[str]]:
    return lambda viewer: texts_beginning(attribute, "", MOST) or ()


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
        key="status",
        example="status:waiting",
        meaning="waiting, running, queued, failed, completed, paused …; open or ended",
        only=(*(status.value for status in Status), "open", "ended"),
        condition=conditions.has_status,
    ),
    Qualifier(
        key="workflow",
        example="workflow:refund",
        meaning="this workflow; ref* for prefix",
        suggest=visible_workflows,
        condition=conditions.by_column("workflow"),
    ),
    Qualifier(
        key="started",
        example="started:<2d",
        meaning="<2d: within two days, >2d: longer ago, today, 2026-01-31, 2026-01-31T14, a range with two dots",
        accepts=is_time,
        signs=SIGNS,
        values=("<1h", "<1d", "<7d", ">7d", "today"),
        condition=conditions.has_started,
    ),
    Qualifier(
        key="finished",
        example="finished:<1h",
        meaning="<1h, >2d, today, 2026-01-31, 2026-01-31T14..2026-02-01",
        accepts=is_time,
        signs=SIGNS,
        values=("<1h", "<1d", "today"),
        condition=conditions.has_finished,
    ),
    Qualifier(
        key="active",
        example="active:<1h",
        meaning="open at any time in this period: <1h, today, 2026-01-31T14..2026-01-31T15",
        accepts=is_time,
        signs=SIGNS,
        values=("<1h", "<1d", "today"),
        condition=conditions.was_active,
    ),
    Qualifier(
        key="step",
        example="step:review",
        meaning="has reached this step",
        condition=conditions.reached_step,
    ),
    Qualifier(
        key="by",
        example="by:me",
        meaning="started by me, a user name, or none",
        values=("me", "none"),
        condition=conditions.started_by,
    ),
    Qualifier(
        key="tag",
        example="tag:eu",
        meaning="has this tag; eu* for prefix; -tag:* for no tags",
        suggest=_occurring(search_attributes.TAG),
        condition=conditions.has_attribute(search_attributes.TAG),
    ),
    Qualifier(
        key="error",
        example="error:ValueError",
        meaning="error class of the last failure",
        suggest=_occurring(search_attributes.ERROR),
        condition=conditions.has_attribute(search_attributes.ERROR),
    ),
    Qualifier(
        key="input",
        example="input.amount:>100",
        meaning="an input value: >100, <=5, >2026-01-31, text, begins*, true",
        accepts=lambda value, sign: not sign or conditions.bound_of(value) is not None,
        signs=SIGNS,
        paths=_paths,
        condition=conditions.input_is,
    ),
    Qualifier(
        key="is",
        example="is:altered",
        meaning="altered, restored, edited, overridden, forked, mine; unserved: due, and no running worker serves it",
        only=("altered", "restored", "edited", "overridden", "forked", "mine", "unserved"),
        condition=is_in_state,
    ),
    Qualifier(
        key="version",
        example="version:4f1c",
        meaning="version prefix",
        condition=conditions.by_column("version", always=True),
    ),
    Qualifier(
        key="thread",
        example="thread:01980c7e-…",
        meaning="runs that follow one another, by the ID of the first",
        condition=conditions.in_thread,
    ),
    Qualifier(key="id", example="id:0198", meaning="ID prefix", condition=conditions.id_begins),
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
    return _search(asker, wanted)


def run_suggestions(viewer: Viewer) -> dict[str, Any]:
    """Return what the filter of the list of runs suggests (two queries)."""
    return FILTER.suggestions(viewer)


def _bounded(until: datetime | None, asker: SearchContext, term: Term) -> datetime | None:
    """Return before when runs began: those active in a time had begun by its end, so the search need not pass later
    ones.
    """
    if term.key != "active" or term.negated or len(term.values) > 1:
        return until
    below = times_of(term.values[0], term.sign, asker.now)[1]
    return min(filter(None, (until, below)), default=None)


def _search(asker: SearchContext, wanted: ParsedFilter) -> Search:
    since = until = None
    parts = conditions.visible_to(asker)
    for term in wanted.terms:
        if term.key == "started" and not term.negated and len(term.values) == 1:
            least, below = times_of(term.values[0], term.sign, asker.now)
            since = max(filter(None, (since, least)), default=None)
            until = min(filter(None, (until, below)), default=None)
        else:
            until = _bounded(until, asker, term)
            part = FILTER[term.key].condition(asker, term)
            parts.append(conditions.inverse(part) if term.negated else part)
    parts += [conditions.word_occurs(asker, word) for word in wanted.words]
    parts += [conditions.inverse(conditions.word_occurs(asker, word, negated=True)) for word in wanted.unwanted]
    return Search(parts=tuple(parts), since=since, until=until)
