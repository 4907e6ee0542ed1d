"""What a JSON Schema node means to a form: one ``Spec`` with one kind. Pure.

Covers what pydantic writes: ``$ref`` and ``$defs``, ``allOf`` of one, nullable ``anyOf``, discriminated ``oneOf``,
enums and constants, ``prefixItems``, ``additionalProperties``, formats. Anything else is edited as JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

Schema = Mapping[str, Any]

COMPOUND = frozenset({"group", "rows", "tuple", "pairs", "checks"})
MAX_DEPTH = 24
_FORMATS = {"date": "date", "date-time": "datetime", "time": "time", "password": "secret"}
_INPUTS = {"email": "email", "uri": "url", "url": "url"}
_NOTES = ("title", "description", "default", "examples", "format", "x-widget", "x-upload", "contentMediaType")


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A schema node, understood. ``branches`` are the alternatives of a union, null left out."""

    kind: str
    schema: Schema
    nullable: bool = False
    options: tuple[Any, ...] = ()
    branches: tuple[Schema, ...] = ()

    @property
    def title(self) -> str:
        """The author's title, or nothing."""
        return str(self.schema.get("title") or "")

    @property
    def uploads(self) -> bool:
        """Whether a file may be given instead of typing."""
        return bool(self.schema.get("x-upload") or self.schema.get("contentMediaType"))

    @property
    def input_type(self) -> str:
        """The HTML input type of a one-line text."""
        return _INPUTS.get(str(self.schema.get("format")), "text")


class Schemas:
    """Understands the nodes of one schema document."""

    def __init__(self, root: Schema) -> None:
        self.root = root

    def spec(self, schema: Any, depth: int = 0) -> Spec:
        """Return what this node means. Never raises: what is not understood is JSON text."""
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return Spec(kind="json", schema={})
        node = self._merged(schema, depth)
        if isinstance(node.get("type"), list):
            rest = {key: value for key, value in node.items() if key != "type"}
            node = {**rest, "anyOf": [{**_bare(rest), "type": kind} for kind in node["type"]]}
        alternatives = node.get("anyOf") or node.get("oneOf")
        if alternatives:
            return self._union(node, alternatives, depth)
        plain = _plain(node)
        if plain.kind == "rows":
            item = self.spec(node["items"], depth + 1)
            if item.kind == "choice" and not item.nullable:
                return replace(plain, kind="checks", options=item.options)
        return plain

    def resolve(self, schema: Any) -> Schema:
        """Follow ``$ref`` within the document; what cannot be followed is an empty schema."""
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, Mapping):
                return {}
            if "$ref" not in schema:
                return schema
            schema = {**self._target(str(schema["$ref"])), **{k: v for k, v in schema.items() if k != "$ref"}}
        return {}

    def within(self, schema: Schema) -> dict[str, Any]:
        """Return the node as a schema of its own, with the document's definitions."""
        shared = {key: self.root[key] for key in ("$defs", "definitions") if key in self.root}
        return {**schema, **shared}

    def _target(self, ref: str) -> Schema:
        node: Any = self.root
        for part in ref.removeprefix("#").strip("/").split("/"):
            node = node.get(part.replace("~1", "/").replace("~0", "~")) if part and isinstance(node, Mapping) else node
        return node if isinstance(node, Mapping) else {}

    def _merged(self, schema: Schema, depth: int) -> dict[str, Any]:
        node = dict(self.resolve(schema))
        for part in node.pop("allOf", ()):
            other = self._merged(part, depth + 1) if depth < MAX_DEPTH else {}
            properties = {**other.get("properties", {}), **node.get("properties", {})}
            required = [*other.get("required", ()), *node.get("required", ())]
            node = {**other, **node} | ({"properties": properties, "required": required} if properties else {})
        return node

    def _union(self, node: dict[str, Any], alternatives: Any, depth: int) -> Spec:
        branches = tuple(branch for branch in map(self.resolve, alternatives) if not _is_null(branch))
        nullable = len(branches) < len(alternatives)
        rest = {key: value for key, value in node.items() if key not in {"anyOf", "oneOf"}}
        if not branches:
            return Spec(kind="const", schema={**rest, "const": None})
        if len(branches) == 1:
            return self._optional({**branches[0], **rest}, branches[0], nullable, depth)
        if _is_decimal(branches):
            return Spec(kind="decimal", schema={**branches[0], **branches[1], **rest}, nullable=nullable)
        options = tuple(option for branch in branches for option in _options(branch))
        if all(_options(branch) for branch in branches):
            return Spec(kind="choice", schema=rest, nullable=nullable, options=options)
        return Spec(kind="union", schema=rest, nullable=nullable, branches=branches)

    def _optional(self, schema: dict[str, Any], branch: Schema, nullable: bool, depth: int) -> Spec:
        inner = self.spec(schema, depth + 1)
        if nullable and inner.kind in COMPOUND | {"const"}:
            return Spec(kind="union", schema=schema, nullable=True, branches=(branch,))
        return replace(inner, nullable=inner.nullable or nullable)


def _plain(node: dict[str, Any]) -> Spec:
    """Understand a node without alternatives."""
    if "const" in node:
        return Spec(kind="const", schema=node)
    if isinstance(node.get("enum"), list):
        options = tuple(option for option in node["enum"] if option is not None)
        return Spec(kind="choice", schema=node, options=options, nullable=None in node["enum"])
    kind = _KINDS.get(str(node.get("type")))
    if kind == "array":
        return _array(node)
    if kind == "object":
        return _object(node)
    if kind == "text":
        return Spec(kind=_text_kind(node), schema=node)
    return Spec(kind=kind or ("group" if node.get("properties") else "json"), schema=node)


_KINDS = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "switch",
    "array": "array",
    "object": "object",
}


def _text_kind(node: Schema) -> str:
    kind = _FORMATS.get(str(node.get("format")))
    long = "textarea" in {node.get("format"), node.get("x-widget")} or (node.get("maxLength") or 0) > 200
    uploads = node.get("x-upload") or node.get("contentMediaType")
    return kind or ("area" if long or uploads else "text")


def _array(node: Schema) -> Spec:
    if node.get("prefixItems"):
        return Spec(kind="tuple", schema=node)
    if not isinstance(node.get("items"), Mapping) or not node["items"]:
        return Spec(kind="json", schema=node)
    return Spec(kind="rows", schema=node)


def _object(node: Schema) -> Spec:
    extra = node.get("additionalProperties")
    if "properties" in node and (node["properties"] or not extra):
        return Spec(kind="group", schema=node)
    return Spec(kind="pairs" if isinstance(extra, Mapping) and extra else "json", schema=node)


def _is_null(schema: Schema) -> bool:
    return (
        schema.get("type") == "null" or ("const" in schema and schema["const"] is None) or schema.get("enum") == [None]
    )


def _is_decimal(branches: tuple[Schema, ...]) -> bool:
    """Pydantic writes ``Decimal`` as number or string; the string branch may carry a pattern of digits."""
    kinds = sorted(str(branch.get("type")) for branch in branches)
    plain = all(not branch.get("format") and "title" not in branch for branch in branches)
    return kinds == ["number", "string"] and plain


def _options(schema: Schema) -> tuple[Any, ...]:
    if "const" in schema:
        return (schema["const"],)
    values = schema.get("enum")
    return tuple(values) if isinstance(values, list) else ()


def _bare(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in _NOTES or key == "format"}


def humanize(name: str) -> str:
    """Return a field's name as a label: ``due_at`` becomes ``Due at``."""
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:] if words else name
