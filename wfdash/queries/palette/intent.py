"""What a text in the search over everything may mean: an id, names, a filter of runs, a filter of requests. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wfdash.queries.requests.qualifiers import FILTER as REQUESTS
from wfdash.queries.runs.filtering.qualifiers import FILTER as RUNS
from wfdash.queries.search.language import Flaw, Term, Word, split, too_long

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
PART = re.compile(r"[0-9a-f-]{4,36}")
MIN_BEGINNING = 6
"""Ids begin with the time: fewer characters are those of every run."""
CUT = "….#"
"""What stands before the end of an id where the rest is left out."""
MIN_TEXT = 2
"""One character finds pages, workflows and actions only."""
MOST_FLAWS = 5
RUN_KEYS = {one.key for one in RUNS.qualifiers}
REQUEST_KEYS = {one.key for one in REQUESTS.qualifiers}


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What a text asks for. A filter is None where the text says something that its list does not know."""

    id: str = ""
    """An id, or one's beginning or end; empty if the text cannot be one."""
    names: tuple[str, ...] = ()
    """Words by which pages, workflows and people are looked for; none where the text filters."""
    runs: str | None = None
    requests: str | None = None
    flaws: tuple[Flaw, ...] = ()
    """The parts that neither list understands. They are left out."""


def read_intent(text: str) -> Intent:
    """Return what a text asks for. Never raises: what cannot be understood is left out, and in ``flaws``."""
    text = text.strip()
    address = UUID.findall(text.lower()) if "/" in text else []
    if address:
        return Intent(id=address[-1])
    parts = [(part, said) for part, said in split(text) if not (isinstance(said, Word) and not said.text)]
    flaws = [*too_long(text)]
    kept = []
    for part, said in parts:
        flaw = _flaw(part)
        if flaw is None:
            kept.append((part, said))
        else:
            flaws.append(flaw)
    return _intent(kept, tuple(flaws[:MOST_FLAWS]))


def is_whole(text: str) -> bool:
    """Return whether a text is an id as wfdash makes them."""
    return UUID.fullmatch(text.lower()) is not None


def is_beginning(text: str) -> bool:
    """Return whether a text may be how an id begins."""
    return is_end(text) and len(text) >= MIN_BEGINNING


def is_end(text: str) -> bool:
    """Return whether a text may be how an id ends."""
    return PART.fullmatch(text.lower()) is not None


def _intent(kept: list[tuple[str, Term | Word]], flaws: tuple[Flaw, ...]) -> Intent:
    if not kept:
        return Intent(flaws=flaws)
    words = [said for _, said in kept if isinstance(said, Word)]
    if len(kept) == 1 and len(kept[0][0]) < MIN_TEXT:
        return Intent(names=tuple(word.text.casefold() for word in words), flaws=flaws)
    # The list of runs looks for letters and digits: a sign between words says nothing to it.
    known = [part for part, said in kept if isinstance(said, Term) or not RUNS.read(part).flaws]
    runs, requests = " ".join(known), " ".join(part for part, _ in kept)
    plain = len(words) == len(kept) and not any(word.negated for word in words)
    return Intent(
        id=words[0].text.lstrip(CUT) if plain and len(kept) == 1 else "",
        names=tuple(word.text.casefold() for word in words) if plain else (),
        runs=None if not runs or RUNS.read(runs).flaws else runs,
        requests=None if REQUESTS.read(requests).flaws else requests,
        flaws=flaws,
    )


def _flaw(part: str) -> Flaw | None:
    """Return why neither list understands a part; None if one of them does."""
    runs, requests = RUNS.read(part).flaws, REQUESTS.read(part).flaws
    if not (runs and requests):
        return None
    said = next(said for _, said in split(part))
    key = said.key.partition(".")[0] if isinstance(said, Term) else ""
    if key and key not in RUN_KEYS | REQUEST_KEYS:
        return Flaw(part=part, message=f'Unknown filter "{key}". Put text with a colon in quotes.')
    return requests[0] if key and key not in RUN_KEYS else runs[0]
