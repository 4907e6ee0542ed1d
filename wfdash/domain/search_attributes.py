"""Search attributes of a run, from its input, its title and its failure. Pure.

The only place that says how text is compared: both writing and searching use it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from string import Formatter
from typing import Any

from checkpoints.records import Json, frozen
from wfdash.domain.labels import label_of_field, label_of_key, visible
from wfdash.values.schemas.secrets import secret_names
from wfdash.values.schemas.work import Schema, is_secret, is_single, items_of, resolved, under

# What a run is called: a title that its author words from the input, else a summary of the input. Items of maps are

MAX_TITLE_CHARACTERS = 120
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


@frozen
class Subject:
    """What a template names, in the words of its errors. ``holder``: what has the fields."""

    holder: str
    audience: str


RUN = Subject(holder="the input", audience="a title is shown to everyone who sees the run")
ITEM = Subject(holder="an item", audience="a label is shown wherever the item is")


@frozen
class TitleField:
    """A value of the input or item: its path, and how a number is written (``,.2f``)."""

    path: tuple[str, ...]
    spec: str = ""

    @property
    def name(self) -> str:
        """Return it as the template has it."""
        return "{" + ".".join(self.path) + "}"


def cleaned(text: str, most: int = MAX_TITLE_CHARACTERS) -> str:
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
    turns = value if isinstance(value, list) else []
    if not turns or not all(isinstance(one, Mapping) and {"role", "content"} <= one.keys() for one in turns):
        return value
    said = (one["content"] for one in value if one["role"] in USERS and isinstance(one["content"], str))
    return next((text for one in said if (text := cleaned(one, LONGEST_VALUE))), None)


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
    if nodes and not any(is_single(node) or (node.get("type") == "array") or _is_open(node) for node in nodes):
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


# Fields that a list can show as columns, none that is secret: scalars at the top of a run's input and output, and
# single values of a request's card. Pure.

INPUT_FIELD, OUTPUT = "input", "output"
PARTS = (INPUT_FIELD, OUTPUT)
NAME = re.compile(rf"({INPUT_FIELD}|{OUTPUT})\.([\w-]{{1,64}})")
"""A field as an address names it: ``input.amount``."""
CARD_NAME = re.compile(r"(proposal|context|evidence)(\.[^.,$\0]{1,64}){1,3}")
"""A value of a card as an address names it: ``proposal.amount``."""
DECIMAL = re.compile(r"-?\d{1,15}\.\d{1,9}", re.ASCII)
MOST_CHOSEN = 8
"""Fields that one list shows."""
MOST_OFFERED = 40
LONGEST_LABEL = 60
NUMBERS = frozenset({"integer", "number"})
SINGLE = NUMBERS | {"string", "boolean"}
CONTENT = frozenset({"contentEncoding", "contentMediaType"})
"""What a schema says of text that is a file."""


@frozen
class ColumnField:
    """A field. ``kind``: number, moment, boolean, choice or text."""

    part: str
    key: str
    label: str
    kind: str

    @property
    def name(self) -> str:
        """The field as an address names it."""
        return f"{self.part}.{self.key}"


@frozen
class FieldValue:
    """A field of one row. ``problem``: why its value cannot be shown."""

    field: ColumnField
    value: Json = None
    problem: str = ""


def known_names(names: Iterable[str], pattern: re.Pattern[str] = NAME) -> tuple[str, ...]:
    """Return those that may be names of fields, each once, at most ``MOST_CHOSEN``."""
    return tuple(name for name in dict.fromkeys(names) if pattern.fullmatch(name))[:MOST_CHOSEN]


def fields_of(part: str, schema: Schema, secrets: Collection[str]) -> tuple[ColumnField, ...]:
    """Return the fields of an input or an output, in the order of its schema, at most ``MOST_OFFERED``."""
    keys = dict.fromkeys(str(key) for node in resolved([schema], schema) for key in _properties(node))
    found = (field_of(f"{part}.{key}", schema, secrets) for key in keys)
    return tuple(field for field in found if field is not None)[:MOST_OFFERED]


def field_of(name: str, schema: Schema, secrets: Collection[str]) -> ColumnField | None:
    """Return the field that a name means in a schema; None for one that is secret, nested or not described."""
    found = NAME.fullmatch(name)
    if not found or found[2] in secrets:
        return None
    part, key = found.groups()
    described = [_properties(node)[key] for node in resolved([schema], schema) if key in _properties(node)]
    nodes = resolved(described, schema)
    if any(is_secret(node) or CONTENT & node.keys() for node in nodes):
        return None
    types = frozenset[str]().union(*map(_types, nodes)) - {"null"}
    if not types or types - SINGLE:
        return None
    title = next((node["title"] for node in described if isinstance(node, Mapping) and node.get("title")), "")
    return ColumnField(part=part, key=key, label=label_of_field(key, title)[:LONGEST_LABEL], kind=_kind(nodes, types))


def _properties(node: Schema) -> Mapping[str, Any]:
    found = node.get("properties")
    return found if isinstance(found, Mapping) else {}


def _types(node: Schema) -> frozenset[str]:
    """Return the types a node allows; "object" also where it only describes what an object holds."""
    given = node.get("type")
    types = given if isinstance(given, list) else [given] if given else []
    if {"properties", "items", "prefixItems", "additionalProperties"} & node.keys():
        types = [*types, "object"]
    values = node["enum"] if isinstance(node.get("enum"), list) else [node["const"]] if "const" in node else []
    return frozenset(map(str, types or map(_type_of, values)))


def _type_of(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    return "number" if isinstance(value, int | float) else "string" if isinstance(value, str) else "object"


def _kind(nodes: list[Schema], types: frozenset[str]) -> str:
    if any("enum" in node or "const" in node for node in nodes):
        return "choice"
    # A decimal is a number or a text of digits.
    if types & NUMBERS and types <= NUMBERS | {"string"}:
        return "number"
    if types == {"boolean"}:
        return "boolean"
    return "moment" if any(node.get("format") == "date-time" for node in nodes) else "text"


def card_field(name: str, values: Iterable[Any] = ()) -> ColumnField:
    """Return the field of a card with this name; its kind is that of these values, where they agree."""
    part, _, key = name.partition(".")
    kinds = {_kind_of(value) for value in values}
    kind = kinds.pop() if len(kinds) == 1 else "text"
    return ColumnField(part=part, key=key, label=visible(" › ".join(map(label_of_key, key.split(".")))), kind=kind)


def _kind_of(value: Any) -> str:
    if isinstance(value, str):
        return "number" if DECIMAL.fullmatch(value) else "moment" if "T" in value and moment_in(value) else "text"
    return "text" if isinstance(value, bool) else "number"


MOST_INPUTS = 40
"""Values of an input that can be searched for, those nearest its top first."""
MOST_WORDS = 60
MOST_LEAVES = 500
LONGEST_TEXT = 200
LONGEST_WORD = 64
LONGEST_READ = 4000
"""Characters of one text whose words are indexed."""
MAX_PATH_DEPTH = 12

INPUT, TITLE, WORD, ERROR, TAG = "input", "title", "word", "error", "tag"
KEEP = "keep"
"""The tag by which people keep a run: neither its age nor anyone's deletion removes it."""

