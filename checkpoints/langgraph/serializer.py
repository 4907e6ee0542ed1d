"""How a saver serializes values: LangGraph's MessagePack, without pickles, of types that can be made again.

LangGraph's own serializer writes any class, and gives back the plain fields of those that it may not make again: a
graph would fail days later, at an answer. Here such a value is refused when it is to be stored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from checkpoints.errors import InvalidConfig, InvalidValue

try:
    from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
except ImportError:  # pragma: no cover - of versions to come
    SAFE_MSGPACK_TYPES = frozenset()

SAFE_TYPES: frozenset[tuple[str, ...]] = SAFE_MSGPACK_TYPES
"""Module and name of each type that LangGraph calls safe to load; without the list, none is."""

PICKLE = (
    "serde: a serializer with pickle_fallback runs code of anyone who can write to the database. Leave it out, and "
    "allow the types of your state by allow="
)
IMPORTED_BY_NAME = frozenset({0, 1, 2, 3, 4, 5})
"""The extensions of LangGraph's MessagePack that name a module and what is in it."""
MODELS = frozenset({4, 5})
"""Those of pydantic models."""
NESTED = frozenset({7})
"""Those that hold MessagePack without naming anything."""


class AllowedTypes(JsonPlusSerializer):
    """LangGraph's serializer for the types that it calls safe and those that are allowed."""

    def __init__(self, allowed: Iterable[type | tuple[str, ...]] = ()) -> None:
        """``allowed``: classes, or their ``(module, name)``."""
        self.allowed = frozenset(_name_of(one) for one in allowed)
        super().__init__(allowed_msgpack_modules=tuple(self.allowed) or None)

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[tuple[str, ...] | type]) -> AllowedTypes:
        """Return a serializer that makes these types again, too."""
        return AllowedTypes([*self.allowed, *extra_allowlist])

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return a value as it is stored. ``InvalidValue`` names the type that could not be made again."""
        kind, data = super().dumps_typed(obj)
        for module, name in sorted(types_in(data, in_models=False) - SAFE_TYPES) if kind == "msgpack" else ():
            if (module, name) not in self.allowed:
                remedy = f"allow it by DjangoSaver(allow=[{name}])"
                raise InvalidValue(f"{module}.{name} would come back as its plain fields: {remedy}")
            found = getattr(sys.modules.get(module), name, None)
            if found is None or (isinstance(found, type) and issubclass(found, datetime)):
                remedy = "keep a datetime" if found else "define it at the top of its module"
                raise InvalidValue(f"{module}.{name} would come back as something else: {remedy}")
        return kind, data


def types_in(data: bytes, *, in_models: bool = True) -> set[tuple[str, ...]]:
    """Return the module and name of each type that msgpack of LangGraph's serializer names. ``ValueError``.

    ``in_models``: also of those in pydantic models, which are validated when they are made again.
    """
    found: set[tuple[str, ...]] = set()

    def look(code: int, inner: bytes) -> Any:
        hook = look if in_models or code not in MODELS else nothing
        held = ormsgpack.unpackb(inner, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)
        if code in IMPORTED_BY_NAME:
            found.add((str(held[0]), str(held[1])))
        return None

    def nothing(code: int, inner: bytes) -> Any:
        return None

    def passed(code: int, inner: bytes) -> Any:
        return look(code, inner) if code in IMPORTED_BY_NAME | NESTED else None

    ormsgpack.unpackb(data, ext_hook=passed, option=ormsgpack.OPT_NON_STR_KEYS)
    return found


def _name_of(one: type | tuple[str, ...]) -> tuple[str, ...]:
    return (one.__module__, one.__name__) if isinstance(one, type) else tuple(one)


def refuse_pickle(serde: SerializerProtocol | None) -> None:
    """Raise ``InvalidConfig`` for a serializer that reads pickles."""
    inner = serde.serde if isinstance(serde, EncryptedSerializer) else serde
    if isinstance(inner, JsonPlusSerializer) and inner.pickle_fallback:
        raise InvalidConfig(PICKLE)
