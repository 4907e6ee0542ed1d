"""Checkpoints of Microsoft Agent Framework in a storage of this package, in any application: no dashboard is needed.

Needs ``pip install "wfdash[agent-framework]"``.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import pickle
import random
from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime
from hashlib import sha256
from importlib import import_module
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote
from weakref import WeakKeyDictionary

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

from checkpoints import storage as ports
from checkpoints.content import pickles
from checkpoints.errors import CheckpointsError, Conflict, NotFound
from checkpoints.ids import CheckpointId, RunId, WorkflowId
from checkpoints.limits import ID, NAME, cleaned, is_holdable, is_storable
from checkpoints.records import Checkpoint, CheckpointInfo, Commit, Json, JsonObject, Phase, Reason, Standing

__all__ = ["CheckpointStorage"]


# ``CheckpointStorage`` of Microsoft Agent Framework over a storage of ours: their methods, their errors, their types.

log = logging.getLogger(__name__)

ENGINE = "agent-framework-storage"
"""No engine: nothing of ours runs what is stored here."""
VERSION_CHARACTERS = 64
MOST_ATTEMPTS = 100
"""Attempts to save while others save under the same name."""
WAIT = 0.05
"""Seconds between two of them, at most."""
PAGE = 500
"""Checkpoints that are listed at once."""
OLDEST = datetime.min.replace(tzinfo=UTC)


class Storage(ports.CheckpointStorage, ports.FindsRuns, Protocol):
    """What is needed of a storage: those of this package have it, and a ``CheckpointManager`` over one."""


class Newest(NamedTuple):
    """A checkpoint's id, and when it was made, as the framework says both."""

    id: str
    at: str


class CheckpointStorage:
    """Stores checkpoints of Agent Framework's workflows: pass it wherever the framework takes a checkpoint storage.

    For any event loop, and any number of processes over the same database.
    """

    def __init__(
        self, storage: Storage, *, scope: str = "", allowed_checkpoint_types: Collection[str] | None = None
    ) -> None:
        """``scope``: a tenant's or a conversation's own checkpoints, which no other scope of the storage sees.

        ``allowed_checkpoint_types``: classes of yours that may be decoded, as ``module:qualname``, beside those that
        the framework allows; as for its ``FileCheckpointStorage``.
        """
        if not isinstance(storage, ports.FindsRuns):
            raise TypeError(
                f"{type(storage).__name__} has no run_of(): give a storage of wfdash, or a manager over one"
            )
        self.storage = storage
        self.scope = scope
        self._allowed = frozenset(allowed_checkpoint_types or ())
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[RunId, asyncio.Lock]] = WeakKeyDictionary()

    def run_of_workflow(self, workflow_name: str) -> RunId:
        """Return the run that has a workflow's checkpoints: for ``prune``, and to delete all of them."""
        return run_of_workflow(self.scope, workflow_name)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint durably, in place of one with its id, and return the id.

        ``WorkflowCheckpointException`` if it cannot be encoded, or not be decoded again with the types allowed.
        """
        run = self.run_of_workflow(checkpoint.workflow_name)
        try:
            body = encode(checkpoint, self._allowed)
            async with self._turn(run):
                await self._append(run, checkpoint, body)
        except Exception as error:
            text = f"Checkpoint {checkpoint.checkpoint_id} cannot be stored: {type(error).__name__}: {error}"
            raise WorkflowCheckpointException(text) from error
        return checkpoint.checkpoint_id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return a checkpoint. ``WorkflowCheckpointException`` if there is none, or it cannot be read or decoded."""
        id_ = stored_id(self.scope, checkpoint_id)
        run = await self.storage.run_of(id_)
        if run is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        try:
            return decode((await self.storage.load(run, id_)).body, self._allowed)
        except NotFound:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}") from None
        except CheckpointsError as error:
            raise WorkflowCheckpointException(f"Checkpoint {checkpoint_id} cannot be read: {error}") from error

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return a workflow's checkpoints, oldest first; one that cannot be read is logged and left out."""
        found = []
        for id_ in await self.list_checkpoint_ids(workflow_name=workflow_name):
            try:
                found.append(await self.load(id_))
            except WorkflowCheckpointException as error:
                log.warning("%s", error)
        return found

    async def delete(self, checkpoint_id: str) -> bool:
        """Delete a checkpoint; False if there is none."""
        id_ = stored_id(self.scope, checkpoint_id)
        run = await self.storage.run_of(id_)
        return run is not None and await self.storage.delete(run, id_)

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return the checkpoint of a workflow with the latest timestamp, None if it has none.

        ``WorkflowCheckpointException`` if that one cannot be read: it never falls back to an older one.
        """
        run = self.run_of_workflow(workflow_name)
        while (head := await self._head(run)) is not None:
            newest = newest_at(head)
            if await self.storage.run_of(stored_id(self.scope, newest.id)) != run:
                newest = await self._newest_of_all(run, newest_of(head))
            try:
                return await self.load(newest.id)
            except WorkflowCheckpointException:
                # Deleted since: look again.
                if await self.storage.run_of(stored_id(self.scope, newest.id)) is not None:
                    raise
        return None

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of a workflow's checkpoints, oldest first. Reads no content."""
        infos = [info async for info in self._infos(self.run_of_workflow(workflow_name))]
        return [newest_of(info).id for info in reversed(infos)]

    def _turn(self, run: RunId) -> asyncio.Lock:
        """Return the lock of a name: saves of one event loop wait for each other instead of meeting in the database."""
        return self._turns.setdefault(asyncio.get_running_loop(), {}).setdefault(run, asyncio.Lock())

    async def _append(self, run: RunId, given: WorkflowCheckpoint, body: JsonObject) -> None:
        for attempt in range(MOST_ATTEMPTS):
            stored = as_stored(given, body, run, self.scope, await self._head(run))
            try:
                await self._write(stored)
            except Conflict:
                if attempt == MOST_ATTEMPTS - 1:
                    raise
                owner = await self.storage.run_of(stored.id)
                if owner is not None:
                    await self.storage.delete(owner, stored.id)
                else:
                    await asyncio.sleep(random.uniform(0, WAIT))  # noqa: S311
            else:
                return

    async def _write(self, checkpoint: Checkpoint) -> None:
        # Where the run is new it is left waiting, for nothing: a worker of the same database has nothing to do with it.
        if checkpoint.n == 1 and isinstance(self.storage, ports.Journal):
            standing = Standing(phase=Phase.WAITING)
            await self.storage.commit(Commit(run=checkpoint.run, checkpoint=checkpoint, standing=standing))
        else:
            await self.storage.save(checkpoint)

    async def _head(self, run: RunId) -> CheckpointInfo | None:
        infos = await self.storage.list_checkpoints(run, limit=1)
        return infos[0] if infos else None

    async def _newest_of_all(self, run: RunId, found: Newest) -> Newest:
        async for info in self._infos(run):
            found = later(found, newest_of(info))
        return found

    async def _infos(self, run: RunId) -> AsyncIterator[CheckpointInfo]:
        """Yield a run's checkpoints, newest first."""
        before: int | None = None
        while page := await self.storage.list_checkpoints(run, before=before, limit=PAGE):
            for info in page:
                yield info
            before = page[-1].n


