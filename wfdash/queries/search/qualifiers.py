"""Filter keys as rows of a table. A list declares its own; its box, help, suggestions and errors follow from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

from wfdash.access.viewer import Viewer
from wfdash.domain.errors import Invalid
from wfdash.engines import catalog

# Where the values come from that a search box suggests: rows of the list, and the catalogue.


@dataclass(frozen=True, kw_only=True)
class ListedValues:
    """What occurs in rows of a list: of each row the values of ``columns``, a name or a list of names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def of(self, column: str) -> list[str]:
        """Return the values of a column, sorted."""
        found = (row[self.columns.index(column)] for row in self.rows)
        return sorted({name for value in found for name in (value if isinstance(value, list) else [value]) if name})


def listed(column: str) -> Callable[[ListedValues], Iterable[str]]:
    """Return what suggests the values that occur in a column."""
    return lambda values: values.of(column)


def listed_workflows(values: ListedValues) -> list[Suggestion]:
    """Return the workflows that occur, with their titles."""
    titles = catalog.titles()
    return [Suggestion(name, titles.get(name, "")) for name in values.of("workflow")]


def visible_workflows(viewer: Viewer) -> list[Suggestion]:
    """Return the loaded workflows this person may see, with their titles."""
    titles = catalog.titles()
    return [Suggestion(name, titles[name]) for name in sorted(titles) if viewer.may("see", name)]


C = TypeVar("C")
S = TypeVar("S")


class Suggestion(NamedTuple):
    """A value to choose, and what it is called where that says more."""

    value: str
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Qualifier(Generic[C, S]):
    """A filter key. ``condition`` is what the list makes a condition with, ``S`` what it takes suggestions from."""

    key: str
    example: str
    meaning: str
    condition: C
    values: tuple[str, ...] = ()
    """Values that are always suggested."""
    only: tuple[str, ...] = ()
    """The values there are, where no others are; suggested in this order."""
    accepts: Callable[[str, str], bool] = lambda value, sign: True
    """Returns whether a value with this sign can be understood."""
    signs: tuple[str, ...] = ()
    suggest: Callable[[S], Iterable[Suggestion | str]] = lambda source: ()
    paths: Callable[[S], Iterable[Suggestion]] | None = None
    """Where a path follows behind a dot (``input.amount``): returns the names there are, each with what it is."""
    single: bool = False
    """Whether a row has exactly one value, so that terms that repeat the key are alternatives."""

    @property
    def name(self) -> str:
        """The key, as one writes it."""
        return f"{self.key}.…" if self.paths else self.key

    def understands(self, value: str, sign: str) -> bool:
        """Return whether a value is one of those there are, or one that is accepted."""
        return value.lower() in self.only if self.only else self.accepts(value, sign)

    def suggestions(self, source: S) -> list[dict[str, str]]:
        """Return the values to choose from, as the search box takes them."""
        found = [*self.values, *self.only, *self.suggest(source)]
        return [_offered(Suggestion(one) if isinstance(one, str) else one) for one in found]


