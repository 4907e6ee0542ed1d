"""Which field of a value that a framework asks about is the question. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from checkpoints.records import Json

HEADLINES = ("question", "title", "subject", "message", "prompt", "instruction", "task", "query", "headline")
"""The fields of a value, best first, whose text may be the question."""


def headline_field(fields: Mapping[str, Json], fits: Callable[[Json], bool]) -> str:
    """Return the field of a card's headline: ``question``, else the first that ends as a question, else the first.

    What is about to be done may have a ``subject`` or a ``title`` of its own: that of a mail, say. Empty if no field
    ``fits``.
    """
    known = [name for name in HEADLINES if fits(fields.get(name))]
    asking = [name for name in known if name == HEADLINES[0] or str(fields[name]).rstrip().endswith(("?", "？"))]
    return next(iter([*asking, *known]), "")
