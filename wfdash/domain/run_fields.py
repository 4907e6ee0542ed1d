"""Fields of a run's input and output that a list can show as columns: scalars at the top, none that is secret. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from wfdash.domain.labels import label_of_field
from wfdash.schemas.nodes import Schema, is_secret, resolved

INPUT, OUTPUT = "input", "output"
PARTS = (INPUT, OUTPUT)
NAME = re.compile(rf"({INPUT}|{OUTPUT})\.([\w-]{{1,64}})")
"""A field as an address names it: ``input.amount``."""
MOST_CHOSEN = 8
"""Fields that one list shows."""
MOST_OFFERED = 40
LONGEST_LABEL = 60
NUMBERS = frozenset({"integer", "number"})
SINGLE = NUMBERS | {"string", "boolean"}
CONTENT = frozenset({"contentEncoding", "contentMediaType"})
"""What a schema says of text that is a file."""


@dataclass(frozen=True, kw_only=True)
class RunField:
    """A field. ``kind``: number, moment, boolean, choice or text."""

    part: str
    key: str
    label: str
    kind: str

    @property
    def name(self) -> str:
        """The field as an address names it."""
        return f"{self.part}.{self.key}"


def known_names(names: Collection[str]) -> tuple[str, ...]:
    """Return those that may be names of fields, each once, at most ``MOST_CHOSEN``."""
    return tuple(name for name in dict.fromkeys(names) if NAME.fullmatch(name))[:MOST_CHOSEN]


def fields_of(part: str, schema: Schema, secrets: Collection[str]) -> tuple[RunField, ...]:
    """Return the fields of an input or an output, in the order of its schema, at most ``MOST_OFFERED``."""
    keys = dict.fromkeys(str(key) for node in resolved([schema], schema) for key in _properties(node))
    found = (field_of(f"{part}.{key}", schema, secrets) for key in keys)
    return tuple(field for field in found if field is not None)[:MOST_OFFERED]


def field_of(name: str, schema: Schema, secrets: Collection[str]) -> RunField | None:
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
    return RunField(part=part, key=key, label=label_of_field(key, title)[:LONGEST_LABEL], kind=_kind(nodes, types))


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
