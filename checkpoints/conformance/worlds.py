"""What the checks need besides the ports: people who answer, operators who cancel, and bytes that rot.

The ports say nothing of people, so to check the journal or the claims one provides a world around
the storage. For the base checks ``World(storage)`` will do.
"""

from __future__ import annotations

import asyncio
import inspect
import reprlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId, new_checkpoint_id, new_run_id
from checkpoints.records import Checkpoint, Claim, Commit, Json, Phase, Request, Standing
from checkpoints.storage import CheckpointStorage

T = TypeVar("T")

BIG: dict[str, Any] = {
    "state": {
        "log": [{"i": i, "text": f"entry {i} " * 5} for i in range(400)],
        "text": "ünïcode and\nnewlines, " * 500,
        "deep": {"a": {"b": {"c": ["x" * 3000, {"d": None}]}}},
        "small": 1,
        "z": 0.1,
        "a": 2**80,
        "nul": "\x00",
    },
    "position": {},
}
"""A body of some 60 KB with everything in it that is hard to keep."""

MANY = 10_000
"""More runs than are due in any storage under test."""


def checkpoint(run: RunId, n: int = 1, **changes: Any) -> Checkpoint:
    """Return a small checkpoint."""
    plain: dict[str, Any] = {
        "id": new_checkpoint_id(),
        "run": run,
        "workflow": WorkflowId("expense"),
        "n": n,
        "version": "v1",
        "created": datetime.now(UTC),
        "body": {"state": {"n": n}, "position": {"at": [1, 2.5, None, True]}},
    }
    return Checkpoint(**{**plain, **changes})


def question(key: str = "k", **changes: Any) -> Request:
    """Return a small request."""
    plain: dict[str, Any] = {"key": RequestKey(key), "step": "review", "card": {"subject": key}}
    return Request(**{**plain, **changes})


def started(run: RunId) -> Commit:
    """Return the commit that makes a run known, and leaves it to workers."""
    return Commit(run=run, events=(EventKind.RUN_QUEUED.draft(),), standing=Standing(phase=Phase.READY))


def asking(run: RunId, *keys: str, n: int = 1, phase: Phase = Phase.WAITING) -> Commit:
    """Return a commit that opens requests and parks the run."""
    requests = tuple(question(key) for key in keys)
    events = tuple(EventKind.REQUEST_OPENED.draft("review", key=key) for key in keys)
    parked = checkpoint(run, n, requests=requests)
    return Commit(run=run, checkpoint=parked, events=events, opened=requests, standing=Standing(phase=phase))


async def commit(world: Any, run: RunId, *, claim: Claim | None = None, **made: Any) -> int:
    """Commit this of a run and return its last event's seq."""
    seq: int = await world.storage.commit(Commit(run=run, **made), claim=claim)
    return seq


async def begun(world: Any) -> RunId:
    """Return a run that is known and ready."""
    run = new_run_id()
    await world.storage.commit(started(run))
    return run


async def claimed(world: Any, run: RunId, *, ttl: float = 30.0) -> Claim:
    """Return a claim on a run that is due."""
    claim: Claim | None = await world.storage.claim(run, worker="test", ttl=ttl)
    assert claim is not None, "a due run could not be claimed"
    return claim


async def is_due(world: Any, run: RunId) -> bool:
    """Say whether the run should be driven now."""
    return run in await world.storage.due(limit=MANY)


async def until(condition: Callable[[], Awaitable[T]], *, seconds: float = 5.0) -> T:
    """Return the first true outcome of a condition that is asked again and again."""
    async with asyncio.timeout(seconds):
        while True:
            if outcome := await condition():
                return outcome
            await asyncio.sleep(0.005)


@contextmanager
def refused(kind: type[Exception], *values: Any, saying: str = "") -> Iterator[list[Any]]:
    """Expect that the block raises ``kind`` with these words in its message; the list holds it afterwards. ``values``
    are what is given to the storage, to be shown where it takes them.
    """
    message, caught = None, list[Any]()
    try:
        yield caught
    except kind as error:
        message = str(error)
        caught.append(error)
    given = "".join(f" for {shown(value)}" for value in values)
    assert message is not None, f"expected {kind.__name__}{given}, but nothing was raised"
    assert saying in message, f"the message{given} lacks {saying!r}: {message}"


def shown(value: Any) -> str:
    """Return a value as a message has it, however large or deep it is."""
    try:
        return reprlib.repr(value)
    except ValueError:
        return f"{type(value).__name__} of many digits"


def checks_in(names: dict[str, Any], *others: object) -> tuple[Callable[[Any], Awaitable[None]], ...]:
    """Return the checks of a module but for these others, in order: its own async functions of one ``world``."""
    found = (value for value in names.values() if inspect.iscoroutinefunction(value) and value not in others)
    mine = (value for value in found if value.__module__ == names["__name__"] and not value.__name__.startswith("_"))
    return tuple(value for value in mine if list(inspect.signature(value).parameters) == ["world"])


class World:
    """A storage and nothing else: enough for ``STORAGE``."""

    def __init__(self, storage: CheckpointStorage) -> None:
        self.storage = storage


class StorageWorld(Protocol):
    """What ``STORAGE`` needs."""

    storage: Any
    """A ``CheckpointStorage``."""


class JournalWorld(StorageWorld, Protocol):
    """What ``JOURNAL`` and ``CLAIMS`` need. The storage is a ``Journal`` too, and for the latter ``Claims``."""

    async def answer(self, run: RunId, key: str, value: Json) -> None:
        """Answer a pending request as the person ``rosa``; what is parked becomes ready."""

    async def cancel(self, run: RunId) -> None:
        """End the run as an operator does: its claim ends with it."""

    async def phase(self, run: RunId) -> Phase:
        """Return what the run needs next."""

    async def closed_as(self, run: RunId, key: str) -> list[str]:
        """Return what became of the requests of that key, oldest first: ``taken``, ``withdrawn``, or open: empty."""

    async def request_ids(self, run: RunId) -> list[str]:
        """Return the ids of the run's requests, oldest first."""

    async def effects(self, run: RunId) -> list[tuple[str, str, Json]]:
        """Return key, state and result of each recorded call, oldest first."""


class DamageWorld(StorageWorld, Protocol):
    """What ``DAMAGE`` needs."""

    async def damage(self, run: RunId, checkpoint: CheckpointId) -> None:
        """Change one byte of its stored content."""


class FailingWorld(StorageWorld, Protocol):
    """What ``FAILURES`` needs."""

    def failing(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager within which the database can neither read nor write checkpoints."""


class ChunkWorld(StorageWorld, Protocol):
    """What ``CHUNKS`` needs: a storage whose runs share content."""

    async def damage_chunk(self, run: RunId) -> None:
        """Change the bytes of one of the run's chunks."""

    async def lose_chunk(self, run: RunId) -> None:
        """Remove one of the run's chunks."""

    async def chunks(self, run: RunId) -> int:
        """Count the chunks of the family whose first run this is."""