TOKEN = re.compile(r"[^\W_]+")
NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,9})?", re.ASCII)
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
LARGEST_NUMBER = 10**15
Path = tuple[str, ...]


@frozen
class SearchAttribute:
    """A name, its normalised text, and its number, if it has one (a date: its seconds)."""

    name: str
    text: str
    number: float | None = None


def folded(text: str) -> str:
    """Return a text normalised for comparison: case-folded, without NUL and surrogates, at most ``LONGEST_TEXT``
    long.
    """
    plain = text[: LONGEST_TEXT * 2].replace("\0", "").encode("utf-8", "replace").decode()
    return unicodedata.normalize("NFC", plain).lower().strip()[:LONGEST_TEXT]


def tokens(text: str) -> tuple[str, ...]:
    """Return the normalised words of a text, each once, in their order."""
    plain = unicodedata.normalize("NFC", text[:LONGEST_READ]).lower()
    return tuple(dict.fromkeys(token[:LONGEST_WORD] for token in TOKEN.findall(plain)))


def number_of(value: Any) -> float | None:
    """Return a value as a number: also a text of plain digits; None for everything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return float(value) if abs(value) < LARGEST_NUMBER and math.isfinite(value) else None
    return float(value) if isinstance(value, str) and NUMBER.fullmatch(value) else None


def moment_in(value: Any) -> datetime | None:
    """Return the time that a text names (``2026-01-31``, or with a time; UTC by default), or None."""
    if not isinstance(value, str) or not DAY.match(value) or len(value) > LONGEST_WORD:
        return None
    try:
        found = datetime.fromisoformat(value)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def title_words(*texts: str, run: str = "") -> tuple[str, ...]:
    """Return the words of a run's title and workflow, and the end of its id as lists show it."""
    found = tokens(" ".join(texts))[: MOST_WORDS - 1]
    return (*found, run[-8:].lower()) if run else found


