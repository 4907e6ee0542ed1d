"""Where a run stands, at the top of its page: sentences with moments in them that the browser keeps true. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from wfdash.pages.timefmt import duration, relative, since
from wfdash.pages.words import STANDING, called
from wfdash.queries import Deed, RequestRow, RunView
from wfdash.workflow.signals import KIND

MOST_NAMES = 3
MOST_MESSAGE = 90


@dataclass(frozen=True, kw_only=True)
class Part:
    """A piece of a sentence: words, or a moment. ``since``: said as a length of time; ``due``: red once it is past."""

    text: str = ""
    at: datetime | None = None
    since: bool = False
    due: bool = False


Sentence = tuple[Part, ...]


def where(
    run: RunView, asked: Sequence[RequestRow] = (), course: Sequence[Deed] = (), busy: Sequence[str] = ()
) -> Sentence:
    """Return what it does, for what or whom it waits, since when, until when; or how it ended.

    ``asked``: its requests; ``course``: what changed its course; ``busy``: the steps that run.
    """
    told = WHERE.get(run.status.value)
    return told(run, asked, course, busy) if told else _words(STANDING[run.status.value])


def plain(sentence: Iterable[Part], now: datetime) -> str:
    """Return a sentence as text, for where no browser keeps it true."""
    return "".join(part.text or (since if part.since else relative)(part.at or now, now) for part in sentence)


def _words(*texts: str | Part) -> Sentence:
    return tuple(text if isinstance(text, Part) else Part(text=text) for text in texts if text)


def _waiting(run: RunView, asked: Sequence[RequestRow], course: Sequence[Deed], busy: Sequence[str]) -> Sentence:
    waiting = [row for row in asked if row.open]
    settling = [row.settles for row in asked if row.settles and row.answered is None and not row.closed_as]
    if not waiting:
        decided = _words("Decided; it takes effect ", Part(at=min(settling))) if settling else _words("Waiting")
        return decided + _timer(run)
    begun = Part(at=min(row.created for row in waiting), since=True)
    names = dict.fromkeys(name for row in waiting for name in ([row.assignee] if row.assignee else row.by))
    more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    if waiting[0].kind == KIND:
        told = _words(f"Waiting for {waiting[0].subject.removeprefix('Waits for ')}{more} since ", begun)
    else:
        told = _words(f"Waiting for {_listed(names) or 'an answer'} since ", begun, f": “{waiting[0].subject}”{more}")
    dues = [row.due for row in waiting if row.due]
    return told + (_words(", due ", Part(at=min(dues), due=True)) if dues else ()) + _timer(run)


def _timer(run: RunView) -> Sentence:
    return _words("; something else in it goes on ", Part(at=run.wake_at)) if run.wake_at else ()


def _sleeping(run: RunView, asked: Sequence[RequestRow], course: Sequence[Deed], busy: Sequence[str]) -> Sentence:
    step = f" in {called(run.step)}" if run.step else ""
    return _words(f"Sleeping{step}, wakes ", Part(at=run.wake_at)) if run.wake_at else _words(f"Sleeping{step}")


def _retrying(run: RunView, asked: Sequence[RequestRow], course: Sequence[Deed], busy: Sequence[str]) -> Sentence:
    which = run.retry or {}
    attempt = f": attempt {which['attempt']} of {which['attempts']} " if which.get("attempts") else ", again "
    step = f"Retrying {called(run.step)}" if run.step else "A step failed and is tried again"
    return _words(f"{step}{attempt}", Part(at=run.wake_at)) if run.wake_at else _words(f"{step}{attempt}soon")


def _failed(run: RunView, asked: Sequence[RequestRow], course: Sequence[Deed], busy: Sequence[str]) -> Sentence:
    error = run.error or {}
    kind, message, step = (str(error.get(name) or "") for name in ("type", "message", "step"))
    message = " ".join(message.split())
    cut = f"{message[:MOST_MESSAGE]}…" if len(message) > MOST_MESSAGE else message
    at = _last(course, "run.failed") or run.finished or run.updated
    place = f" in {called(step)}" if step else ""
    return _words("Failed ", Part(at=at), f"{place}: {kind or 'an error'}{f' ({cut})' if cut else ''}")


def _running(run: RunView, asked: Sequence[RequestRow], course: Sequence[Deed], busy: Sequence[str]) -> Sentence:
    names = _listed([called(step) for step in busy])
    ending = " Somebody asked that it end after this step." if _asked_to_end(course) else ""
    told = f"Running {names}, for " if names else "Running for "
    return _words(told, Part(at=run.created, since=True), f"{' in all' if names else ''}.{ending}")


def _asked_to_end(course: Sequence[Deed]) -> bool:
    return bool(course) and course[-1].kind == "run.ending"


def _stopped(run: RunView, asked: Sequence[RequestRow], course: Sequence[Deed], busy: Sequence[str]) -> Sentence:
    status = run.status.value
    at = _last(course, f"run.{status}")
    by = f" by {run.acted_by}" if run.acted_by else ""
    later = "; nothing drives it until somebody resumes it" if status == "paused" else ""
    return _words(f"{status.capitalize()}{by} ", Part(at=at or run.updated), later)


def _completed(run: RunView, asked: Sequence[RequestRow], course: Sequence[Deed], busy: Sequence[str]) -> Sentence:
    if run.finished is None:
        return _words("Completed")
    return _words("Completed ", Part(at=run.finished), f", after {duration(run.lasted)}")


def _queued(run: RunView, asked: Sequence[RequestRow], course: Sequence[Deed], busy: Sequence[str]) -> Sentence:
    return _words("Queued since ", Part(at=run.updated, since=True), ": a worker takes it in a moment")


WHERE = {
    "waiting": _waiting,
    "sleeping": _sleeping,
    "retrying": _retrying,
    "failed": _failed,
    "running": _running,
    "paused": _stopped,
    "cancelled": _stopped,
    "completed": _completed,
    "queued": _queued,
}
ALTERED = {
    "run.restored": "Restored from an earlier checkpoint by {by} ",
    "run.edited": "Edited by {by} ",
    "run.overridden": "Carried on under a changed graph by {by} ",
}


def marks(course: Iterable[Deed], altered: str = "") -> tuple[tuple[int, Sentence], ...]:
    """Return for ever how people changed its course: (seq of the event, sentence).

    ``altered``: all that was done to it, comma between; what this run does not tell itself was done before a fork (0).
    """
    told: list[tuple[int, Sentence]] = []
    seen = {deed.kind.removeprefix("run.") for deed in course}
    if before := [word for word in altered.split(",") if word and word not in seen]:
        told.append((0, _words(f"Forked from a run that had been {_listed(before)}")))
    for deed in course:
        if deed.kind in ALTERED:
            words = ALTERED[deed.kind].format(by=deed.by or "somebody")
            n = f", as checkpoint {deed.data['n']}" if deed.data.get("n") else ""
            told.append((deed.seq, _words(words, Part(at=deed.at), n)))
    return tuple(told)


def _last(course: Sequence[Deed], kind: str) -> datetime | None:
    return next((deed.at for deed in reversed(course) if deed.kind == kind), None)


def _listed(names: Iterable[str]) -> str:
    """Return names as people say them: ``finance, ana and 2 more``."""
    known = list(names)
    shown, rest = known[:MOST_NAMES], len(known) - MOST_NAMES
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)
