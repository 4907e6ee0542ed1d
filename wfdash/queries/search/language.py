"""The grammar of filters: text in, terms and words out. Pure.

``workflow:refund risk:high,medium due:<4h -assignee:none "blue chair"``
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_LENGTH = 500
TERM = re.compile(
    r'(?P<part>(?P<not>-)?(?:(?P<key>[A-Za-z_][\w.-]*):)?(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]+|(?(key)(?<=:)|(?!)))))'
)
SIGNS = ("<=", ">=", "<", ">")
INEQUALITIES = ("<", ">")


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
class Word:
    """A word to look for, or one that must not occur."""

    text: str
    negated: bool = False


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


def split(text: str) -> Iterator[tuple[str, Term | Word]]:
    """Yield the parts of a filter as they were written, each with what it says; an empty word says nothing."""
    for found in TERM.finditer(text[:MAX_LENGTH].replace("\0", "")):
        value, negated = found["bare"] if found["quoted"] is None else found["quoted"], bool(found["not"])
        if found["key"] is None:
            yield found["part"], Word(text=value, negated=negated)
        else:
            yield found["part"], _term(found["key"].lower(), value, negated=negated, quoted=bool(found["quoted"]))


def replaced(text: str, key: str, part: str = "") -> str:
    """Return a filter in which what is asked for by a key is asked for by one part instead, or not at all.

    What it excludes by that key stays, and so does everything else, as it was written.
    """
    found = [(one, _asks_for(said, key)) for one, said in split(text)]
    at = next((number for number, (_, asks) in enumerate(found) if asks), len(found))
    kept = [one for one, asks in found if not asks]
    return " ".join([*kept[:at], *([part] if part else []), *kept[at:]])


def toggled(text: str, part: str) -> str:
    """Return a filter with this part added, without it where it has it."""
    parts = [one for one, _ in split(text)]
    rest = [one for one in parts if one.lower() != part]
    return " ".join(rest if len(rest) < len(parts) else [*parts, part])


def asked_for(text: str, key: str) -> tuple[str, ...]:
    """Return the values that a filter asks for by a key, in lower case; those with a sign do not count."""
    found = (said for _, said in split(text) if isinstance(said, Term) and _asks_for(said, key) and not said.sign)
    return tuple(value.lower() for said in found for value in said.values)


def _asks_for(said: Term | Word, key: str) -> bool:
    return isinstance(said, Term) and said.key == key and not said.negated


def too_long(text: str) -> tuple[Flaw, ...]:
    """Return the flaw of a text that is not read to its end, if it is one."""
    if len(text) <= MAX_LENGTH:
        return ()
    return (Flaw(part=f"{text[:20]}…", message=f"A filter has at most {MAX_LENGTH} characters: shorten it."),)


def _term(key: str, value: str, *, negated: bool, quoted: bool) -> Term:
    sign = "" if quoted else next((sign for sign in SIGNS if value.startswith(sign)), "")
    rest = value[len(sign) :]
    values = (rest,) if quoted else tuple(part for part in rest.split(",") if part)
    return Term(key=key, values=values, sign=sign, negated=negated)
