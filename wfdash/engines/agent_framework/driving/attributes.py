"""What executors keep in plain attributes: the framework saves what their hooks give, and those that have none lose it.

Between a question and its answer there is another copy of the workflow, often in another process. So executors without
hooks get some: what has changed since the copy was made is part of the checkpoint, and is put back.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from checkpoints.errors import Damaged
from wfdash.engines.agent_framework.definition.definitions import executors_of, nested
from wfdash.engines.agent_framework.library import is_of, is_own
from wfdash.engines.agent_framework.stored.encoding import PickleCodec
from wfdash.engines.agent_framework.stored.framework_checkpoint import ATTRIBUTES
from wfdash.values.errors import NotStorable

LIVE = ("RawAgent", "BaseAgent", "BaseChatClient", "Executor", "Workflow", "WorkflowContext")
"""Classes of the framework whose objects belong to a copy of the workflow, or to the process."""
MOST = 1_000_000
"""Bytes of an attribute that is kept."""
HOOKS = ("on_checkpoint_save", "on_checkpoint_restore")
LOST = (
    "The attribute {name} changed, and is lost when the run waits or is taken over: {reason}. Keep plain data or a "
    "class of the workflow's module in it, or save it in on_checkpoint_save"
)


def keep_attributes(workflow: Any, codec: PickleCodec, warn: Callable[[str, str], object]) -> None:
    """Let a graph's checkpoints hold the attributes of executors that save nothing themselves, at any depth.

    ``warn`` gets an executor, and what of it cannot be kept, each once.
    """
    for executor in _plain(workflow):
        kept = Attributes(executor, codec, warn)
        executor.on_checkpoint_save, executor.on_checkpoint_restore = kept.save, kept.restore


def _plain(workflow: Any) -> Iterator[Any]:
    """Yield the executors of authors' classes without hooks of their own."""
    from agent_framework import Executor

    for executor in executors_of(workflow).values():
        hook = getattr(executor.on_checkpoint_save, "__func__", None)
        if hook is Executor.on_checkpoint_save and not is_own(type(executor).__module__):
            yield executor
    for _, inner in nested(workflow):
        yield from _plain(inner)


class Attributes:
    """The attributes of one executor, as they were and as they are."""

    def __init__(self, executor: Any, codec: PickleCodec, warn: Callable[[str, str], object]) -> None:
        self._executor, self._codec, self._warn = executor, codec, warn
        self._own = names_of_the_framework()
        self._warned = set[str]()
        self._fresh = {name: (value, mark(value)) for name, value in self._all()}

    def _all(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in vars(self._executor).items() if name not in self._own]

    async def save(self) -> dict[str, Any]:
        """Return what has changed, if it can be kept: a pickle as a whole, so that it is signed."""
        kept = []
        for name, value in self._all():
            before, seen = self._fresh.get(name, (self, b""))
            now = mark(value)
            if now == seen and (now is not None or before is value):
                continue
            try:
                if now is None:
                    raise NotStorable(f"{type(value).__name__} cannot be copied, or has more than {MOST:,} bytes")
                self._codec.encode((value,), name)
                kept.append((name, value))
            except NotStorable as error:
                self._lose(name, str(error))
        return {ATTRIBUTES: tuple(kept)} if kept else {}

    async def restore(self, state: dict[str, Any]) -> None:
        """Put back what has changed. ``Damaged`` for what was not kept as a whole, and so not signed."""
        kept = state.get(ATTRIBUTES, ())
        if not isinstance(kept, tuple):
            raise Damaged("the attributes of an executor are none of this installation: restore an older checkpoint")
        for name, value in kept:
            setattr(self._executor, name, value)

    def _lose(self, name: str, reason: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            self._warn(self._executor.id, LOST.format(name=name, reason=reason))


@functools.cache
def names_of_the_framework() -> frozenset[str]:
    """Return the attributes that every executor has, by the framework's own."""
    from agent_framework import Executor

    class Bare(Executor):
        pass

    own = vars(Bare(id="bare", defer_discovery=True))
    return frozenset({*own, *HOOKS, "_response_handlers", "_response_handler_specs", "is_request_response_capable"})


def mark(value: Any) -> bytes | None:
    """Return what differs if a value differs; None for what cannot be pickled, is too large, or is no plain data."""
    sink = _Sink()
    try:
        _Marking(sink, protocol=5).dump(value)
    except Exception:
        return None
    return sink.hash.digest()


class _Marking(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if is_of(obj, *LIVE):
            raise TypeError("it belongs to the process")
        return NotImplemented


class _Sink:
    def __init__(self) -> None:
        self.hash, self._size = hashlib.sha256(), 0

    def write(self, data: Any) -> int:
        self._size += len(data)
        if self._size > MOST:
            raise ValueError("too large")
        self.hash.update(data)
        return len(data)
