"""The framework's objects as JSON and back: plain data as it is, everything else pickled, as its own storages do.

Only workers decode, and only classes that the workflow names or that its modules define. What could not be
read again is refused when it is written, before a person has answered anything.
"""

from __future__ import annotations

import base64
import hashlib
import io
import pickle
from collections.abc import Mapping
from enum import EnumType
from typing import Any
from zoneinfo import ZoneInfo

from checkpoints.errors import Damaged
from checkpoints.records import Json
from wfdash.values.errors import NotStorable

PICKLED = "$pickled"
"""The key of an object that holds a pickle, as base64 text."""
OURS = ("agent_framework", "agent_framework_orchestrations")
"""The framework's own packages: their classes are allowed."""
SAFE = frozenset(
    {
        *(f"builtins:{name}" for name in ("set", "frozenset", "bytearray", "complex", "range", "slice", "object")),
        *(f"builtins:{name}" for name in ("bool", "bytes", "dict", "float", "int", "list", "str", "tuple", "type")),
        *(f"datetime:{name}" for name in ("date", "datetime", "time", "timedelta", "timezone")),
        *(f"collections:{name}" for name in ("Counter", "OrderedDict", "defaultdict", "deque")),
        *("decimal:Decimal", "uuid:UUID", "copyreg:_reconstructor", "pathlib:PurePosixPath", "pathlib:PosixPath"),
        *("types:GenericAlias", "types:UnionType", "functools:reduce", "_functools:reduce"),
        *(f"{module}:{name}" for module in ("operator", "_operator") for name in ("or_", "getitem")),
        *(f"typing:{name}" for name in ("Annotated", "Any", "Dict", "List", "Literal", "Optional", "Tuple", "Union")),
        *("pydantic_core._pydantic_core:TzInfo", "zoneinfo:ZoneInfo"),
    }
)
"""What can be rebuilt without any code of an author."""


class NotReadable(NotStorable):
    """A value was pickled that no worker would read again: the message names its class and what to do."""


class PickleCodec:
    """Encodes and decodes the values of one workflow. ``allowed``: its classes as ``module:qualified name``."""

    def __init__(self, allowed: frozenset[str] = frozenset()) -> None:
        self._allowed = SAFE | allowed
        self._written: dict[bytes, Json] = {}

    def encode(self, value: Any, path: str = "value") -> Json:
        """Return a value as JSON. ``NotStorable`` if it cannot be pickled; ``NotReadable`` if not be read again.

        An equal pickle is the same object as before, so that a storage sees that nothing has changed.
        """
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and value - value == 0):
            return value
        if kind is list:
            return [self.encode(item, f"{path}[{index}]") for index, item in enumerate(value)]
        if kind is dict and PICKLED not in value and all(type(key) is str for key in value):
            return {key: self.encode(item, f"{path}.{key}") for key, item in value.items()}
        return self._pickled(value, path)

    def decode(self, data: Json) -> Any:
        """Return a value that was encoded. ``Damaged`` if it cannot be read, or names a class that is not allowed."""
        if isinstance(data, dict):
            if data.keys() == {PICKLED}:
                return self._unpickled(base64.b64decode(data[PICKLED]))
            return {key: self.decode(item) for key, item in data.items()}
        return [self.decode(item) for item in data] if isinstance(data, list) else data

    def _pickled(self, value: Any, path: str) -> Json:
        try:
            written = pickle.dumps(value, protocol=5)
        except Exception as error:
            kind = type(value).__name__
            raise NotStorable(f"{path}: {kind} cannot be kept in a checkpoint: {error}", path=path) from error
        digest = hashlib.sha256(written).digest()
        if digest not in self._written:
            try:
                self._unpickled(written)
            except Damaged as error:
                raise NotReadable(f"{path}: {error}", path=path) from error
            self._written[digest] = {PICKLED: base64.b64encode(written).decode()}
        return self._written[digest]

    def _unpickled(self, written: bytes) -> Any:
        try:
            return _Reader(written, self._allowed).load()
        except Exception as error:
            raise Damaged(f"a value cannot be read: {error}") from error


class _Reader(pickle.Unpickler):
    """Reads pickles that name allowed classes alone."""

    def __init__(self, written: bytes, allowed: frozenset[str]) -> None:
        super().__init__(io.BytesIO(written))
        self._known = allowed

    def find_class(self, module: str, name: str) -> Any:
        """Return a class that a pickle names. ``UnpicklingError`` for any other, and for what is no class."""
        key = f"{module}:{name}"
        if key == "builtins:getattr":
            return _getattr
        if key in SAFE:
            return super().find_class(module, name)
        ours = module.partition(".")[0] in OURS
        if ours or key in self._known:
            found = super().find_class(module, name)
            if not isinstance(found, type):
                raise pickle.UnpicklingError(f"{module}.{name} is no class")
            # A name leads through what a module has imported, to classes that start programs.
            if key in self._known or found.__module__.partition(".")[0] in OURS:
                return found
        raise pickle.UnpicklingError(
            f"{module}.{name} is no class that the workflow is known to use: define it in the module of the workflow, "
            "annotate a handler with it, or decorate it with agent_framework.register_checkpoint_type"
        )


def _getattr(kind: Any, name: str) -> Any:
    """Return what pickles reach by ``getattr``: a member of an enumeration (Python 3.11.0 to 3.11.3 name it so), or
    how a time zone is read. ``UnpicklingError`` for anything else.
    """
    if isinstance(kind, EnumType) and name in kind.__members__:
        return kind[name]
    if kind is ZoneInfo and name == "_unpickle":
        return getattr(kind, name)
    raise pickle.UnpicklingError(f"{name} of {kind!r} is no class")


def registered_types() -> frozenset[str]:
    """Return the classes that authors have registered with ``register_checkpoint_type``.

    The framework keeps them under a private name; where that is gone, those of the workflow's own modules remain.
    """
    try:
        from agent_framework._workflows import _checkpoint_encoding as theirs
    except ImportError:
        return frozenset()
    return frozenset(getattr(theirs, "_REGISTERED_CHECKPOINT_TYPE_KEYS", ()))


def key_of(kind: type) -> str:
    """Return how a pickle names a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def classes_in(namespace: Mapping[str, Any]) -> frozenset[str]:
    """Return the classes of a module that it defines itself, and those that these hold."""
    own = namespace.get("__name__")
    found = [value for value in namespace.values() if isinstance(value, type) and value.__module__ == own]
    return frozenset(key for kind in found for key in _with_inner(kind))


def _with_inner(kind: type) -> list[str]:
    inner = [one for one in vars(kind).values() if isinstance(one, type) and one.__module__ == kind.__module__]
    return [key_of(kind), *(key for one in inner if one is not kind for key in _with_inner(one))]
