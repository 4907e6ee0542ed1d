"""The headline of a question that a framework asks: the field of its value that says it, or what it is about. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from checkpoints.records import Json
from wfdash.schemas.secrets import HIDDEN

HEADLINES = ("question", "title", "subject", "message", "prompt", "instruction", "task", "query", "headline")
"""The fields of a value, best first, whose text may be the question."""
KINDS = ("type", "action")
"""Fields that say what kind of a question it is, not which."""
SHORT = 60
"""Characters of a value that a headline shows."""


def headline_field(fields: Mapping[str, Json], fits: Callable[[Json], bool]) -> str:
    """Return the field of a card's headline: ``question``, else the first that ends as a question, else the first.

    What is about to be done may have a ``subject`` or a ``title`` of its own: that of a mail, say. Empty if no field
    ``fits``.
    """
    known = [name for name in HEADLINES if fits(fields.get(name))]
    asking = [name for name in known if name == HEADLINES[0] or str(fields[name]).rstrip().endswith(("?", "？"))]
    return next(iter([*asking, *known]), "")


def headline_about(title: str, value: Json, secrets: Collection[str] = ()) -> str:
    """Return a headline that tells the questions of one step apart: ``Human node: original text``.

    That is its title and the first plain value of what it is about; ``secrets`` names fields that are left out.
    """
    fields = [part for name, part in value.items() if name not in {*KINDS, *secrets}] if isinstance(value, dict) else []
    parts = value if isinstance(value, list) else fields or [value]
    lines = (one_line(str(part)) for part in parts if type(part) in (str, int, float) and part != HIDDEN)
    found = next(filter(None, lines), "")
    return f"{title}: {found}" if found else f"{title} asks"


def one_line(text: str, most: int = SHORT) -> str:
    """Return a text without line ends, cut to what a headline has room for."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