def facts_of(message: Any, schema: Schema | None = None) -> tuple[SearchAttribute, ...]:
    """Return the attributes of an input: its values by path, and its words. Secret values have none.

    A path has no list indexes: every item is a value of it. Secret: ``writeOnly``, or of format ``password``.
    """
    values: dict[SearchAttribute, None] = {}
    words: dict[str, None] = {}
    for path, value in leaves(message, schema or {}):
        fact = _fact(path, value)
        if fact is not None and len(values) < MOST_INPUTS:
            values[fact] = None
        if len(words) < MOST_WORDS and not isinstance(value, bool):
            words |= dict.fromkeys(tokens(str(value)))
    return (*values, *(SearchAttribute(name=WORD, text=word) for word in list(words)[:MOST_WORDS]))


def failure_of(error: Mapping[str, Any] | None, *, content: bool = True) -> tuple[SearchAttribute, ...]:
    """Return the attributes of a failure: its class, and with ``content`` the words of its message."""
    kind = str((error or {}).get("type") or "")
    classes = dict.fromkeys(folded(name) for name in (kind, kind.rpartition(".")[2]) if name)
    words = tokens(f"{kind} {(error or {}).get('message') or ''}")[:MOST_WORDS] if content else ()
    named = (SearchAttribute(name=ERROR, text=text) for text in classes)
    return (*named, *(SearchAttribute(name=WORD, text=word) for word in words))


def paths_of(schema: Schema, most: int = MOST_INPUTS) -> tuple[Path, ...]:
    """Return the paths of the scalar values that an input of this schema may have, those nearest the top first."""
    waiting, found = deque[tuple[Path, list[Schema]]]([((), resolved([schema], schema))]), dict[Path, None]()
    while waiting and len(found) < most:
        path, nodes = waiting.popleft()
        if any(is_secret(node) for node in nodes) or len(path) > MAX_PATH_DEPTH // 2:
            continue
        below = [
            pair for node in nodes if isinstance(node.get("properties"), Mapping) for pair in node["properties"].items()
        ]
        waiting.extend(((*path, str(name)), resolved([part], schema)) for name, part in below)
        waiting.extend((path, resolved([part], schema)) for node in nodes for part in items_of(node) if path)
        if path and any(is_single(node) for node in nodes):
            found[path] = None
    return tuple(found)


def path_name(keys: Iterable[str]) -> str:
    """Return the name of the values under these keys, as written in a filter: ``input.order.total``."""
    parts = [re.sub(r"[^\w-]+", "_", key.lower()) or "_" for key in keys]
    return ".".join([INPUT, *parts])[:LONGEST_TEXT]


def _fact(path: Path, value: Any) -> SearchAttribute | None:
    text = str(value).lower() if isinstance(value, bool) else folded(str(value))
    if not text:
        return None
    moment = moment_in(value)
    number = number_of(value) if moment is None else moment.timestamp()
    return SearchAttribute(name=path_name(path), text=text, number=number)


def leaves(message: Any, schema: Schema) -> Iterator[tuple[Path, Any]]:
    """Yield the scalars of a document with their paths, those nearest the top first."""
    waiting: deque[tuple[Path, Any, list[Schema]]] = deque([((), message, resolved([schema], schema))])
    given = 0
    while waiting and given < MOST_LEAVES:
        path, value, nodes = waiting.popleft()
        if any(is_secret(node) for node in nodes):
            continue
        if isinstance(value, Mapping):
            for key, item in value.items():
                below = [part for node in nodes for part in under(node, str(key))]
                if len(path) < MAX_PATH_DEPTH:
                    waiting.append(((*path, str(key)), item, resolved(below, schema)))
        elif isinstance(value, list | tuple):
            below = [part for node in nodes for part in items_of(node)]
            if len(path) < MAX_PATH_DEPTH:
                waiting.extend((path, item, resolved(below, schema)) for item in value[:MOST_LEAVES])
        elif value is not None:
            given += 1
            yield path, value


TAGGED = re.compile(r"\w[\w.:/@+-]{0,39}")


def tag_of(text: str) -> str | None:
    """Return a tag as stored (lower case, at most 40 characters), None for an invalid one."""
    tag = folded(text)
    return tag if TAGGED.fullmatch(tag) else None
