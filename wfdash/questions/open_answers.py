"""The answer to a question whose author does not say what it takes: yes or no, a text, or any JSON. Pure.

What such an answer means is known to the asking program alone, and to many of them any text is a yes. So a text that
reads like yes or no is not taken for one: people are asked whether they mean the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from checkpoints.records import Json

MOST_OPTIONS = 20
LONGEST_OPTION = 80
"""Characters of an option: a longer text is something to read."""
LONGEST_TEXT = 20_000
"""Characters of a text that is offered to be changed: it is stored with the question a second time."""
ANYTHING: dict[str, Json] = {"title": "JSON"}
YES = ("yes", "approve", "approved", "accept", "accepted", "confirm", "confirmed")
NO = ("no", "not", "nope", "never", "reject", "rejected", "deny", "denied", "decline", "declined", "refuse", "refused")
YES_ALONE = ("y", "true", "ok", "okay", "sure", "agree", "agreed", "allow", "allowed", "go", "proceed", "continue")
NO_ALONE = ("n", "false", "disagree", "cancel", "stop", "abort", "ignore", "don't", "do not")
_AS_NO = rf"\W*(?:(?:{'|'.join(NO)})(?![\w'’-]).*|(?:{'|'.join(NO_ALONE)})\W*)"
_AS_YES = rf"\W*(?:(?:{'|'.join(YES)})(?![\w'’-]).*|(?:{'|'.join(YES_ALONE)})\W*)"
DOUBTFUL = rf"^(?:{_AS_NO}|{_AS_YES})$"
"""Of texts that read like yes or no; the same for Python and JavaScript, with their flags ``is``."""


def open_answer(options: Sequence[Json] = (), *, text: str = "") -> dict[str, Json]:
    """Return the schema of an answer that may be anything.

    ``options``: those to choose from, beside anything else. ``text``: what an answer in words begins as.
    """
    words: dict[str, Json] = {"type": "string", "title": "Text", "format": "textarea"}
    kinds: list[Json] = [
        {"type": "boolean", "enum": [True, False], "title": "Yes or no"},
        {**words, "default": text} if text else words,
        ANYTHING,
    ]
    chosen: list[Json] = [{"enum": list(options), "title": "Choice"}] if options else []
    return {"title": "Answer", "anyOf": [*chosen, *kinds]}


def is_open(branches: Any) -> bool:
    """Return whether one of a schema's alternatives is any JSON, so that nothing says what an answer means."""
    return isinstance(branches, list | tuple) and ANYTHING in branches


def doubt_of(schema: Mapping[str, Any], value: Json) -> str:
    """Return why a text is not taken as the answer to such a question before it is confirmed; empty if it is.

    What the question itself offers is taken.
    """
    branches: Any = schema.get("anyOf")
    if not isinstance(value, str) or not is_open(branches):
        return ""
    offered = [one.get("enum") for one in branches if isinstance(one, dict)]
    if any(value in values for values in offered if isinstance(values, list | tuple)):
        return ""
    flags = re.IGNORECASE | re.DOTALL
    if re.fullmatch(_AS_NO, value, flags):
        word, instead = "no", "No (false)"
    elif re.fullmatch(_AS_YES, value, flags):
        word, instead = "yes", "Yes (true)"
    else:
        return ""
    return f"This text reads like a {word}, but the workflow may take any text for a yes. Answer {instead} instead"


def options_in(value: Any) -> list[Json]:
    """Return what a list offers to choose from; nothing unless it is some short, different texts or whole numbers."""
    if not isinstance(value, list) or not 2 <= len(value) <= MOST_OPTIONS:
        return []
    plain = all(type(one) is int or (isinstance(one, str) and 0 < len(one.strip()) <= LONGEST_OPTION) for one in value)
    return list(value) if plain and len(set(value)) == len(value) else []


def text_in(proposal: Json, secrets: Collection[str] = ()) -> str:
    """Return the one text of several words that a proposal has, which people may want to change; empty if it has none
    or several, or if its field is a secret.
    """
    given = proposal if isinstance(proposal, dict) else {}
    texts = [(name, one) for name, one in given.items() if isinstance(one, str) and len(one.split()) > 1]
    if len(texts) != 1 or texts[0][0] in secrets or len(texts[0][1]) > LONGEST_TEXT:
        return ""
    return texts[0][1]