def as_stored(
    given: WorkflowCheckpoint, body: JsonObject, run: RunId, scope: str, head: CheckpointInfo | None
) -> Checkpoint:
    """Return a checkpoint of the framework as the one that follows ``head``."""
    own = Newest(given.checkpoint_id, given.timestamp)
    newest = own if head is None else later(own, newest_at(head))
    facts = {"id": plain(own.id), "at": own.at, "pending": len(given.pending_request_info_events)}
    before = given.previous_checkpoint_id
    return Checkpoint(
        id=stored_id(scope, given.checkpoint_id),
        run=run,
        workflow=workflow_id(given.workflow_name),
        n=1 if head is None else head.n + 1,
        parent=None if before is None else stored_id(scope, before),
        version=given.graph_signature_hash[:VERSION_CHARACTERS],
        engine=ENGINE,
        # Never as a pause, which a policy may keep forever: that people were asked here is in the facts.
        reason=Reason.STEP,
        created=moment(given.timestamp),
        facts=facts if newest == own else facts | {"newest": [plain(newest.id), newest.at]},
        body=body,
    )


def newest_of(info: CheckpointInfo) -> Newest:
    """Return a checkpoint itself."""
    return Newest(from_plain(info.facts.get("id")), str(info.facts.get("at")))


def newest_at(info: CheckpointInfo) -> Newest:
    """Return the newest of all that were stored until this one."""
    if "newest" not in info.facts:
        return newest_of(info)
    id_, at = info.facts["newest"]
    return Newest(from_plain(id_), str(at))


def later(one: Newest, other: Newest) -> Newest:
    """Return the later of two; the first if they are of one time."""
    return other if moment(other.at) > moment(one.at) else one


def moment(timestamp: str) -> datetime:
    """Return a timestamp of the framework; one without a zone is UTC, one that is none the oldest of all."""
    try:
        at = datetime.fromisoformat(timestamp)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return OLDEST


# Where a checkpoint of Agent Framework lies in a storage: its run and its id there, by scope, name and id. Pure.

HASHED = "%:"
"""Begins what is too long, or holds what cannot be stored: quoted text never begins so."""
READABLE = " !#$&'()*+,/:;=?@[]|"
"""Characters that stay as they are in ``plain``, beside letters, digits and ``-._~``."""


def run_of_workflow(scope: str, workflow: str) -> RunId:
    """Return the run that has the checkpoints of a workflow in a scope."""
    return RunId(_stored(f"{_quoted(scope)}:{_quoted(workflow)}"))


def stored_id(scope: str, checkpoint: str) -> CheckpointId:
    """Return the id that a checkpoint has in the storage."""
    return CheckpointId(_stored(f"{_quoted(scope)}:{checkpoint}"))


