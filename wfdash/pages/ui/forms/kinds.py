"""The kind of control that a schema node without alternatives needs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wfdash.schemas import media

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
        return _array(node)
    if kind == "object" or (kind is None and mapping(node.get("properties"))):
        return _object(node)
    return _text_kind(node) if kind == "text" else kind or "json"


def takes_file(node: Mapping[str, Any]) -> bool:
    """Say whether the text of a node may come from a file."""
    return bool(node.get("x-upload") or media.wanted_types(node) or node.get("format") == "binary")


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
    if kind is None and media.encoding_of(node):
        return "file"
    most = node.get("maxLength")
    long = isinstance(most, int) and most > LONG_TEXT and node.get("format") not in {"uri", "url"}
    wide = long or "textarea" in {node.get("format"), node.get("x-widget")} or takes_file(node)
    return kind or ("area" if wide else "text")


def _array(node: Mapping[str, Any]) -> str:
    parts = node.get("prefixItems") or (node.get("items") if isinstance(node.get("items"), list) else None)
    if isinstance(parts, list) and parts:
        rest = node.get("items") if node.get("prefixItems") else node.get("additionalItems")
        more = rest not in (None, False) and node.get("maxItems") != len(parts)
        return "json" if more or node.get("minItems", len(parts)) != len(parts) else "tuple"
    return "rows" if isinstance(node.get("items"), Mapping) and node["items"] else "json"


def _object(node: Mapping[str, Any]) -> str:
    if mapping(node.get("properties")):
        return "group"
    extra, patterns = node.get("additionalProperties"), mapping(node.get("patternProperties"))
    if isinstance(extra, Mapping) and extra:
        return "pairs"
    if patterns:
        return "pairs" if len(patterns) == 1 and not extra else "json"
    return "group" if extra is False or ("properties" in node and not extra) else "json"
