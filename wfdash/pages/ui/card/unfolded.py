"""A proposal of a few values, all of them visible: nothing that is approved is hidden in a fold. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wfdash.domain.labels import label_of_field, label_of_key
from wfdash.domain.votes import EDITED
from wfdash.pages.ui.card.tables import cell
from wfdash.pages.ui.forms.kinds import mapping
from wfdash.pages.ui.forms.spec import Schemas
from wfdash.pages.ui.json_value import is_opaque

MOST = 20
"""Values that are shown unfolded."""
DEEPEST = 6

Leaves = tuple[tuple[str, Any], ...]


def unfold(proposal: Any, schema: Mapping[str, Any]) -> Leaves:
    """Return label and value of everything in a proposal, by the titles of the answer's ``schema``.

    Empty for one value, and for more than ``MOST`` of them.
    """
    if not _has_parts(proposal):
        return ()
    schemas, properties = Schemas(schema), mapping(schema.get("properties"))
    node: Any = next((properties[name] for name in EDITED if name in properties), {})
    found: list[tuple[str, Any]] = []
    for leaf in _leaves(proposal, node, schemas, ()):
        found.append(leaf)
        if len(found) > MOST:
            return ()
    return tuple(found)


def _leaves(value: Any, node: Any, schemas: Schemas, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if not _has_parts(value) or len(path) >= DEEPEST:
        yield " › ".join(path), value
        return
    known = _object(node, schemas)
    if isinstance(value, list):
        for number, item in enumerate(value, 1):
            yield from _leaves(item, known.get("items"), schemas, _numbered(path, number))
        return
    fields = mapping(known.get("properties"))
    for key, item in value.items():
        yield from _leaves(item, fields.get(key), schemas, (*path, _title(str(key), fields.get(key), schemas)))


def _has_parts(value: Any) -> bool:
    """Return whether it is more than one value; a list of plain ones fits into a line."""
    if isinstance(value, list):
        return any(isinstance(item, (Mapping, list)) for item in value)
    return isinstance(value, Mapping) and bool(value) and not is_opaque(value)


def _numbered(path: tuple[str, ...], number: int) -> tuple[str, ...]:
    return (*path[:-1], f"{path[-1]} {number}") if path else (str(number),)


def _object(node: Any, schemas: Schemas) -> Mapping[str, Any]:
    """Return a node's properties; of an optional one, those of its non-null alternative."""
    known = schemas.resolve(node) if isinstance(node, Mapping) else {}
    branches = [schemas.resolve(one) for one in known.get("anyOf") or () if isinstance(one, Mapping)]
    real = [one for one in branches if one.get("type") != "null"]
    return real[0] if len(real) == 1 else known


def _title(key: str, node: Any, schemas: Schemas) -> str:
    """Return a field's title; its own name where no schema knows it. A model's name is no title of a field."""
    if not isinstance(node, Mapping):
        return cell(label_of_key(key))
    own = node.get("title") or ("" if "$ref" in node else schemas.resolve(node).get("title"))
    return cell(label_of_field(key, own))
