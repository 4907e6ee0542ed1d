"""The language people filter the inbox with. Pure: text in, terms and what is wrong with it out.

``workflow:refund risk:high,medium due:<4h -assignee:none "blue chair"``
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

LONGEST = 500
TERM = re.compile(r'(?P<part>(?P<not>-)?(?:(?P<key>[A-Za-z_]+):)?(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]+|(?<=:))))')
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])")
RISKS = ("none", "low", "medium", "high")
STATES = ("overdue", "unread", "asked", "assigned")
EXAMPLES = {
    "workflow": "workflow:refund",
    "step": "step:review",
    "kind": "kind:approval",
    "risk": "risk:high",
    "due": "due:<4h",
    "age": "age:>2d",
    "assignee": "assignee:me",
    "by": "by:finance",
    "is": "is:overdue",
}
"""Every key, with what one writes."""
MEANINGS = {
    "workflow": "of this workflow",
    "step": "asked by this step",
    "kind": "approval, choice, question, form …",
    "risk": "high, medium, low or none",
    "due": "<4h, >2d, today, overdue, none, <2030-01-31",
    "age": ">2d: older, <1h: newer",
    "assignee": "me, none, or a user name",
    "by": "asked of this person or group",
    "is": "overdue, unread, asked, assigned",
}


@dataclass(frozen=True, kw_only=True)
class Term:
    """One part: ``due:<4h``. ``sign`` is ``<`` or ``>`` where it was given."""

    key: str
    values: tuple[str, ...]
    sign: str = ""
    negated: bool = False


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """A part that cannot be understood, and what to write instead."""

    part: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a filter asks for. With ``flaws`` it must not be applied: it would list something else than was meant."""

    terms: tuple[Term, ...] = ()
    words: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    """Words that must not occur."""
    flaws: tuple[Flaw, ...] = field(default=())


def read_filter(text: str) -> Wanted:
    """Read a filter. Never raises: what is wrong with it stands in ``flaws``."""
    terms: list[Term] = []
    flaws: list[Flaw] = []
    words: dict[bool, list[str]] = {True: [], False: []}
    if len(text) > LONGEST:
        flaws.append(Flaw(part=f"{text[:20]}…", message=f"A filter has at most {LONGEST} characters: shorten it."))
    for found in TERM.finditer(text[:LONGEST].replace("\0", "")):
        value = found["quoted"] if found["quoted"] is not None else found["bare"]
        if found["key"] is None:
            if value:
                words[bool(found["not"])].append(value)
            continue
        term = _term(found["key"].lower(), value, bool(found["not"]), quoted=found["quoted"] is not None)
        message = _complaint(term, value)
        if message:
            flaws.append(Flaw(part=found["part"], message=message))
        else:
            terms.append(term)
    return Wanted(terms=tuple(terms), words=tuple(words[False]), unwanted=tuple(words[True]), flaws=tuple(flaws))


def span_of(value: str) -> timedelta | None:
    """Return ``4h`` as a duration (s, m, h, d, w; parts add up: ``1d12h``), None for anything else."""
    if not value or SPAN.sub("", value):
        return None
    return sum((timedelta(**{UNITS[unit]: float(number)}) for number, unit in SPAN.findall(value)), timedelta())


def moment_of(value: str, now: datetime) -> datetime | None:
    """Return what a bound names: a time from now (``4h``) or a day (``2030-01-31``, its start, UTC)."""
    span = span_of(value)
    if span is not None:
        return now + min(span, timedelta(days=36_500))
    day = _day(value)
    return datetime(day.year, day.month, day.day, tzinfo=UTC) if day else None


def _term(key: str, value: str, negated: bool, *, quoted: bool) -> Term:
    sign = value[0] if not quoted and value[:1] in {"<", ">"} else ""
    rest = value[len(sign) :]
    values = (rest,) if quoted else tuple(part for part in rest.split(",") if part)
    return Term(key=key, values=values, sign=sign, negated=negated)


def _complaint(term: Term, value: str) -> str:
    """Say what is wrong with a term and what to write; empty if nothing is."""
    if term.key not in EXAMPLES:
        return f'There is no filter "{term.key}". Known are {", ".join(EXAMPLES)}; words with a colon go in quotes.'
    if not term.values:
        return f"Say what after the colon: {EXAMPLES[term.key]}"
    if term.sign and term.key not in {"due", "age"}:
        return f"{term.sign} goes with due and age only: {EXAMPLES[term.key]}"
    check = CHECKS.get(term.key)
    wrong = next((one for one in term.values if check and not check(one)), None)
    return "" if wrong is None else f"{wrong} is none of: {MEANINGS[term.key]}. Write {EXAMPLES[term.key]}"


def _day(value: str) -> date | None:
    try:
        return date.fromisoformat(value) if len(value) == 10 else None
    except ValueError:
        return None


def _is_due(value: str) -> bool:
    return value.lower() in {"today", "overdue", "none", "any"} or span_of(value) is not None or _day(value) is not None


CHECKS: dict[str, Callable[[str], bool]] = {
    "risk": lambda value: value.lower() in RISKS,
    "is": lambda value: value.lower() in STATES,
    "due": _is_due,
    "age": lambda value: span_of(value) is not None,
}
