"""Pickles read as data, and signatures: no class is made, no module imported, and only plain values are rebuilt.

A pickle is a program, and its author chooses the names in it. What pickles of plain values call (``type`` for
the type of None, ``reduce`` and ``getitem`` for types such as ``int | None``) is replaced by functions that do that
alone: ``type`` with three arguments makes a class, of which pydantic evaluates the annotations.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import functools
import hmac
import io
import pathlib
import pickle
import sys
import types
import typing
import uuid
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from copyreg import _reconstructor  # type: ignore[attr-defined]
from enum import Enum, EnumType
from functools import lru_cache
from typing import Any, ClassVar

from pydantic import BaseModel
from pydantic_core import TzInfo

# Signatures by keys that are not in the database: HMAC-SHA256, with the id of the key that made them. Pure.

KEY_ID = 8
"""Hexadecimal digits of a key's id."""
PARTS = "\x1f"


class Keyring:
    """Signing keys: the first one signs, all verify."""

    def __init__(self, secrets: Sequence[str], purpose: str = "audit") -> None:
        """``purpose``: what is signed. Its keys are derived from the secrets, and sign nothing of another purpose."""
        kind = f"wfdash {purpose}".encode()
        made = [hmac.digest(secret.encode(), kind, "sha256") for secret in secrets]
        ids = [hmac.digest(secret.encode(), kind + b" id", "sha256").hex()[:KEY_ID] for secret in secrets]
        self._keys = dict(zip(ids, made, strict=True))
        self._first = ids[0]

    def sign(self, *parts: str) -> str:
        """Return ``<key>:<hmac>`` over the parts, 73 characters."""
        return f"{self._first}:{self._mac(self._first, parts)}"

    def flaw(self, signature: str, *parts: str) -> str:
        """Return why a signature does not verify for these parts, empty if it does."""
        key, _, mac = signature.partition(":")
        if not mac:
            return "is not signed"
        if key not in self._keys:
            return f"is signed with key {key}, which is not set"
        same = hmac.compare_digest(mac.encode(), self._mac(key, parts).encode())
        return "" if same else "has a signature that does not hold"

    def lacks(self, signature: str) -> bool:
        """Return whether a signature is by a key that is not in the ring: nothing says whether it holds."""
        key, _, mac = signature.partition(":")
        return bool(mac) and key not in self._keys

    def _mac(self, key: str, parts: Sequence[str]) -> str:
        return hmac.digest(self._keys[key], PARTS.join(parts).encode(), "sha256").hex()


@lru_cache(maxsize=16)
def keyring_of(keys: str, *otherwise: str) -> Keyring:
    """Return the keys of a comma-separated list; of an empty one, the default keys."""
    return Keyring([key.strip() for key in keys.split(",") if key.strip()] or list(otherwise))


Find = Callable[[str, str], type]
"""Returns the class of a module by its qualified name. ``UnpicklingError`` for one that may not be read."""


def read(written: bytes, find: Find, *, trusted: bool) -> Any:
    """Return the value of a pickle. Names that are no plain Python are looked up by ``find``. Any exception.

    ``trusted``: its bytes are those that were written here. Others are read by Python's own reader, four times slower,
    which sets nothing on a class; the one in C cannot be kept from that.
    """
    return (_Reader if trusted else _StrictReader)(written, find).load()


def loaded_class(module: str, name: str) -> type | None:
    """Return a class by its qualified name, of a module that is imported already; None if there is none.

    No attribute is looked up by code: modules import others where they are asked for a name that they lack.
    """
    outer, *inner = name.split(".")
    found = getattr(sys.modules.get(module), "__dict__", {}).get(outer)
    for part in inner:
        found = vars(found).get(part) if isinstance(found, type) else None
    # The class of a class makes classes.
    return found if isinstance(found, type) and not issubclass(found, type) else None


def verify(written: bytes, find: Find) -> None:
    """Raise any exception if a pickle that was made here could not be read again, or as something else."""
    reader = _Reader(written, find)
    value = reader.load()
    if reader.replaced:
        # A function that took another's place cannot be written: the value held that other one, such as ``type``.
        pickle.dumps(value, protocol=5)


