"""The grammar of filters: text in, terms and words out. Pure.

``workflow:refund risk:high,medium due:<4h -assignee:none "blue chair"``
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_LENGTH = 500
TERM = re.compile(
    r'(?P<part>(?P<not>-)?(?:(?P<key>[A-Za-z_][\w.-]*):)?(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]+|(?<=:))))'
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
