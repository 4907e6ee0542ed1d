"""What a JSON Schema node means to a form: one ``Spec`` with one kind. Pure.

Covers all that pydantic writes and what people write by hand: ``$ref``, ``allOf``, nullable and plain unions,
discriminators, enums, constants, tuples, dictionaries, conditional fields. What is not understood is JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias
from urllib.parse import quote

from django.forms.utils import flatatt
from django.utils.safestring import SafeString

from checkpoints.records import Pairs, frozen
from wfdash.values.schemas import formats
from wfdash.values.schemas.work import target_of

# What a form template renders: fields, options, branches, and how controls are named. Pure.

Loc: TypeAlias = tuple[str | int, ...]

RESERVED = frozenset({"csrfmiddlewaretoken"})
UNNAMED = frozenset({"group", "rows", "pairs", "tuple", "radios", "checks", "switch", "union", "file"})
"""Kinds for which ``aria-required`` is not defined."""

MAX_SEGMENTS = 5
MAX_SEGMENT_TEXT = 60


@frozen
class FieldOption:
    """A choice: ``sent`` is what the browser sends."""

    sent: str
    label: str
    chosen: bool


@frozen
class UnionBranch:
    """An alternative of a union; ``field`` is None while it is not rendered."""

    sent: str
    label: str
    chosen: bool
    field: Field | None


@frozen
class FieldRow:
    """An item of a list, or an entry of a dictionary (then with its ``key``)."""

    name: str
    field: Field
    key: str = ""
    key_original: bool = False
    known: bool = True
    """Whether the key is one of those that are offered."""


@frozen
class Field:
    """A part of the form. ``kind`` names its template; ``text`` is exactly what the control shows."""

    kind: str
    name: str
    id: str
    loc: Loc
    label: str
    help: str = ""
    required: bool = False
    text: str = ""
    original: str | None = None
    attributes: Pairs = ()
    options: tuple[FieldOption, ...] = ()
    blank: str = ""
    children: tuple[Field, ...] = ()
    branches: tuple[UnionBranch, ...] = ()
    rows: tuple[FieldRow, ...] = ()
    uploads: bool = False
    accept: str = ""
    most_bytes: int = 0
    too_large: str = ""
    preview: str = ""
    errors: tuple[str, ...] = ()

    @property
    def template(self) -> str:
        """Return the template that renders it."""
        return f"components/fields/{self.kind}.html"

    @property
    def boxed(self) -> bool:
        """Return whether it holds more than one control, so that a row of a list is a box of its own."""
        return self.kind in {"group", "tuple", "union", "rows", "pairs", "file"}

    @property
    def segmented(self) -> bool:
        """Return whether the branches of a union are few and short enough for a segmented control."""
        return len(self.branches) <= MAX_SEGMENTS and sum(len(b.label) for b in self.branches) <= MAX_SEGMENT_TEXT

    @property
    def kinds(self) -> tuple[UnionBranch, ...]:
        """Return the branches to pick from: where one has to be, none may be picked yet."""
        return tuple(one for one in self.branches if one.sent or not self.required)

    @property
    def described_by(self) -> str:
        """Return the ids of the texts that explain the control."""
        parts = [f"{self.id}-error"] if self.errors else []
        return " ".join(parts + ([f"{self.id}-help"] if self.help else []))

    @property
    def flat(self) -> SafeString:
        """Return the control's attributes, escaped, as one string that starts with a space."""
        own: dict[str, Any] = {**dict(self.attributes), **self._aria()}
        return flatatt({**own, "id": self.id, "name": self.name})

    @property
    def aria(self) -> SafeString:
        """Return only state and description, for controls that come in groups."""
        return flatatt(self._aria())

    def _aria(self) -> dict[str, Any]:
        given: dict[str, Any] = {"aria-invalid": "true"} if self.errors else {}
        if self.required and self.kind not in UNNAMED:
            given["aria-required"] = "true"
        return given | ({"aria-describedby": self.described_by} if self.described_by else {})


def part(key: str | int) -> str:
    """Return one part of a control's name: no dots, marks or spaces, never what Django or the page reserves."""
    if isinstance(key, int):
        return str(key)
    text = quote(key, safe="").replace(".", "%2E") or "%"
    return "%5F" + text[1:] if text.startswith("_") else "%63" + text[1:] if text in RESERVED else text