class _StandIn:
    """A function that does less than the one that pickles name. It is no value."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *given: Any) -> Any:
        return self._function(*given)

    def __reduce__(self) -> Any:
        raise pickle.PicklingError("a function that pickles call, or the class 'type', is no value")


class _Reader(pickle.Unpickler):
    def __init__(self, written: bytes, find: Find) -> None:
        super().__init__(io.BytesIO(written))
        self._find = find
        self.replaced = False

    def find_class(self, module: str, name: str) -> Any:
        found = _named(module, name, self._find)
        self.replaced = self.replaced or isinstance(found, _StandIn)
        return found


_load_build: Any = pickle._Unpickler.dispatch[pickle.BUILD[0]]


class _StrictReader(pickle._Unpickler):
    stack: list[Any]
    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)

    def __init__(self, written: bytes, find: Find) -> None:
        super().__init__(io.BytesIO(written))
        self._find = find

    def find_class(self, module: str, name: str) -> Any:
        return _named(module, name, self._find)

    def load_build(self) -> None:
        built = self.stack[-2]
        if isinstance(built, (type, Enum)) or any(built is one for one in SAFE.values()):
            raise pickle.UnpicklingError(f"{built!r} is not this pickle's own, and keeps its state")
        _load_build(self)

    dispatch[pickle.BUILD[0]] = load_build


def _named(module: str, name: str, find: Find) -> Any:
    key = f"{module}:{name}"
    return SAFE[key] if key in SAFE else find(module, name)


@_StandIn
def _type(value: Any) -> type:
    """Return the type of what pickles name by ``type``: None, ``...`` and ``NotImplemented``."""
    if any(value is one for one in (None, ..., NotImplemented)):
        return type(value)
    raise pickle.UnpicklingError(f"the type of {value!r} is no class that may be read")


@_StandIn
def _getattr(kind: Any, name: str) -> Any:
    """Return what pickles reach by ``getattr``: a member of an enumeration (Python 3.11.0 to 3.11.3 name it so), or
    how a time zone is read. ``UnpicklingError`` for anything else.
    """
    if isinstance(kind, EnumType) and name in kind.__members__:
        return kind[name]
    if kind is zoneinfo.ZoneInfo and name == "_unpickle":
        return getattr(kind, name)
    raise pickle.UnpicklingError(f"{name} of {kind!r} is no class")


@_StandIn
def _or(left: Any, right: Any) -> Any:
    return _types(left)[0] | _types(right)[0]


@_StandIn
def _reduce(function: Any, kinds: Any) -> Any:
    """Return ``int | None``, which pickles make by ``reduce(or_, (int, NoneType))``."""
    if function is not _or:
        raise pickle.UnpicklingError(f"reduce by {function!r} is no type")
    return functools.reduce(_or, kinds)


@_StandIn
def _getitem(kind: Any, given: Any) -> Any:
    """Return ``Optional[int]``, ``Literal["a"]`` or ``Box[int]``. ``UnpicklingError`` for what makes no such type."""
    if not any(kind is one for one in FORMS.values()) and not _is_generic(kind):
        raise pickle.UnpicklingError(f"{kind!r}[{given!r}] is no type")
    if kind is typing.Annotated and isinstance(given, tuple):
        _types(given[:1])
    elif kind is not typing.Literal:
        _types(given)
    return kind[given]


def _is_generic(kind: Any) -> bool:
    """Return whether ``kind[int]`` names a type and runs no code: a model of pydantic would make a class of it."""
    places = [one for one in kind.__mro__ if "__class_getitem__" in vars(one)] if isinstance(kind, type) else []
    return places[:1] == [typing.Generic] and not issubclass(kind, BaseModel)


@_StandIn
def _alias(origin: Any, given: Any) -> Any:
    """Return ``list[int]``."""
    return types.GenericAlias(_types(origin)[0], _types(given))


def _types(given: Any) -> tuple[Any, ...]:
    """Return the parameters of a type as a tuple. ``UnpicklingError`` for a text: it would be evaluated, some day."""
    found = given if isinstance(given, tuple) else (given,)
    if wrong := [one for one in found if isinstance(one, (str, bytes, list, typing.ForwardRef))]:
        raise pickle.UnpicklingError(f"{wrong[0]!r} is no type")
    return found


_FORMS = ("Annotated", "Dict", "List", "Literal", "Optional", "Tuple", "Union")
FORMS = {name: getattr(typing, name) for name in _FORMS}
"""What a pickle may put parameters to, besides the generic classes that it may name."""
_PLAIN = (set, frozenset, bytearray, complex, range, slice, object, bool, bytes, dict, float, int, list, str, tuple)
SAFE: Mapping[str, Any] = {
    **{f"{kind.__module__}:{kind.__qualname__}": kind for kind in _PLAIN},
    **{f"datetime:{name}": getattr(datetime, name) for name in ("date", "datetime", "time", "timedelta", "timezone")},
    **{
        f"collections:{name}": getattr(collections, name) for name in ("Counter", "OrderedDict", "defaultdict", "deque")
    },
    **{f"typing:{name}": form for name, form in FORMS.items()},
    **{f"{module}:reduce": _reduce for module in ("functools", "_functools")},
    **{f"{module}:or_": _or for module in ("operator", "_operator")},
    **{f"{module}:getitem": _getitem for module in ("operator", "_operator")},
    "builtins:getattr": _getattr,
    "builtins:type": _type,
    "copyreg:_reconstructor": _reconstructor,
    "decimal:Decimal": decimal.Decimal,
    "pathlib:PosixPath": pathlib.PosixPath,
    "pathlib:PurePosixPath": pathlib.PurePosixPath,
    "pydantic_core._pydantic_core:TzInfo": TzInfo,
    "types:GenericAlias": _alias,
    "types:UnionType": types.UnionType,
    "typing:Any": typing.Any,
    "uuid:UUID": uuid.UUID,
    "zoneinfo:ZoneInfo": zoneinfo.ZoneInfo,
}
"""What can be rebuilt without any code of an author, by the name that a pickle has for it."""