@dataclass(frozen=True, kw_only=True)
class ListFilter(Generic[C, S]):
    """What a list can be filtered by. ``words`` says where words are looked for."""

    qualifiers: tuple[Qualifier[C, S], ...]
    words: str
    word_flaw: Callable[[str], str] = lambda word: ""
    """Says what is wrong with a word to look for; nothing, mostly."""

    def __getitem__(self, key: str) -> Qualifier[C, S]:
        return next(one for one in self.qualifiers if one.key == key)

    def read(self, text: str) -> ParsedFilter:
        """Return what a text asks for. Never raises: what is wrong with it stands in ``flaws``."""
        terms: list[Term] = []
        words: dict[bool, list[str]] = {True: [], False: []}
        flaws = [*too_long(text)]
        for part, said in split(text):
            said = self._nested(said) if isinstance(said, Term) else said
            message = self._flaw(said)
            if message:
                flaws.append(Flaw(part=part, message=message))
            elif isinstance(said, Term):
                terms.append(said)
            elif said.text:
                words[said.negated].append(said.text)
        merged = tuple(self._merged(terms))
        return ParsedFilter(terms=merged, words=tuple(words[False]), unwanted=tuple(words[True]), flaws=tuple(flaws))

    def parse(self, text: str) -> ParsedFilter:
        """Return what a text asks for; ``Invalid`` names each part that cannot be understood, and its remedy."""
        found = self.read(text)
        if found.flaws:
            raise Invalid([{"loc": ["q", flaw.part], "msg": flaw.message} for flaw in found.flaws])
        return found

    def help(self) -> list[tuple[str, str]]:
        """Return what one can write, each with its meaning: the keys, then what holds for all of them."""
        first = next((one for one in self.qualifiers if len(one.only) > 1), None)
        general = [('"blue chair"', self.words), (f"-{self.qualifiers[0].example}", "exclude with a minus")]
        several = [(f"{first.key}:{','.join(first.only[:2])}", "any of several")] if first else []
        return [(one.example, one.meaning) for one in self.qualifiers] + general + several

    def suggestions(self, source: S) -> dict[str, Any]:
        """Return ``{"keys": [{key, example, meaning}], "values": {key: [{value, label}]}}``."""
        plain = [one for one in self.qualifiers if one.paths is None]
        keys = [{"key": one.key, "example": one.example, "meaning": one.meaning} for one in plain]
        paths = [path for one in self.qualifiers if one.paths for path in one.paths(source)]
        keys += [{"key": path.value, "example": f"{path.value}:…", "meaning": path.label} for path in paths]
        return {"keys": keys, "values": {one.key: one.suggestions(source) for one in self.qualifiers}}

    def _nested(self, term: Term) -> Term:
        head, _, path = term.key.partition(".")
        nested = any(one.paths and one.key == head for one in self.qualifiers)
        return replace(term, key=head, path=path) if nested else term

    def _merged(self, terms: list[Term]) -> list[Term]:
        """Return terms with those that repeat the key of a single value in one, as alternatives."""
        kept: list[Term] = []
        for term in terms:
            same = next((one for one in kept if self[term.key].single and _joins(one, term)), None)
            if same is None:
                kept.append(term)
            else:
                kept[kept.index(same)] = replace(same, values=same.values + term.values)
        return kept

    def _flaw(self, said: Term | Word) -> str:
        """Say what is wrong with a part and what to write; empty if nothing is."""
        if isinstance(said, Word):
            return self.word_flaw(said.text) if said.text else ""
        one = next((one for one in self.qualifiers if one.key == said.key), None)
        if one is None:
            known = ", ".join(one.name for one in self.qualifiers)
            return f'Unknown filter "{said.key}". Available: {known}. Put text with a colon in quotes.'
        if not said.values:
            return f"Enter a value after the colon: {one.example}"
        if said.sign and said.sign not in one.signs:
            return f"{self._sign_rule(said.sign)}: {one.example}"
        wrong = next((value for value in said.values if not one.understands(value, said.sign)), None)
        if wrong is None:
            return ""
        return f'Invalid value "{said.sign}{wrong}" for {said.name}. Expected: {one.meaning}. Example: {one.example}'

    def _sign_rule(self, sign: str) -> str:
        keys = [one.key for one in self.qualifiers if sign in one.signs]
        return f"{sign} can only be used with {_list(keys)}" if keys else f"{sign} cannot be used here"


def _joins(one: Term, other: Term) -> bool:
    return one.key == other.key and not (one.negated or other.negated or one.sign or other.sign)


def _offered(one: Suggestion) -> dict[str, str]:
    quoted = f'"{one.value}"' if " " in one.value or "," in one.value else one.value
    return {"value": quoted, "label": one.label if one.label != one.value else ""}


def _list(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# The grammar of filters: text in, terms and words out. Pure.

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
