"""Names of code as labels for people: the same on cards, forms, tables, graphs and lists. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

# Deceiving characters, made visible: controls, zero-width and bidirectional marks. Pure.

_DECEIVING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return text in which no character is invisible: ``\\x00`` becomes ``␀``, an override becomes ``[U+202E]``."""
    return _DECEIVING.sub(lambda found: _visible_name(found.group()), text) if _DECEIVING.search(text) else text


def _visible_name(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"[U+{code:04X}]"


def escaped(text: str) -> str:
    """Return the same JSON text in which no character is invisible: an override becomes ``\\u202e``."""
    return _DECEIVING.sub(lambda found: json.dumps(found.group())[1:-1].replace("\x7f", "\\u007f"), text)


def is_deceiving(text: str) -> bool:
    """Return whether the text contains a character that ``visible`` would replace, line ends aside."""
    return any(unicodedata.category(char) in {"Cc", "Cf", "Cs"} for char in _DECEIVING.findall(text) if char != "\r")


ACRONYMS = {
    word.lower(): word
    for word in (
        *("API", "BIC", "CSV", "DNS", "EU", "EUR", "GBP", "HTML", "HTTP", "IBAN", "ID", "IDs", "IP", "JSON", "PDF"),
        *("SKU", "SQL", "UK", "URL", "URLs", "USD", "UTC", "VAT", "XML"),
    )
}
"""Words of a name that are written in capitals wherever they are."""
LEADING = {"us": "US"}
"""Words that are an acronym before others, and a word after them: ``us_account``, ``contact_us``."""
CODE = re.compile(r"[^\W\d_A-Z][^\W_A-Z]*([_-]+[^\W_A-Z]+)*[_-]*")
"""A name as code has it: lower case, words joined by underscores or hyphens."""
CAMEL = re.compile(r"[a-z][A-Z]")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


def humanize(name: str) -> str:
    """Return a name as a label: ``due_at`` becomes ``Due at``, ``customer_id`` becomes ``Customer ID``."""
    words = name.replace("_", " ").replace("-", " ").split()
    spelt = " ".join(_spelt(word, last=number == len(words)) for number, word in enumerate(words, 1))
    return spelt[:1].upper() + spelt[1:] if words else name


def label_of_key(key: str) -> str:
    """Return the label of a key that no schema describes: a name of code humanised, any other text unchanged."""
    return humanize(key) if CODE.fullmatch(key) else key


def label_of_field(name: str, title: Any) -> str:
    """Return a field's title; its name as a label where it has none but the one that pydantic makes of the name."""
    made = name.replace("_", " ").title()
    return humanize(name) if not title or str(title).strip() == made.strip() else str(title)


def in_words(names: Sequence[str], joint: str = "and", most: int = 0) -> str:
    """Return names as a list in a sentence; of more than ``most`` how many follow: ``finance, ana and 2 more``."""
    shown = [*names[:most], f"{len(names) - most} more"] if 0 < most < len(names) else names
    return f" {joint} ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def label_of_type(name: str) -> str:
    """Return a class name as a label: ``UsAccount`` becomes ``US account``."""
    parts = PART.findall(name) if name.isidentifier() and "_" not in name else []
    return humanize("_".join(part if part.isupper() else part.lower() for part in parts)) if parts else name


def label_of_step(step: str) -> str:
    """Return a step's name as a label: ``part/try_out`` becomes ``Try out``.

    A name of another library may be that of a class, or have dots: ``HumanReview.after_model`` becomes ``Human review:
    after model``.
    """
    owner, _, name = step.rpartition("/")[2].rpartition(".")
    if owner and name:
        return f"{label_of_name(owner.rpartition('.')[2])}: {humanize(name).lower()}"
    return label_of_name(step.rpartition("/")[2] or step)


def label_of_name(name: str) -> str:
    """Return a name of code as a label, in whatever case: ``payOut`` becomes ``Pay out`` as ``pay_out`` does."""
    return label_of_type(name) if CAMEL.search(name) and name.isascii() and name.isalnum() else humanize(name)


def _spelt(word: str, *, last: bool) -> str:
    lower = word.lower()
    return ACRONYMS.get(lower) or ("" if last else LEADING.get(lower, "")) or word
