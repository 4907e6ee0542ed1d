"""The nodes of a JSON Schema along a path: what it says of one value of a document. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
SINGLE = ("string", "number", "integer", "boolean")


def is_secret(node: Any) -> bool:
    """Say whether a node of a schema calls its value secret."""
    return isinstance(node, Mapping) and (node.get("writeOnly") is True or node.get("format") == "password")


def is_single(node: Schema) -> bool:
    """Return whether a node's values are single ones, neither objects nor lists."""
    given = node.get("type")
    types = given if isinstance(given, list) else [given]
    return any(kind in types for kind in SINGLE) or "enum" in node or "const" in node


def under(node: Schema, key: str) -> Iterator[Schema]:
    """Yield what a node says of the value under a key."""
    properties = node.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        yield properties[key]
    elif isinstance(node.get("additionalProperties"), Mapping):
        yield node["additionalProperties"]


def items_of(node: Schema) -> Iterator[Schema]:
    """Yield what a node says of the items of a list."""
    for name in ("items", "prefixItems"):
        found = node.get(name)
        yield from found if isinstance(found, list) else [found] if found else []


def resolved(nodes: Iterable[Any], root: Schema) -> list[Schema]:
    """Return these schema nodes with everything they refer to and consist of."""
    waiting, found = deque(nodes), list[Schema]()
    while waiting:
        node = waiting.popleft()
        if not isinstance(node, Mapping) or any(node is known for known in found):
            continue
        found.append(node)
        for name in ("allOf", "anyOf", "oneOf"):
            if isinstance(node.get(name), list):
                waiting.extend(node[name])
        if isinstance(node.get("$ref"), str):
            waiting.append(target_of(node["$ref"], root))
    return found


def target_of(ref: str, root: Schema) -> Any:
    """Return the target of a reference by a place within the document, None for any other."""
    if ref not in ("", "#") and not ref.startswith("#/"):
        return None
    node: Any = root
    for part in ref.removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = node[int(key)] if key.isdecimal() and len(key) < 6 and int(key) < len(node) else None
        else:
            node = node.get(key) if isinstance(node, Mapping) else None
    return node
