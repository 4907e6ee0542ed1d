"""Filter keys as rows of a table. A list declares its own; its box, help, suggestions and errors follow from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from wfdash.errors import Invalid
from wfdash.queries.search.language import Flaw, ParsedFilter, Term, Word, split, too_long

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