def child(name: str, key: str | int) -> str:
    """Return the name of a value inside a value. A prefix ends in ``:``, the root of a group has no name."""
    return _joined_name(name, part(key))


def others(name: str) -> str:
    """Return the name of the fields of a group that its schema does not name."""
    return _joined_name(name, "*")


def _joined_name(name: str, own: str) -> str:
    return f"{name}{own}" if not name or name.endswith(":") else f"{name}.{own}"


def index_of(text: str) -> int | None:
    """Return the number of a row, a branch or a count of rows as a form posts it; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


# The kind of control that a schema node without alternatives needs. Pure.

_TYPES = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "switch",
    "array": "array",
    "object": "object",
}
_FORMATS = {"date": "date", "date-time": "datetime", "time": "time", "duration": "duration", "password": "secret"}
LONG_TEXT = 200
"""Characters a text may have before it gets more than one line."""


def of(node: Mapping[str, Any]) -> str:
    """Return the kind of a node that has no constant, no options and no alternatives."""
    kind = _TYPES.get(str(node.get("type")))
    if kind == "array":
        parts = node.get("prefixItems") or (node.get("items") if isinstance(node.get("items"), list) else None)
        if isinstance(parts, list) and parts:
            rest = node.get("items") if node.get("prefixItems") else node.get("additionalItems")
            more = rest not in (None, False) and node.get("maxItems") != len(parts)
            return "json" if more or node.get("minItems", len(parts)) != len(parts) else "tuple"
        return "rows" if isinstance(node.get("items"), Mapping) and node["items"] else "json"
    if kind == "object" or (kind is None and mapping(node.get("properties"))):
        return _object(node)
    return _text_kind(node) if kind == "text" else kind or "json"


def takes_file(node: Mapping[str, Any]) -> bool:
    """Say whether the text of a node may come from a file."""
    return bool(node.get("x-upload") or formats.wanted_types(node) or node.get("format") == "binary")


def options_of(node: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values a node allows by name; empty if it does not name them."""
    if "const" in node:
        return (node["const"],)
    values = node.get("enum")
    return tuple(values) if isinstance(values, list) else ()


def is_decimal(branches: Sequence[Mapping[str, Any]]) -> bool:
    """Pydantic writes ``Decimal`` as number or string; the string branch may carry a pattern of digits."""
    kinds = sorted(str(branch.get("type")) for branch in branches)
    plain = all(not branch.get("format") and "title" not in branch for branch in branches)
    return kinds == ["number", "string"] and plain and not any("enum" in branch for branch in branches)


def mapping(given: Any) -> dict[str, Any]:
    """Return the given value if it is a mapping, else an empty one."""
    return dict(given) if isinstance(given, Mapping) else {}


def _text_kind(node: Mapping[str, Any]) -> str:
    kind = _FORMATS.get(str(node.get("format")))
    if kind is None and formats.encoding_of(node):
        return "file"
    most = node.get("maxLength")
    long = isinstance(most, int) and most > LONG_TEXT and node.get("format") not in {"uri", "url"}
    wide = long or "textarea" in {node.get("format"), node.get("x-widget")} or takes_file(node)
    return kind or ("area" if wide else "text")


def _object(node: Mapping[str, Any]) -> str:
    if mapping(node.get("properties")):
        return "group"
    extra, patterns = node.get("additionalProperties"), mapping(node.get("patternProperties"))
    if isinstance(extra, Mapping) and extra:
        return "pairs"
    if patterns:
        return "pairs" if len(patterns) == 1 and not extra else "json"
    return "group" if extra is False or ("properties" in node and not extra) else "json"


Schema = Mapping[str, Any]

COMPOUND = frozenset({"group", "rows", "tuple", "pairs", "checks"})
MAX_DEPTH = 24
_INPUTS = {"email": "email", "idn-email": "email", "uri": "url", "url": "url"}
_NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
_STRUCTURE = frozenset({"type", "properties", "patternProperties", "items", "prefixItems", "enum", "const"})


