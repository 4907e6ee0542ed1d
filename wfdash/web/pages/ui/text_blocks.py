"""A text of any length, ready to be rendered: its beginning, the rest behind a fold, no character invisible. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wfdash.domain.labels import visible

FIRST_LINES = 24
FIRST_CHARACTERS = 2000
FIRST_WORD = 160
MAX_TEXT = 100_000
_ENDLESS = re.compile(r"\S{400,}")


@dataclass(frozen=True, kw_only=True)
class TextBlock:
    """``first`` is shown at once, ``rest`` behind a fold; ``left_out`` characters are not shown at all."""

    first: str
    rest: str = ""
    rest_says: str = ""
    left_out: int = 0


def block(text: str, most: int = MAX_TEXT) -> TextBlock:
    """Return a text as a block: long ones are folded after some lines, or within a very long word.

    ``most``: characters that are kept.
    """
    kept = visible(text[:most])
    first = "\n".join(kept.split("\n")[:FIRST_LINES])[:FIRST_CHARACTERS]
    endless = _ENDLESS.search(first)
    if endless is not None:
        first = first[: endless.start() + FIRST_WORD]
    rest = kept[len(first) :]
    if endless is None and len(rest) < FIRST_CHARACTERS // 8 and rest.count("\n") < 4:
        first, rest = kept, ""
    more = rest.count("\n")
    says = f"{more:,} more lines" if more > 1 else f"{len(rest):,} more characters"
    return TextBlock(first=first, rest=rest, rest_says=says, left_out=max(len(text) - most, 0))
