"""The language people filter lists with. Pure: text and a vocabulary in, terms and what is wrong with them out.

``workflow:refund risk:high,medium due:<4h -assignee:none "blue chair"``
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

MAX_LENGTH = 500
TERM = re.compile(
    r'(?P<part>(?P<not>-)?(?:(?P<key>[A-Za-z_][\w.-]*):)?(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]+|(?<=:))))'
)
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])")
SIGNS = ("<=", ">=", "<", ">")
INEQUALITIES = ("<", ">")
MAX_DURATION = timedelta(days=36_500)


@dataclass(frozen=True, kw_only=True)
class Term:
    """One part: ``due:<4h``. ``sign`` is ``<`` or the like where given; ``path``: ``amount`` in ``input.amount``."""

    key: str
    values: tuple[str, ...]
    sign: str = ""
    negated: bool = False
    path: str = ""

    @property
    def name(self) -> str:
        """The key as it was written."""
        return f"{self.key}.{self.path}" if self.path else self.key


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """A part that cannot be understood, and what to write instead."""

    part: str
    message: str


@dataclass(frozen=True, kw_only=True)
class ParsedFilter:
    """What a filter asks for. With ``flaws`` it must not be applied: it would list something else than was meant."""

    terms: tuple[Term, ...] = ()
    words: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    """Words that must not occur."""
    flaws: tuple[Flaw, ...] = field(default=())


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What a list can be filtered by. ``examples`` names every key; a key in ``families`` has a path behind a dot."""

    examples: Mapping[str, str]
    meanings: Mapping[str, str]
    checks: Mapping[str, Callable[[str, str], bool]] = field(default_factory=dict)
    """Key -> whether a value with this sign can be understood."""
    signs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    families: frozenset[str] = frozenset()
    word: Callable[[str], str] = lambda word: ""
    """Says what is wrong with a word to look for; nothing, mostly."""

    @property
    def known(self) -> str:
        """Every key, as one writes it."""
        return ", ".join(f"{key}.…" if key in self.families else key for key in self.examples)


def read(text: str, vocabulary: Vocabulary) -> ParsedFilter:
    """Read a filter. Never raises: what is wrong with it stands in ``flaws``."""
    terms: list[Term] = []
    flaws: list[Flaw] = []
    words: dict[bool, list[str]] = {True: [], False: []}
    if len(text) > MAX_LENGTH:
        flaws.append(Flaw(part=f"{text[:20]}…", message=f"A filter has at most {MAX_LENGTH} characters: shorten it."))
    for found in TERM.finditer(text[:MAX_LENGTH].replace("\0", "")):
        value = found["quoted"] if found["quoted"] is not None else found["bare"]
        if found["key"] is None:
            message = vocabulary.word(value) if value else ""
            if value and not message:
                words[bool(found["not"])].append(value)
        else:
            term = _term(
                found["key"].lower(), value, vocabulary, negated=bool(found["not"]), quoted=bool(found["quoted"])
            )
            message = _flaw(term, vocabulary)
            if not message:
                terms.append(term)
        if message:
            flaws.append(Flaw(part=found["part"], message=message))
    return ParsedFilter(terms=tuple(terms), words=tuple(words[False]), unwanted=tuple(words[True]), flaws=tuple(flaws))


def duration_of(value: str) -> timedelta | None:
    """Return ``4h`` as a duration of at most a century (s, m, h, d, w; parts add up: ``1d12h``), None if it is none."""
    if not value or SPAN.sub("", value):
        return None
    parts = (timedelta(**{UNITS[unit]: float(number)}) for number, unit in SPAN.findall(value))
    return timedelta(seconds=min(sum(part.total_seconds() for part in parts), MAX_DURATION.total_seconds()))


def moment_of(value: str, now: datetime) -> datetime | None:
    """Return what a bound names: a time from now (``4h``) or a day (``2030-01-31``, its start, UTC)."""
    span = duration_of(value)
    return now + span if span is not None else start_of(value)


def start_of(value: str) -> datetime | None:
    """Return the start of a day (``2030-01-31``, UTC), None for anything else."""
    day = day_of(value)
    return datetime(day.year, day.month, day.day, tzinfo=UTC) if day else None


def day_of(value: str) -> date | None:
    """Return the day a value names, None for anything else."""
    try:
        return date.fromisoformat(value) if len(value) == 10 else None
    except ValueError:
        return None


def _term(key: str, value: str, vocabulary: Vocabulary, *, negated: bool, quoted: bool) -> Term:
    sign = "" if quoted else next((sign for sign in SIGNS if value.startswith(sign)), "")
    rest = value[len(sign) :]
    values = (rest,) if quoted else tuple(part for part in rest.split(",") if part)
    family, _, path = key.partition(".")
    if family in vocabulary.families:
        return Term(key=family, values=values, sign=sign, negated=negated, path=path)
    return Term(key=key, values=values, sign=sign, negated=negated)


def _flaw(term: Term, vocabulary: Vocabulary) -> str:
    """Say what is wrong with a term and what to write; empty if nothing is."""
    if term.key not in vocabulary.examples:
        return f'Unknown filter "{term.key}". Available: {vocabulary.known}. Put text with a colon in quotes.'
    example = vocabulary.examples[term.key]
    if not term.values:
        return f"Enter a value after the colon: {example}"
    if term.sign and term.sign not in vocabulary.signs.get(term.key, ()):
        those = [key for key, signs in vocabulary.signs.items() if term.sign in signs]
        rule = f"{term.sign} can only be used with {_list(those)}" if those else f"{term.sign} cannot be used here"
        return f"{rule}: {example}"
    check = vocabulary.checks.get(term.key)
    wrong = next((one for one in term.values if check and not check(one, term.sign)), None)
    meaning = vocabulary.meanings[term.key]
    return "" if wrong is None else f"{term.sign}{wrong} is none of: {meaning}. Write {example}"


def _list(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