@frozen
class Spec:
    """A parsed schema node. ``branches`` are the alternatives of a union, null left out.

    ``labels``: per option the author's title, empty where it has none.
    """

    kind: str
    schema: Schema
    nullable: bool = False
    options: tuple[Any, ...] = ()
    labels: tuple[str, ...] = ()
    branches: tuple[Schema, ...] = ()

    @property
    def title(self) -> str:
        """Return the author's title, or an empty string."""
        return str(self.schema.get("title") or "")

    @property
    def uploads(self) -> bool:
        """Return whether a file may be given instead of typing."""
        return self.kind == "file" or (self.kind in {"text", "area"} and takes_file(self.schema))

    @property
    def input_type(self) -> str:
        """Return the HTML input type of a one-line text."""
        return _INPUTS.get(str(self.schema.get("format")), "text")

    def stays(self, required: bool) -> bool:
        """Return whether an empty control is still a value, null or an empty list, because the field is required."""
        return required or "default" in self.schema

    @property
    def entries(self) -> Any:
        """Return the schema of a dictionary's values, or of the additional fields of a group."""
        extra = self.schema.get("additionalProperties")
        patterns = self.schema.get("patternProperties")
        if not isinstance(extra, Mapping) and isinstance(patterns, Mapping) and len(patterns) == 1:
            return next(iter(patterns.values()))
        return extra if isinstance(extra, Mapping) else {}

    @property
    def grows(self) -> bool:
        """Return whether a group accepts additional fields, as its author says."""
        extra = self.schema.get("additionalProperties")
        return extra is True or bool(mapping(extra) or mapping(self.schema.get("patternProperties")))


class Schemas:
    """Parses the nodes of one schema document."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._specs: dict[tuple[int, bool], tuple[Schema, Spec]] = {}
        self._merges: dict[int, tuple[Schema, dict[str, Any]]] = {}
        # By the node's id, with the node, so that no other one can have its id.

    def spec(self, schema: Any, depth: int = 0, required: bool = True) -> Spec:
        """Return the specification of this node. Never raises: anything unknown is JSON text.

        An optional group or constant is a union of nothing and itself.
        """
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return Spec(kind="json", schema={})
        known = self._specs.get((id(schema), required))
        if known is not None:
            return known[1]
        node = self._merged(schema, depth)
        made = self._spec_of(node, depth)
        if not required and made.kind in {"group", "tuple", "const"} and "default" not in node:
            made = Spec(kind="union", schema=node, branches=(node,))
        self._specs[id(schema), required] = schema, made
        return made

    def resolve(self, schema: Any) -> Schema:
        """Return the target of ``$ref`` within the document; an empty schema if there is none."""
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, Mapping):
                return {}
            if "$ref" not in schema:
                return schema
            schema = {
                **mapping(target_of(str(schema["$ref"]), self.root)),
                **{k: v for k, v in schema.items() if k != "$ref"},
            }
        return {}

    def within(self, schema: Schema) -> dict[str, Any]:
        """Return the node as a schema of its own, with the document's definitions."""
        shared = {key: self.root[key] for key in ("$defs", "definitions") if key in self.root}
        return {**schema, **shared}

    def names_of(self, spec: Spec) -> tuple[str, ...]:
        """Return the names that the entries of a dictionary may have; empty: any."""
        wanted = self.resolve(spec.schema.get("propertyNames", {}))
        return tuple(str(name) for name in options_of(wanted))

    def _merged(self, schema: Schema, depth: int) -> dict[str, Any]:
        """Return the node with its ``allOf`` merged, and its conditional fields: one dictionary per node."""
        known = self._merges.get(id(schema))
        if known is not None:
            return known[1]
        self._merges[id(schema)] = schema, {}
        node = dict(self.resolve(schema))
        for part in _schemas(node.pop("allOf", ())):
            other = self._merged(part, depth + 1) if depth < MAX_DEPTH else {}
            node = _joined(other, node)
        fields = dict(self._conditional(node))
        if fields and (node.get("type") == "object" or "properties" in node):
            node["properties"] = {**fields, **mapping(node.get("properties"))}
        self._merges[id(schema)] = schema, node
        return node

    def _conditional(self, node: Schema) -> Iterator[tuple[str, Any]]:
        """Yield the fields of ``then``, ``else`` and ``dependentSchemas``; a constant there is a rule, no field."""
        parts = [node.get("then"), node.get("else"), *mapping(node.get("dependentSchemas")).values()]
        for part in map(self.resolve, parts):
            for name, inner in mapping(part.get("properties")).items():
                if isinstance(inner, Mapping) and inner.keys() & {"type", "enum", "$ref", "anyOf", "oneOf"}:
                    yield name, inner

    def _spec_of(self, node: dict[str, Any], depth: int) -> Spec:
        if isinstance(node.get("type"), list):
            rest = {key: value for key, value in node.items() if key != "type"}
            bare = {key: value for key, value in rest.items() if key not in _NOTES}
            node = {**rest, "anyOf": [{**bare, "type": kind} for kind in node["type"]]}
        alternatives = _schemas(node.get("anyOf")) or _schemas(node.get("oneOf"))
        if alternatives:
            return self._union(node, alternatives, depth)
        plain = _plain_spec(node)
        if plain.kind == "rows":
            item = self.spec(node["items"], depth + 1)
            if item.kind == "choice" and not item.nullable:
                return replace(plain, kind="checks", options=item.options, labels=item.labels)
        return plain

    def _union(self, node: dict[str, Any], alternatives: list[Schema], depth: int) -> Spec:
        rest = {key: value for key, value in node.items() if key not in {"anyOf", "oneOf"}}
        resolved = [self._merged(branch, depth + 1) for branch in alternatives]
        if rest.keys() & _STRUCTURE:
            if _only_rules(resolved):
                return self._spec_of(rest, depth)
            bare = {key: value for key, value in rest.items() if key not in _NOTES}
            resolved = [_joined(bare, branch) for branch in resolved]
        branches = tuple(branch for branch in resolved if not _is_null(branch))
        nullable = len(branches) < len(resolved)
        if not branches:
            return Spec(kind="const", schema={**rest, "const": None})
        if len(branches) == 1:
            return self._optional({**branches[0], **rest}, branches[0], nullable, depth)
        if is_decimal(branches):
            return Spec(kind="decimal", schema={**branches[0], **branches[1], **rest}, nullable=nullable)
        options = [(option, _label(branch)) for branch in branches for option in options_of(branch)]
        if all(options_of(branch) for branch in branches):
            values, labels = tuple(option for option, _ in options), tuple(label for _, label in options)
            return Spec(kind="choice", schema=rest, nullable=nullable, options=values, labels=labels)
        return Spec(kind="union", schema=rest, nullable=nullable, branches=branches)

    def _optional(self, schema: dict[str, Any], branch: Schema, nullable: bool, depth: int) -> Spec:
        inner = self.spec(schema, depth + 1)
        if nullable and inner.kind in COMPOUND | {"const"}:
            return Spec(kind="union", schema=schema, nullable=True, branches=(branch,))
        return replace(inner, nullable=inner.nullable or nullable)


