"""Answers made from a schema: such as fit it, and such as someone has meddled with."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

LETTERS = st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\r\t")
TEXTS = st.text(LETTERS, max_size=8)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 20).decode()
MOMENTS = st.sampled_from(["Z", "+02:00", "-05:30"]).flatmap(
    lambda zone: st.datetimes().map(lambda at: at.isoformat() + zone)
)
FORMATS: dict[str, st.SearchStrategy[str]] = {
    "date": st.dates().map(str),
    "date-time": MOMENTS,
    "time": st.times().map(str),
    "duration": st.sampled_from(["PT5M", "P1DT2H", "PT0S", "P2W", "-P1D", "PT1.5S", "P1Y"]),
    "uuid": st.uuids().map(str),
    "uri": st.sampled_from(["https://example.com/", "http://a.b/c?d=e#f", "https://[::1]:8000/x"]),
    "email": st.sampled_from(["ana@example.com", "b.c@example.org"]),
    "ipv4": st.ip_addresses(v=4).map(str),
    "regex": st.sampled_from(["^a+$", "x|y"]),
    "base64": st.binary(max_size=6).map(lambda raw: base64.b64encode(raw).decode()),
    "password": st.text("abcdef", min_size=4, max_size=8),
}
PLAIN: dict[str, st.SearchStrategy[str]] = {
    "date-time": st.dates().map(lambda on: f"{on}T10:30:00Z"),
    "time": st.integers(10, 23).map(lambda hour: f"{hour}:45:00"),
    "duration": st.sampled_from(["PT5M", "P1DT2H", "PT0S", "-P1D", "PT1.5S"]),
}
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=5
)


class Maker:
    """Makes values for the nodes of one schema; they fit nearly always."""

    def __init__(self, root: Mapping[str, Any], full: bool = False, plain: bool = False) -> None:
        self.root = root
        self.full = full
        self.plain = plain

    def make(self, schema: Any, depth: int = 0) -> st.SearchStrategy[Any]:
        if not isinstance(schema, Mapping) or not schema:
            return ANYTHING
        node = self._whole(schema)
        for key in ("anyOf", "oneOf"):
            if key in node:
                return self._alternatives(node, node[key], depth)
        if "const" in node:
            return st.just(node["const"])
        if "enum" in node:
            return st.sampled_from(node["enum"])
        if isinstance(node.get("type"), list):
            return st.one_of([self.make({**node, "type": kind}, depth) for kind in node["type"]])
        make = _MAKERS.get(str(node.get("type")))
        return make(self, node, depth) if make else ANYTHING

    def _whole(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        node = dict(schema)
        if "$ref" in node:
            target: Any = self.root
            for part in node.pop("$ref").strip("#/").split("/"):
                target = target[part] if part else target
            node = {**self._whole(target), **node}
        for part in node.pop("allOf", ()):
            other = self._whole(part)
            properties = {**node.get("properties", {}), **other.get("properties", {})}
            node = {**node, **other, **({"properties": properties} if properties else {})}
        return node

    def _alternatives(self, node: dict[str, Any], branches: list[Any], depth: int) -> st.SearchStrategy[Any]:
        rest = {key: value for key, value in node.items() if key not in {"anyOf", "oneOf"}}
        if [branch.get("type") for branch in branches[:2]] == ["number", "string"]:
            amounts = st.decimals(min_value=0, max_value=2000, places=2).map(str) | st.integers(-3, 2000)
            return amounts | st.none() if len(branches) > 2 else amounts
        if depth > 2 and any(branch.get("type") == "null" for branch in branches):
            return st.none()
        joined = [{**rest, **branch} if "properties" in rest else branch for branch in branches]
        for branch, whole in zip(branches, joined, strict=True):
            if whole is not branch:
                whole["properties"] = {**rest["properties"], **branch.get("properties", {})}
                whole["required"] = [*rest.get("required", ()), *branch.get("required", ())]
        return st.one_of([self.make(branch, depth + 1) for branch in joined])

    def _text(self, node: dict[str, Any], depth: int) -> st.SearchStrategy[str]:
        if node.get("contentEncoding") == "base64" or node.get("format") == "base64":
            return st.just(PNG) if "contentMediaType" in node else FORMATS["base64"]
        if node.get("contentMediaType") == "application/json":
            return st.lists(st.integers(), max_size=3).map(json.dumps)
        if self.plain and node.get("format") in PLAIN:
            return PLAIN[node["format"]]
        if node.get("format") in FORMATS:
            return FORMATS[node["format"]]
        if "pattern" in node:
            return st.from_regex(node["pattern"], alphabet=st.characters(codec="ascii"))
        least = node.get("minLength", 0)
        return st.text(LETTERS, min_size=least, max_size=min(node.get("maxLength", least + 8), least + 8))

    def _whole_number(self, node: dict[str, Any], depth: int) -> st.SearchStrategy[int]:
        step = node.get("multipleOf", 1)
        low = node.get("minimum", node.get("exclusiveMinimum", -1 - 100) + 1)
        high = node.get("maximum", node.get("exclusiveMaximum", 101) - 1)
        return st.integers(int(low) // step, int(high) // step).map(lambda number: number * step)

    def _number(self, node: dict[str, Any], depth: int) -> st.SearchStrategy[float]:
        return st.floats(
            min_value=node.get("minimum", node.get("exclusiveMinimum", -1e6)),
            max_value=node.get("maximum", node.get("exclusiveMaximum", 1e6)),
            exclude_min="exclusiveMinimum" in node,
            exclude_max="exclusiveMaximum" in node,
        )

    def _list(self, node: dict[str, Any], depth: int) -> st.SearchStrategy[list[Any]]:
        parts = node.get("prefixItems") or (node["items"] if isinstance(node.get("items"), list) else None)
        if parts:
            return st.tuples(*(self.make(part, depth + 1) for part in parts)).map(list)
        most = node.get("maxItems", 3) if depth < 5 else node.get("minItems", 0)
        items = self.make(node.get("items"), depth + 1) if most else st.nothing()
        unique: Callable[[Any], Any] | None = json.dumps if node.get("uniqueItems") else None
        return st.lists(items, min_size=node.get("minItems", 0), max_size=most, unique_by=unique)

    def _object(self, node: dict[str, Any], depth: int) -> st.SearchStrategy[dict[str, Any]]:
        fields, needed = node.get("properties", {}), set(node.get("required", ()))
        always = {key for key in fields if key in needed or (self.full and depth < 4)}
        made = {key: self.make(inner, depth + 1) for key, inner in fields.items() if key in always or depth < 4}
        known = st.fixed_dictionaries(
            {key: value for key, value in made.items() if key in always},
            optional={key: value for key, value in made.items() if key not in always},
        )
        extra = node.get("additionalProperties", bool(not fields and not node.get("patternProperties")))
        patterns = node.get("patternProperties", {})
        if extra is False and not patterns:
            return known
        inner = next(iter(patterns.values()), extra)
        least = node.get("minProperties", 0)
        loose = st.dictionaries(self._names(node, patterns), self.make(inner, depth + 1), min_size=least, max_size=3)
        return st.tuples(known, loose).map(lambda pair: {**pair[1], **pair[0]})

    def _names(self, node: dict[str, Any], patterns: Mapping[str, Any]) -> st.SearchStrategy[str]:
        if patterns:
            return st.from_regex(next(iter(patterns)), alphabet=st.characters(codec="ascii"))
        wanted = self._whole(node.get("propertyNames", {}))
        if "enum" in wanted:
            return st.sampled_from(wanted["enum"])
        return (
            st.text("abc", min_size=1, max_size=4)
            if "pattern" in wanted
            else st.text(LETTERS, min_size=int(self.plain), max_size=8)
        )


_MAKERS: dict[str, Callable[[Maker, dict[str, Any], int], st.SearchStrategy[Any]]] = {
    "string": Maker._text,
    "integer": Maker._whole_number,
    "number": Maker._number,
    "boolean": lambda *_: st.booleans(),
    "null": lambda *_: st.none(),
    "array": Maker._list,
    "object": Maker._object,
}


def fitting(schema: Mapping[str, Any], *, full: bool = False, plain: bool = False) -> st.SearchStrategy[Any]:
    """Values that should fit. ``full``: with every field. ``plain``: can be typed, names and whole minutes."""
    return Maker(schema, full, plain).make(schema)


@st.composite
def meddled(draw: st.DrawFn, schema: Mapping[str, Any]) -> Any:
    """A value that fitted, changed in one place: another type, another size, more or less of it."""
    value = copy.deepcopy(draw(fitting(schema)))
    holder: Any = [value]
    key: Any = 0
    while isinstance(holder[key], dict | list) and holder[key] and draw(st.integers(0, 3)):
        holder, key = (
            holder[key],
            draw(st.sampled_from(sorted(holder[key]) if isinstance(holder[key], dict) else range(len(holder[key])))),
        )
        if draw(st.integers(0, 2)) == 0:
            break
    whole = holder if isinstance(holder, list) and holder[0] is value and key == 0 else None
    _change(draw, holder, key)
    return whole[0] if whole else value


def _change(draw: st.DrawFn, holder: Any, key: Any) -> None:
    old = holder[key]
    how = draw(st.integers(0, 3))
    if how == 0 and isinstance(holder, dict):
        del holder[key]
    elif how == 1 and isinstance(old, int | float) and not isinstance(old, bool):
        holder[key] = draw(st.sampled_from([old + 1000, -old - 1, old + 0.5, str(old)]))
    elif how == 1 and isinstance(old, str):
        holder[key] = draw(st.sampled_from([old * 40, "", old + "!", 5]))
    elif how == 2 and isinstance(old, dict):
        old[draw(TEXTS)] = draw(ANYTHING)
    elif how == 2 and isinstance(old, list):
        old.extend(draw(st.lists(ANYTHING, min_size=1, max_size=2)))
    else:
        holder[key] = draw(ANYTHING)
