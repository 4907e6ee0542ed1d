"""Names of types, and whether values of one type can belong to another."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from typing_extensions import is_protocol, is_typeddict

from wfdash.values.codec import is_any, members

NUMBERS = {(int, float), (int, complex), (float, complex), (bool, int), (bool, float)}


def type_name(kind: Any) -> str:
    """Return a short name: ``Claim``, ``list[Claim]``, ``A | B``; empty for untyped."""
    if is_any(kind):
        return ""
    if kind is None or kind is type(None):
        return "None"
    if get_origin(kind) is Annotated:
        return type_name(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return " | ".join(type_name(member) for member in get_args(kind))
    if get_origin(kind) is Literal:
        return " | ".join(repr(value) for value in get_args(kind))
    if get_args(kind):
        inner = ", ".join(type_name(arg) or "Any" for arg in get_args(kind))
        return f"{getattr(get_origin(kind), '__name__', str(get_origin(kind)))}[{inner}]"
    return str(getattr(kind, "__name__", kind))


def can_carry(gives: Any, takes: Any) -> bool:
    """Return whether some value of ``gives`` can be a ``takes``; when in doubt, True."""
    if is_any(gives) or is_any(takes):
        return True
    return any(_meets(given, taken) for given in members(gives) for taken in members(takes))


def _meets(given: Any, taken: Any) -> bool:
    if is_any(given) or is_any(taken):
        return True
    one, other = _bare_type(given), _bare_type(taken)
    if not isinstance(one, type) or not isinstance(other, type) or is_protocol(one) or is_protocol(other):
        return True
    if not (issubclass(one, other) or issubclass(other, one) or (one, other) in NUMBERS):
        return False
    mine, theirs = get_args(given), get_args(taken)
    if len(mine) == len(theirs) == 1 and one is other:
        return can_carry(mine[0], theirs[0])
    return True


def _bare_type(kind: Any) -> Any:
    if kind is None:
        return type(None)
    if get_origin(kind) is Annotated:
        return _bare_type(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return type(get_args(kind)[0])
    if is_typeddict(get_origin(kind) or kind):
        return dict
    return get_origin(kind) or getattr(kind, "__supertype__", kind)


def item_type(kind: Any) -> Any:
    """Return the item type of a list type, ``Any`` if it has none."""
    found = [get_args(m)[0] if get_args(m) else Any for m in members(kind) if _bare_type(m) is list]
    return found[0] if len(found) == 1 else Any


def is_list(kind: Any) -> bool:
    """Return whether values of this type may be lists."""
    return is_any(kind) or any(_bare_type(member) is list for member in members(kind))
