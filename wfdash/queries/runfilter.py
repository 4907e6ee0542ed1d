"""What the list of runs can be filtered by. Pure.

``status:waiting,failed workflow:refund started:<2d input.amount:>100 tag:eu "blue chair"``
"""

from __future__ import annotations

from datetime import datetime, timedelta

from checkpoints.records import ENDED, Phase, Status
from wfdash import facts
from wfdash.queries.language import EITHER, FURTHEST, SIGNS, Vocabulary, Wanted, day_of, read, span_of, start_of

STATUSES = (*(status.value for status in Status), "open", "ended")
STATES = ("altered", "restored", "edited", "overridden", "forked", "mine")
EXAMPLES = {
    "status": "status:waiting",
    "workflow": "workflow:refund",
    "started": "started:<2d",
    "finished": "finished:<1h",
    "by": "by:me",
    "tag": "tag:eu",
    "error": "error:ValueError",
    "input": "input.amount:>100",
    "is": "is:altered",
    "version": "version:4f1c",
    "id": "id:0198",
}
"""Every key, with what one writes."""
MEANINGS = {
    "status": "waiting, running, queued, failed, completed, paused …; open or ended",
    "workflow": "of this workflow; ref*: begins so",
    "started": "<2d: within two days, >2d: longer ago, today, 2026-01-31, <2026-01-31",
    "finished": "<1h, >2d, today, 2026-01-31",
    "by": "started by me, a user name, or none",
    "tag": "has this tag; eu*: begins so; -tag:*: has none",
    "error": "the class of its last failure",
    "input": "a value of its input: >100, <=5, >2026-01-31, text, begins*, true",
    "is": "altered, restored, edited, overridden, forked, mine",
    "version": "of the graph whose version begins so",
    "id": "its id begins so",
}
TIMES = ("started", "finished")
DAY = timedelta(days=1)


def _is_time(value: str, sign: str) -> bool:
    if not sign:
        return value.lower() == "today" or day_of(value) is not None
    return day_of(value) is not None or (sign in EITHER and span_of(value) is not None)


def _is_value(value: str, sign: str) -> bool:
    return not sign or bound_of(value) is not None


def _word(word: str) -> str:
    return "" if facts.tokens(word) else "There is no letter or digit in it to look for: leave it out."


VOCABULARY = Vocabulary(
    examples=EXAMPLES,
    meanings=MEANINGS,
    checks={
        "status": lambda value, sign: value.lower() in STATUSES,
        "is": lambda value, sign: value.lower() in STATES,
        "started": _is_time,
        "finished": _is_time,
        "input": _is_value,
    },
    signs={"started": SIGNS, "finished": SIGNS, "input": SIGNS},
    families=frozenset({"input"}),
    word=_word,
)


def read_filter(text: str) -> Wanted:
    """Read a filter of the list of runs. Never raises: what is wrong with it stands in ``flaws``."""
    return read(text, VOCABULARY)


def bound_of(value: str) -> float | None:
    """Return what values of an input are compared with: a number, or the seconds of a day; None for anything else."""
    moment = facts.moment_in(value)
    return facts.number_of(value) if moment is None else moment.timestamp()


def times_of(value: str, sign: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return from when (inclusive) until when (exclusive) a time is meant; None: without an end.

    ``<2d`` is within two days, ``>2d`` longer ago; of days ``<`` is before it, ``>`` after it, ``<=`` with it.
    """
    span = span_of(value)
    if span is not None:
        since = now - min(span, FURTHEST)
        return (since, None) if sign == "<" else (None, since)
    start = now.replace(hour=0, minute=0, second=0, microsecond=0) if value.lower() == "today" else start_of(value)
    if start is None:
        return None, None
    end = _next(start)
    return {"": (start, end), "<": (None, start), "<=": (None, end), ">": (end, None), ">=": (start, None)}[sign]


def phases_of(status: str) -> frozenset[Phase]:
    """Return the phases in which a run may have this status, or one that ``open`` and ``ended`` stand for."""
    if status in {"open", "ended"}:
        return ENDED if status == "ended" else frozenset(Phase) - ENDED
    if status in {"queued", "running", "interrupted"}:
        return frozenset({Phase.READY})
    return frozenset({Phase.PAUSED if status == "held" else Phase(status)})


def _next(day: datetime) -> datetime | None:
    try:
        return day + DAY
    except OverflowError:
        return None