def workflow_id(name: str) -> WorkflowId:
    """Return a workflow's name as lists show it: itself, if it can be stored."""
    if name.strip() and len(name) <= NAME and is_storable(name):
        return WorkflowId(name)
    return WorkflowId(f"{cleaned(name)[:100]}-{_hash(name)[:16]}")


def plain(text: str) -> str:
    """Return text in a form that every document can hold; an id of the framework's own stays the same."""
    return quote(text, safe=READABLE, errors="surrogatepass")


def from_plain(text: object) -> str:
    """Return what ``plain`` was given."""
    return unquote(str(text), errors="surrogatepass")


def _stored(text: str) -> str:
    return text if len(text) <= ID and is_storable(text) else HASHED + _hash(text)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# A checkpoint of Agent Framework as the body of one of ours and back, in the framework's own encoding.

PICKLED, TYPE = "__pickled__", "__type__"
"""The framework's keys of what is pickled."""
NATIVE = (str, int, float, bool, type(None))
OURS = ("agent_framework.", "agent_framework_orchestrations.", "openai.types.")
"""Packages whose classes the framework allows."""


def encode(checkpoint: WorkflowCheckpoint, allowed: frozenset[str]) -> JsonObject:
    """Return the body. Any exception for what cannot be encoded, or not be decoded again."""
    fields = encoded(checkpoint.to_dict(), _finder(allowed))
    # Two levels: a value that has not changed is not stored again.
    return {"state": fields.pop("state"), "position": fields}


def decode(body: JsonObject, allowed: frozenset[str]) -> WorkflowCheckpoint:
    """Return the checkpoint. ``WorkflowCheckpointException`` for a type that is not allowed, or if it is no body."""
    try:
        fields = {**body["position"], "state": body["state"]}
    except (KeyError, TypeError) as error:
        raise WorkflowCheckpointException("This is no checkpoint of Agent Framework") from error
    try:
        found = _decoded(fields, _finder(allowed))
    except Exception as error:
        raise WorkflowCheckpointException(f"Failed to decode pickled checkpoint data: {error}") from error
    return WorkflowCheckpoint.from_dict(found)


def _decoded(value: Json, find: pickles.Find) -> Any:
    if isinstance(value, dict) and PICKLED in value and TYPE in value:
        return pickles.read(base64.b64decode(value[PICKLED], validate=True), find, trusted=False)
    if isinstance(value, dict):
        return {name: _decoded(one, find) for name, one in value.items()}
    return [_decoded(one, find) for one in value] if isinstance(value, list) else value


def _finder(allowed: frozenset[str]) -> pickles.Find:
    """Return what finds the classes that the framework allows: its own, those of OpenAI's library, registered ones."""
    known = allowed | registered_types()

    def find(module: str, name: str) -> type:
        if f"{module}:{name}" in allowed:
            # The application has named it: that may import it.
            import_module(module)
        found = pickles.loaded_class(module, name)
        inside = [one.startswith(OURS) for one in (f"{module}.", f"{getattr(found, '__module__', '')}.")]
        if found and (f"{module}:{name}" in known or all(inside)):
            return found
        raise pickle.UnpicklingError(
            f"{module}:{name} is no class that may be decoded: name it in allowed_checkpoint_types, or decorate it "
            "with agent_framework.register_checkpoint_type; a class of the framework must be imported before"
        )

    return find


def registered_types() -> frozenset[str]:
    """Return the classes that authors have registered with ``register_checkpoint_type``.

    The framework keeps them under a private name; where that is gone, none is known.
    """
    try:
        from agent_framework._workflows import _checkpoint_encoding as theirs
    except ImportError:
        return frozenset()
    return frozenset(getattr(theirs, "_REGISTERED_CHECKPOINT_TYPE_KEYS", ()))


def encoded(value: Any, find: pickles.Find) -> Json:
    """Return a value as the framework's own storages write it: JSON as it is, anything else as a pickle.

    Pickled as well is what they lose: dicts with keys that are no texts, and what strict JSON lacks (NaN, infinity,
    half characters). Any exception for a pickle that could not be read again with the classes that ``find`` gives.
    """
    if isinstance(value, NATIVE):
        if is_holdable(value) if isinstance(value, str) else value == value and value not in (math.inf, -math.inf):
            return value
    elif type(value) is list:
        return [encoded(one, find) for one in value]
    elif (
        type(value) is dict
        and not {PICKLED, TYPE} & value.keys()
        and all(isinstance(name, str) and is_holdable(name) for name in value)
    ):
        # Of an enumeration's member as a key its text is kept, which equals it.
        return {str.__str__(name): encoded(one, find) for name, one in value.items()}
    written = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    pickles.verify(written, find)
    data = base64.b64encode(written).decode("ascii")
    return {PICKLED: data, TYPE: f"{type(value).__module__}:{type(value).__qualname__}"}
