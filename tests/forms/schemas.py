"""Fifty schemas and more: what pydantic writes for the models, and what people write by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.forms import models
from wfdash.values.codec import codec_for

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A schema and, where there is one, the type that wrote it. ``secrets``: fields that are never sent back."""

    name: str
    schema: dict[str, Any]
    kind: Any = None
    secrets: tuple[str, ...] = ()

    @property
    def typed(self) -> bool:
        return self.kind is not None


KINDS: dict[str, Any] = {
    **{
        kind.__name__.lower(): kind
        for kind in (
            *(models.Texts, models.Numbers, models.Money, models.Times, models.Formats, models.Choices, models.Sets),
            *(models.Switches, models.Nested, models.Lines, models.Pets, models.Unions, models.Dictionaries),
            *(models.Tuples, models.Tree, models.Chain, models.Files, models.Secrets, models.Anything, models.Open),
            *(models.Closed, models.Empty, models.Judged, models.Parent, models.Aliased, models.Everything),
        )
    },
    "a list of models": list[models.Line],
    "a dictionary": dict[str, int],
    "a union by its tag": models.Pet,
    "a plain union": int | str,
    "a judged number": models.Even,
    "an enum": models.Level,
    "a text": str,
    "an optional model": models.Line | None,
    "a set of enums": set[models.Level],
    "a pair": tuple[int, str],
}

BY_HAND: dict[str, dict[str, Any]] = {
    "a field that depends on another": {
        "type": "object",
        "properties": {"verdict": {"enum": ["approve", "reject"]}, "reason": TEXT},
        "required": ["verdict"],
        "if": {"properties": {"verdict": {"const": "reject"}}, "required": ["verdict"]},
        "then": {"properties": {"reason": {"type": "string", "minLength": 3}}, "required": ["reason"]},
        "else": {"properties": {"bonus": WHOLE}},
    },
    "all of several": {
        "allOf": [
            {"$ref": "#/$defs/named"},
            {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}, "required": ["age"]},
            {"if": {"required": ["name"]}, "then": {"required": ["age"]}},
        ],
        "$defs": {"named": {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}},
    },
    "one of two is required": {
        "type": "object",
        "properties": {"mail": {"type": "string", "format": "email"}, "phone": {"type": "string", "minLength": 3}},
        "anyOf": [{"required": ["mail"]}, {"required": ["phone"]}],
    },
    "options with titles": {
        "type": "object",
        "properties": {
            "fruit": {"oneOf": [{"const": "a", "title": "Apple"}, {"const": "p", "title": "Pear"}]},
            "size": {"oneOf": [{"const": 1, "title": "Small"}, {"const": 2, "title": "Large"}, {"type": "null"}]},
        },
        "required": ["fruit", "size"],
    },
    "lists of types": {
        "type": "object",
        "properties": {
            "note": {"type": ["string", "null"], "maxLength": 5},
            "value": {"type": ["integer", "string", "boolean"]},
            "level": {"type": ["string", "null"], "enum": ["low", "high", None]},
        },
        "required": ["note", "value"],
    },
    "patterns of names": {
        "type": "object",
        "properties": {"name": TEXT},
        "patternProperties": {"^x-": WHOLE},
        "additionalProperties": False,
    },
    "dependents": {
        "type": "object",
        "properties": {"card": TEXT, "code": WHOLE},
        "dependentRequired": {"card": ["code"]},
        "dependentSchemas": {"code": {"properties": {"until": {"type": "string", "format": "date"}}}},
    },
    "parts that need not be given": {
        "type": "object",
        "properties": {
            "home": {"type": "object", "properties": {"street": TEXT}, "required": ["street"]},
            "point": {"type": "array", "prefixItems": [WHOLE, WHOLE], "items": False, "minItems": 2},
            "debug": {"const": True},
            "sure": {"type": "boolean"},
            "tags": {"type": "array", "items": TEXT, "minItems": 1},
            "marks": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1},
            "limits": {"type": "object", "additionalProperties": WHOLE, "minProperties": 1},
        },
    },
    "what must not be": {
        "type": "object",
        "properties": {"name": {"type": "string", "not": {"const": "root"}}, "a": WHOLE, "b": WHOLE},
        "required": ["name"],
        "not": {"required": ["a", "b"]},
    },
    "an old draft": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "pair": {"type": "array", "items": [WHOLE, TEXT], "additionalItems": False, "minItems": 2},
            "who": {"$ref": "#/definitions/who"},
        },
        "required": ["pair"],
        "definitions": {"who": {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}},
    },
    "things nobody described": {
        "type": "object",
        "properties": {"yes": True, "nothing": {}, "odd": {"type": "object"}, "list": {"type": "array"}},
        "required": ["yes"],
    },
    "a schema in itself": {
        "type": "object",
        "properties": {
            "name": TEXT,
            "next": {"$ref": "#"},
            "more": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    "files by hand": {
        "type": "object",
        "properties": {
            "photo": {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png, image/jpeg"},
            "small": {"type": "string", "contentEncoding": "base64", "x-max-bytes": 16},
            "notes": {"type": "string", "contentMediaType": "application/json"},
        },
        "required": ["small"],
    },
    "named entries": {
        "type": "object",
        "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
        "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 4},
        "minProperties": 1,
        "maxProperties": 3,
    },
    "lists with rules": {
        "type": "object",
        "properties": {
            "some": {"type": "array", "items": WHOLE, "contains": {"minimum": 10}, "uniqueItems": True},
            "open": {"type": "array", "prefixItems": [TEXT], "items": WHOLE},
        },
        "required": ["some", "open"],
    },
    "options of any kind": {
        "type": "object",
        "properties": {
            "one": {"enum": ["a", 1, True, {"x": 1}, [1], ""]},
            "many": {"type": "array", "items": {"enum": [1, 2, "2", {"x": None}]}},
        },
        "required": ["one", "many"],
    },
    "alternatives with common fields": {
        "type": "object",
        "properties": {"name": TEXT},
        "required": ["name"],
        "oneOf": [
            {"properties": {"age": WHOLE}, "required": ["age"], "title": "By age"},
            {"properties": {"born": {"type": "string", "format": "date"}}, "required": ["born"], "title": "By birth"},
        ],
    },
}

CASES = [
    *(
        Case(name=name, schema=codec_for(kind).schema(), kind=kind, secrets=("token",) if name == "secrets" else ())
        for name, kind in KINDS.items()
    ),
    *(Case(name=name, schema=schema) for name, schema in BY_HAND.items()),
]
