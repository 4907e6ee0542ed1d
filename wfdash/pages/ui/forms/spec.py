"""What a JSON Schema node means to a form: one ``Spec`` with one kind. Pure.

Covers all that pydantic writes and what people write by hand: ``$ref``, ``allOf``, nullable and plain unions,
discriminators, enums, constants, tuples, dictionaries, conditional fields. What is not understood is JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wfdash.pages.ui.forms import kinds
from wfdash.schemas.nodes import target_of

Schema = Mapping[str, Any]

COMPOUND = frozenset({"group", "rows", "tuple", "pairs", "checks"})
MAX_DEPTH = 24
_INPUTS = {"email": "email", "idn-email": "email", "uri": "url", "url": "url"}
_NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
_STRUCTURE = frozenset({"type", "properties", "patternProperties", "items", "prefixItems", "enum", "const"})


@dataclass(frozen=True, kw_only=True)
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
        return self.kind == "file" or (self.kind in {"text", "area"} and kinds.takes_file(self.schema))

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
        return extra is True or bool(kinds.mapping(extra) or kinds.mapping(self.schema.get("patternProperties")))


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
                **kinds.mapping(target_of(str(schema["$ref"]), self.root)),
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
        return tuple(str(name) for name in kinds.options_of(wanted))

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
            node["properties"] = {**fields, **kinds.mapping(node.get("properties"))}
        self._merges[id(schema)] = schema, node
        return node

    def _conditional(self, node: Schema) -> Iterator[tuple[str, Any]]:
        """Yield the fields of ``then``, ``else`` and ``dependentSchemas``; a constant there is a rule, no field."""
        parts = [node.get("then"), node.get("else"), *kinds.mapping(node.get("dependentSchemas")).values()]
        for part in map(self.resolve, parts):
            for name, inner in kinds.mapping(part.get("properties")).items():
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
        if kinds.is_decimal(branches):
            return Spec(kind="decimal", schema={**branches[0], **branches[1], **rest}, nullable=nullable)
        options = [(option, _label(branch)) for branch in branches for option in kinds.options_of(branch)]
        if all(kinds.options_of(branch) for branch in branches):
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
    properties = {**kinds.mapping(outer.get("properties")), **kinds.mapping(inner.get("properties"))}
    required = [name for part in (outer, inner) for name in _names(part.get("required"))]
    return {**outer, **inner} | ({"properties": properties, "required": required} if properties else {})


def _only_rules(branches: list[dict[str, Any]]) -> bool:
    """Return whether alternatives only restrict fields named elsewhere: such as "one of the two is required"."""
    names = {"properties", "required"}
    fields = [inner for branch in branches for inner in kinds.mapping(branch.get("properties")).values()]
    typed = any(isinstance(inner, Mapping) and inner.keys() & {"type", "$ref", "anyOf", "oneOf"} for inner in fields)
    return not typed and not any(branch.keys() & (_STRUCTURE - names) for branch in branches)


def _plain_spec(node: dict[str, Any]) -> Spec:
    """Return the specification of a node without alternatives."""
    if "const" in node:
        return Spec(kind="const", schema=node)
    if isinstance(node.get("enum"), list):
        options = tuple(option for option in node["enum"] if option is not None)
        return Spec(kind="choice", schema=node, options=options, nullable=None in node["enum"])
    kind = kinds.of(node)
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
    return title if isinstance(title, str) and len(kinds.options_of(branch)) == 1 else ""
