"""What a run is called: a title that its author words from the input, else a summary of the input. Items of maps are
named alike. Pure.

A template is read with ``string.Formatter``, and never formatted with it: its fields are paths in JSON, so no attribute
of any object can be reached.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from string import Formatter
from typing import Any

from wfdash.domain.search_attributes import leaves, number_of
from wfdash.schemas.nodes import Schema, is_secret, is_single, items_of, resolved, under
from wfdash.schemas.secrets import secret_names

LONGEST = 120
"""Characters of a title."""
LONGEST_VALUE = 60
"""Characters of a text that a summary names; a longer one describes, and names nothing."""
MOST_VALUES = 2
"""Values in a summary."""
MOST_ITEMS = 3
"""Items of a list that a title names."""
CHAT = "messages"
"""What the field of a conversation is called, where it is given as one text."""
USERS = ("user", "human")
INDEX = re.compile(r"\d{1,3}", re.ASCII)
NUMBER_FORMAT = re.compile(r",?(\.\d(f|%))?")
BLANKS = "\u00ad\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""Characters that look like nothing, although they are letters or marks."""
JOINERS = "\u200c\u200d"
"""Invisible, but words of some languages and many emojis are spelled with them."""
SPACED = frozenset({"Cc", "Zl", "Zp"})
DROPPED = frozenset({"Cf", "Cs"})
EMPTY_BRACKETS = re.compile(r"\(\s*\)|\[\s*\]")
SEPARATORS = " ,;:·–—-|/"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a template names, in the words of its errors. ``holder``: what has the fields."""

    holder: str
    audience: str


RUN = Subject(holder="the input", audience="a title is shown to everyone who sees the run")
ITEM = Subject(holder="an item", audience="a label is shown wherever the item is")


@dataclass(frozen=True, kw_only=True)
class TitleField:
    """A value of the input or item: its path, and how a number is written (``,.2f``)."""

    path: tuple[str, ...]
    spec: str = ""

    @property
    def name(self) -> str:
        """Return it as the template has it."""
        return "{" + ".".join(self.path) + "}"


def cleaned(text: str, most: int = LONGEST) -> str:
    """Return text as one line of at most ``most`` characters, without controls, bidirectional marks and invisible
    characters.
    """
    text = text[: most * 10]
    if not (text.isascii() and text.isprintable()):
        text = unicodedata.normalize("NFC", "".join(map(_kept, text)))
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def problem_of(template: str, schema: Schema, subject: Subject = RUN) -> str:
    """Return why a template cannot name runs with inputs of this schema, or items, in words; empty if it can."""
    try:
        fields = [part for part in _parsed(template, subject) if isinstance(part, TitleField)]
    except ValueError as error:
        return str(error)
    return next((problem for field in fields if (problem := _field_problem(field, schema, subject))), "")


def title_of(template: str, message: Any, secrets: Collection[str] = ()) -> str:
    """Return the title that a valid template gives a run with this input, or the label of an item.

    Missing and secret values are left out.
    """
    parts = [part if isinstance(part, str) else _value_at(message, part, secrets) for part in _parsed(template)]
    if all(parts):
        return cleaned("".join(parts))
    return cleaned(EMPTY_BRACKETS.sub("", "".join(parts))).strip(SEPARATORS)


def summary_of(message: Any, schema: Schema, secrets: Collection[str] = ()) -> str:
    """Return the first short values of an input, none that is secret; empty where there are none.

    Of a conversation it is the first text of its user, shortened.
    """
    found: list[str] = []
    for path, value in leaves(_said_in(message, {*secrets, *secret_names(schema)}), schema):
        text = "" if isinstance(value, bool) or set(path) & set(secrets) else _text_of(value)
        if text and len(text) <= LONGEST_VALUE:
            found.append(text)
        if len(found) == MOST_VALUES:
            break
    return cleaned(", ".join(found))


def _said_in(message: Any, secrets: Collection[str]) -> Any:
    """Return an input with the first text of its user in the place of each conversation."""
    if "content" in secrets or "role" in secrets:
        return message
    if isinstance(message, Mapping):
        return {key: _first_said(value, chat=key == CHAT) for key, value in message.items()}
    return _first_said(message, chat=True)


def _first_said(value: Any, *, chat: bool) -> Any:
    if isinstance(value, str) and chat:
        return cleaned(value, LONGEST_VALUE)
    if not isinstance(value, list) or not value or not all(map(_is_message, value)):
        return value
    said = (one["content"] for one in value if one["role"] in USERS and isinstance(one["content"], str))
    return next((text for one in said if (text := cleaned(one, LONGEST_VALUE))), None)


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and {"role", "content"} <= value.keys()


def _kept(char: str) -> str:
    category = unicodedata.category(char)
    if category in SPACED:
        return " "
    return "" if char in BLANKS or (category in DROPPED and char not in JOINERS) else char


def _parsed(template: str, subject: Subject = RUN) -> Iterator[str | TitleField]:
    """Yield texts and fields. ``ValueError`` in words."""
    for text, name, spec, conversion in Formatter().parse(template):
        if text:
            yield text
        if name is None:
            continue
        if conversion or "[" in name or (name and not all(name.split("."))):
            raise ValueError(f"{{{name}}} is no field of {subject.holder}: write {{field}} or {{field.part}}")
        if not NUMBER_FORMAT.fullmatch(spec or ""):
            raise ValueError(f"{{{name}:{spec}}}: a number is written with {{{name}:,}} or {{{name}:,.2f}}")
        yield TitleField(path=tuple(name.split(".")) if name else (), spec=spec or "")


def _field_problem(field: TitleField, schema: Schema, subject: Subject) -> str:
    secrets, nodes = secret_names(schema), resolved([schema], schema)
    for key in field.path:
        below = resolved([part for node in nodes for part in _below(node, key)], schema)
        if key in secrets or any(is_secret(node) for node in below):
            return f"{field.name} is secret: {subject.audience}"
        if not below:
            return "" if any(_is_open(node) for node in nodes) else _unknown(field, nodes, subject)
        nodes = below
    if any(is_secret(node) for node in nodes):
        return f"{field.name} is secret: {subject.audience}"
    if nodes and not any(is_single(node) or _is_list(node) or _is_open(node) for node in nodes):
        return f"{field.name} holds several values: name one of them"
    return ""


def _below(node: Schema, key: str) -> Iterator[Schema]:
    yield from under(node, key)
    if INDEX.fullmatch(key):
        yield from items_of(node)


def _is_open(node: Schema) -> bool:
    """Return whether a node allows values that it does not describe."""
    described = {"type", "properties", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"} & node.keys()
    return not described or (node.get("type") == "object" and "properties" not in node)


def _is_list(node: Schema) -> bool:
    return node.get("type") == "array"


def _unknown(field: TitleField, nodes: list[Schema], subject: Subject) -> str:
    names = dict.fromkeys(str(name) for node in nodes for name in node.get("properties") or ())
    if names:
        return f"{subject.holder} has no {field.name}, but {', '.join(names)}"
    return f"{subject.holder} has no {field.name}" + (": it is one value, write {}" if len(field.path) == 1 else "")


def _value_at(message: Any, field: TitleField, secrets: Collection[str]) -> str:
    value = message
    for key in field.path:
        if key in secrets:
            return ""
        if isinstance(value, list):
            value = next(iter(value[int(key) :]), None) if INDEX.fullmatch(key) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return _text_of(value, field.spec)


def _text_of(value: Any, spec: str = "") -> str:
    """Return a value as a title shows it; an object, and anything missing, as nothing."""
    if isinstance(value, list):
        texts = [text for item in value[:MOST_ITEMS] if not isinstance(item, list) and (text := _text_of(item, spec))]
        more = len(value) - MOST_ITEMS
        return ", ".join(texts) + (f" +{more}" if more > 0 and texts else "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    number = number_of(value) if spec or isinstance(value, int | float) else None
    if number is not None:
        return format(Decimal(str(value)), spec) if spec else str(value)
    return cleaned(value) if isinstance(value, str) else ""
