"""The filter of the list of runs, said in plain Python: the naive twin of ``wfdash.queries.runs.filter_keys``."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from checkpoints.models import Claim, Run, RunFact, WorkerBeat
from checkpoints.records import Phase, status_of
from wfdash.access.viewer import Viewer
from wfdash.domain import search_attributes
from wfdash.queries.runs.filter_keys import FILTER, bound_of
from wfdash.queries.search import Term, times_of


def found_by(viewer: Viewer, text: str) -> list[str]:
    """Return the ids of all runs a filter means, newest first."""
    wanted, now = FILTER.read(text), timezone.now()
    assert wanted.flaws == ()
    found = []
    for run in Run.objects.order_by("-created", "-id"):
        held = list(RunFact.objects.filter(run=run))
        terms = [_holds(viewer, run, held, term, now) != term.negated for term in wanted.terms]
        words = [_says(viewer, run, held, word) for word in wanted.words]
        words += [not _says(viewer, run, held, word) for word in wanted.unwanted]
        if viewer.may("see", run.workflow) and all(terms) and all(words):
            found.append(run.pk)
    return found


def _says(viewer: Viewer, run: Run, held: list[RunFact], word: str) -> bool:
    names = (
        {search_attributes.TITLE, search_attributes.WORD}
        if viewer.may("inspect", run.workflow)
        else {search_attributes.TITLE}
    )
    texts = [fact.text for fact in held if fact.name in names]
    said = all(any(text.startswith(token) for text in texts) for token in search_attributes.tokens(word))
    return said or (len(word) >= 6 and run.pk.startswith(word.lower()))


def _holds(viewer: Viewer, run: Run, held: list[RunFact], term: Term, now: datetime) -> bool:
    return any(_one(viewer, run, held, term, value, now) for value in term.values)


def _one(viewer: Viewer, run: Run, held: list[RunFact], term: Term, value: str, now: datetime) -> bool:
    if term.key == "status":
        return _status(run, value, now)
    if term.key in {"workflow", "version"}:
        given: str = getattr(run, term.key)
        begins = term.key == "version" or value.endswith("*")
        return given.startswith(value.rstrip("*")) if begins else given == value
    if term.key in {"started", "finished"}:
        return _within(run.created if term.key == "started" else run.finished, times_of(value, term.sign, now))
    if term.key == "active":
        since, until = times_of(value, term.sign, now)
        begun = until is None or run.created < until
        return begun and (since is None or run.finished is None or run.finished >= since)
    if term.key == "step":
        return run.events.filter(step=value).exists()
    if term.key == "by":
        by = viewer.name if value == "me" else value
        return run.created_by is None if value == "none" else bool(run.created_by and run.created_by.username == by)
    if term.key == "id":
        return run.pk.startswith(value)
    if term.key == "is":
        states = {"altered": bool(run.altered), "forked": bool(run.forked_from)}
        states["mine"] = run.created_by_id == viewer.user.pk
        states["unserved"] = _unserved(run, now)
        return states.get(value, value in run.altered)
    if term.key == "input":
        return viewer.may("inspect", run.workflow) and _input(held, term, value)
    return any(_same(fact.text, value.lower()) for fact in held if fact.name == term.key)


def _unserved(run: Run, now: datetime) -> bool:
    claimed = Claim.objects.filter(run=run, expires__gt=now).exists()
    woken = run.wake_at is not None and run.wake_at <= now and run.phase in {"waiting", "sleeping", "retrying"}
    served = {name for beat in WorkerBeat.objects.all() for name in beat.serves}
    return run.for_workers and not claimed and (run.phase == "ready" or woken) and run.workflow not in served


def _input(held: list[RunFact], term: Term, value: str) -> bool:
    values = [fact for fact in held if fact.name == term.name]
    number = search_attributes.number_of(value)
    if term.sign:
        compare: dict[str, Any] = {"<": float.__lt__, "<=": float.__le__, ">": float.__gt__, ">=": float.__ge__}
        return any(fact.number is not None and compare[term.sign](fact.number, bound_of(value)) for fact in values)
    if number is not None:
        return any(fact.number == number for fact in values)
    return any(_same(fact.text, value.lower()) for fact in values)


def _same(text: str, value: str) -> bool:
    return text.startswith(value[:-1]) if value.endswith("*") else text == value


def _within(at: datetime | None, span: tuple[datetime | None, datetime | None]) -> bool:
    since, until = span
    return at is not None and (since is None or at >= since) and (until is None or at < until)


def _status(run: Run, value: str, now: datetime) -> bool:
    claim = Claim.objects.filter(run=run).first()
    live = claim is not None and claim.expires > now
    status = status_of(Phase(run.phase), claimed=claim is not None, claim_live=live, acted_by=run.acted_by).value
    ended = status in {"completed", "failed", "cancelled"}
    return status == value or value == ("ended" if ended else "open")