def _joined(outer: Schema, inner: Schema) -> dict[str, Any]:
    """Return both schemas as one, as far as a form needs: the inner one wins, their fields add up."""
    properties = {**mapping(outer.get("properties")), **mapping(inner.get("properties"))}
    required = [name for part in (outer, inner) for name in _names(part.get("required"))]
    return {**outer, **inner} | ({"properties": properties, "required": required} if properties else {})


def _only_rules(branches: list[dict[str, Any]]) -> bool:
    """Return whether alternatives only restrict fields named elsewhere: such as "one of the two is required"."""
    names = {"properties", "required"}
    fields = [inner for branch in branches for inner in mapping(branch.get("properties")).values()]
    typed = any(isinstance(inner, Mapping) and inner.keys() & {"type", "$ref", "anyOf", "oneOf"} for inner in fields)
    return not typed and not any(branch.keys() & (_STRUCTURE - names) for branch in branches)


def _plain_spec(node: dict[str, Any]) -> Spec:
    """Return the specification of a node without alternatives."""
    if "const" in node:
        return Spec(kind="const", schema=node)
    if isinstance(node.get("enum"), list):
        options = tuple(option for option in node["enum"] if option is not None)
        return Spec(kind="choice", schema=node, options=options, nullable=None in node["enum"])
    kind = of(node)
    if kind == "tuple" and isinstance(node.get("items"), list):
        node = {**node, "prefixItems": node["items"]}
    return Spec(kind=kind, schema=node)


def _schemas(given: Any) -> list[Schema]:
    return [part for part in given if isinstance(part, Mapping)] if isinstance(given, list | tuple) else []


def _names(given: Any) -> list[str]:
    return [name for name in given if isinstance(name, str)] if isinstance(given, list) else []


def _is_null(schema: Schema) -> bool:
    return (
        schema.get("type") == "null" or ("const" in schema and schema["const"] is None) or schema.get("enum") == [None]
    )


def _label(branch: Schema) -> str:
    title = branch.get("title")
    return title if isinstance(title, str) and len(options_of(branch)) == 1 else ""
