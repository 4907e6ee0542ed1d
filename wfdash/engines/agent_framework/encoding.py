"""The framework's objects as JSON and back: plain data as it is, everything else pickled, as its own storages do.

Only workers decode, only what a worker of this installation has signed, and only classes that the workflow names or
that its modules define. What could not be read again is refused when it is written, before a person has answered.

What is not signed is refused, however it came there: who may write a row of the database would only have to leave the
signature out. So whether it is read is no matter of the row, its age or its content, but of a setting.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import pickle
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from checkpoints.content import pickles
from checkpoints.content.encryption import Locked
from checkpoints.content.pickles import Keyring
from checkpoints.errors import Damaged
from checkpoints.records import Json
from wfdash.engines.agent_framework.definitions import is_own
from wfdash.values.codec import is_large
from wfdash.values.errors import NotStorable
from wfdash.workflow.errors import StepTimeout
from wfdash.workflow.runtime.step_run import CONVERT_SECONDS

T = TypeVar("T")

PICKLED = "$pickled"
"""The key of an object that holds a pickle: ``<key>:<signature>:<base64>``."""
REFUSED = (
    "a pickled value of this checkpoint {flaw}: no worker with the secret key of this installation wrote it. If that "
    "key was lost, or this is a copy under another one, set WFDASH_SECRET_KEY_FALLBACKS to the former key, or "
    "WFDASH_UNSIGNED_PICKLES=1 if no one else can write to the database; then retry the run. Otherwise restore the "
    "row from a backup"
)


class NotSigned(Locked):
    """A pickled value was not written by this installation, as far as its keys can tell: the message has the remedy."""


class Signing:
    """What signs pickles in this process, and whether others are read."""

    def __init__(self) -> None:
        self.use([secrets.token_urlsafe(50)])

    def use(self, keys: Sequence[str], *, unsigned: bool = False) -> None:
        """Sign with the first of these secrets, read what any has signed; what none has only if ``unsigned``."""
        self.keys, self.unsigned = Keyring(keys, "pickle"), unsigned


signing = Signing()
"""This process's. Until it has the secret key of an installation, it reads its own pickles alone."""


async def aside(value: Any, convert: Callable[[], T]) -> T:
    """Convert a value: in a thread if it is large, so that nothing else has to wait. ``StepTimeout`` if that takes too
    long: the thread continues, and what it makes counts no more.
    """
    if not is_large(value):
        return convert()
    try:
        async with asyncio.timeout(CONVERT_SECONDS):
            return await asyncio.to_thread(convert)
    except TimeoutError as error:
        words = f"What the framework keeps of this run took longer than {CONVERT_SECONDS:g} s to read or to store"
        raise StepTimeout(f"{words}: keep large values elsewhere, and their address in the run") from error


class NotReadable(NotStorable):
    """A value was pickled that no worker would read again: the message names its class and what to do."""


class PickleCodec:
    """Encodes and decodes the values of one workflow. ``allowed``: its classes as ``module:qualified name``."""

    def __init__(self, allowed: frozenset[str] = frozenset()) -> None:
        self._allowed = allowed
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
        """Return a value that was encoded. ``Damaged`` if it cannot be read, or names a class that is not allowed;
        ``NotSigned``.
        """
        if isinstance(data, dict):
            if data.keys() == {PICKLED}:
                return self._opened(data[PICKLED])
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
                pickles.verify(written, self._find)
            except Exception as error:
                raise NotReadable(f"{path}: a value cannot be read: {error}", path=path) from error
            text = base64.b64encode(written).decode()
            self._written[digest] = {PICKLED: f"{signing.keys.sign(text)}:{text}"}
        return self._written[digest]

    def _opened(self, held: Json) -> Any:
        signature, _, text = str(held).rpartition(":")
        flaw = signing.keys.flaw(signature, text)
        if flaw and not signing.unsigned:
            raise NotSigned(REFUSED.format(flaw=flaw))
        try:
            return pickles.read(base64.b64decode(text, validate=True), self._find, trusted=not flaw)
        except Exception as error:
            raise Damaged(f"a value cannot be read: {error}") from error

    def _find(self, module: str, name: str) -> type:
        """Return a class that a pickle names. ``UnpicklingError`` for any other, and for what is no class."""
        found = pickles.loaded_class(module, name)
        own = is_own(module)  # The framework's classes are allowed.
        if found is None and (own or f"{module}:{name}" in self._allowed):
            raise pickle.UnpicklingError(f"{module}.{name} is no class of a module that is loaded")
        # A name of the framework leads to what its modules have imported: classes that start programs.
        if found and (f"{module}:{name}" in self._allowed or (own and is_own(found.__module__))):
            return found
        raise pickle.UnpicklingError(
            f"{module}.{name} is no class that the workflow is known to use: define it in the module of the workflow, "
            "annotate a handler with it, or decorate it with agent_framework.register_checkpoint_type"
        )


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
