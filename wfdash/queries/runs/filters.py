"""What the list of runs can be filtered by. Pure.

``status:waiting,failed workflow:refund started:<2d input.amount:>100 tag:eu "blue chair"``
"""

from __future__ import annotations

from datetime import datetime, timedelta

from checkpoints.records import ENDED, Phase, Status
from wfdash.domain import search_attributes
from wfdash.queries.search.language import (
    INEQUALITIES,
    MAX_DURATION,
    SIGNS,
    ParsedFilter,
    Vocabulary,
    day_of,
    duration_of,
    read,
    start_of,
)

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
    "workflow": "this workflow; ref* for prefix",
    "started": "<2d: within two days, >2d: longer ago, today, 2026-01-31, <2026-01-31",
    "finished": "<1h, >2d, today, 2026-01-31",
    "by": "started by me, a user name, or none",
    "tag": "has this tag; eu* for prefix; -tag:* for no tags",
    "error": "error class of the last failure",
    "input": "an input value: >100, <=5, >2026-01-31, text, begins*, true",
    "is": "altered, restored, edited, overridden, forked, mine",
    "version": "version prefix",
    "id": "ID prefix",
}
TIMES = ("started", "finished")
DAY = timedelta(days=1)


def _is_time(value: str, sign: str) -> bool:
    if not sign:
        return value.lower() == "today" or day_of(value) is not None
    return day_of(value) is not None or (sign in INEQUALITIES and duration_of(value) is not None)


def _is_value(value: str, sign: str) -> bool:
    return not sign or bound_of(value) is not None


def _word(word: str) -> str:
    return "" if search_attributes.tokens(word) else "Contains no letter or digit to search for."


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


def read_filter(text: str) -> ParsedFilter:
    """Read a filter of the list of runs. Never raises: what is wrong with it stands in ``flaws``."""
    return read(text, VOCABULARY)


def bound_of(value: str) -> float | None:
    """Return what values of an input are compared with: a number, or the seconds of a day; None for anything else."""
    moment = search_attributes.moment_in(value)
    return search_attributes.number_of(value) if moment is None else moment.timestamp()


def times_of(value: str, sign: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return from when (inclusive) until when (exclusive) a time is meant; None: without an end.

    ``<2d`` is within two days, ``>2d`` longer ago; of days ``<`` is before it, ``>`` after it, ``<=`` with it.
    """
    span = duration_of(value)
    if span is not None:
        since = now - min(span, MAX_DURATION)
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
