"""What a saver does, as generators: they yield calls of the database and receive what those return.

One driver performs them in the caller's thread and one in an event loop: see ``DjangoSaver``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from checkpoints.content.encryption import encryptor_of
from checkpoints.database.alias import alias
from checkpoints.database.storage import open_database, unsupported
from checkpoints.errors import Conflict, Damaged, InvalidValue, raise_if_driver_failed
from checkpoints.langgraph.encoding import (
    LACKING,
    Heads,
    StoredChannel,
    StoredHead,
    encode,
    encode_writes,
    extent,
    load,
    typed_of,
)
from checkpoints.langgraph.reads import (
    ROOTS,
    Cursor,
    DeltaHistory,
    ReadCheckpoint,
    ThreadFilter,
    ThreadRow,
    first_group,
)
from checkpoints.langgraph.serializer import AllowedTypes
from checkpoints.langgraph.values import NAME, ThreadPlace, checked, metadata_of, place_of, thread_key
from checkpoints.langgraph.writes import (
    MOMENT,
    Company,
    PreparedPut,
    PreparedWrites,
    StoredPut,
    ThreadPruning,
    ThreadSurvey,
    WaitingWrites,
    tell,
)
from checkpoints.records import frozen
from checkpoints.sql.conninfo import parameters_of
from checkpoints.sql.durability import Durability, parse_durability
from checkpoints.sql.reads import Script
from checkpoints.sql.sqlite import BlockingSqlite, SqliteDatabase, write_lock
from checkpoints.sql.statements import POSTGRES, SQLITE, Statements
from checkpoints.sql.writes import BaseGone, Database

if TYPE_CHECKING:
    from checkpoints.sql.postgres import BlockingPostgres

# How a saver reaches its database: from any event loop, and from any thread without one.

T = TypeVar("T")
PruningVerb = Callable[[ThreadPruning], Script[T]]
"""What to run, of a dialect's scripts."""

WITHIN = (
    "a graph cannot be run inside of a transaction of its saver's database: each checkpoint is a commit of its own, "
    "which a rollback would not undo. Run it before or after, with @transaction.non_atomic_requests in a view, and in "
    "tests with TransactionTestCase"
)
caller: ContextVar[BaseDatabaseWrapper | None] = ContextVar("caller", default=None)
"""The connection of the thread that a graph was called in: graphs save in other threads, but with its context."""


class Access:
    """The database of a saver and of its clones, opened at first use."""

    def __init__(self, using: str | None) -> None:
        """``using`` names one of Django's databases, else it is wfdash's. ``Unsupported`` for other engines."""
        self.using = using or alias()
        connection = connections[self.using]
        if connection.vendor not in ("sqlite", "postgresql"):
            raise unsupported(connection)
        dialect = POSTGRES if connection.vendor == "postgresql" else SQLITE
        encryptor = encryptor_of(getattr(settings, "WFDASH_ENCRYPTION_KEYS", ""))
        self._scripts = ThreadPruning(dialect, Statements(dialect), encryptor)
        self._lock = Lock()
        self._database: Database | None = None
        self._blocking: BlockingSqlite | BlockingPostgres | None = None

    async def run(self, call: DatabaseCall) -> Any:
        """Return the result of a script, in this event loop: where it writes, in a transaction that others may share.

        ``Conflict`` for one that writes inside of a transaction.
        """
        with self._reporting(call):
            database = self._opened()
            if call.writes:
                make = partial(call.verb, self._scripts)
                return await database.write(make, sync=False, shared=True, writer=call.writer)
            return await database.read(partial(call.verb, self._scripts))

    def run_blocking(self, call: DatabaseCall) -> Any:
        """Return the result of a script, in this thread: where it writes, in a transaction of its own. ``Conflict``."""
        with self._reporting(call):
            blocking = self._opened_blocking()
            return (blocking.write if call.writes else blocking.read)(partial(call.verb, self._scripts))

    async def aclose(self) -> None:
        """End threads and connections. They are opened again when they are needed."""
        with self._lock:
            database, self._database = self._database, None
        self._close_blocking()
        if database is not None:
            await database.aclose()

    def close(self) -> None:
        """End threads and connections, without an event loop: those of a loop that still runs are its own to close."""
        with self._lock:
            database = self._database
            if isinstance(database, SqliteDatabase):
                database.close()
                self._database = None
        self._close_blocking()

    @contextlib.contextmanager
    def _reporting(self, call: DatabaseCall) -> Iterator[None]:
        """Return a context manager that raises ``StorageFailed`` for an error of the driver.

        It notes the connection of a caller that reads. ``Conflict`` for one that writes inside of a transaction.
        """
        if not call.writes:
            caller.set(connections[self.using])
        for connection in (connections[self.using], caller.get()) if call.writes else ():
            if connection is not None and connection.in_atomic_block and connection.alias == self.using:
                raise Conflict(WITHIN, database=self.using)
        try:
            yield
        except Exception as error:
            raise_if_driver_failed(error, f"database {self.using!r}")
            raise

    def _close_blocking(self) -> None:
        with self._lock:
            blocking, self._blocking = self._blocking, None
        if blocking is not None:
            blocking.close()

    def _opened(self) -> Database:
        with self._lock:
            if self._database is None:
                self._database = open_database(connections[self.using], self._scripts.encryptor)
            return self._database

    def _opened_blocking(self) -> BlockingSqlite | BlockingPostgres:
        with self._lock:
            if self._blocking is None:
                self._blocking = open_blocking(connections[self.using])
            return self._blocking


def open_blocking(connection: BaseDatabaseWrapper) -> BlockingSqlite | BlockingPostgres:
    """Return access to one of Django's databases for any thread."""
    full = parse_durability(getattr(settings, "WFDASH_DURABILITY", Durability.FULL)) is Durability.FULL
    if connection.vendor == "sqlite":
        return BlockingSqlite(str(connection.settings_dict["NAME"]), write_lock, synced=full)
    from checkpoints.sql.postgres import BlockingPostgres

    return BlockingPostgres(parameters_of(connection.settings_dict), flush=full)


@dataclass(frozen=True, slots=True)
class DatabaseCall:
    """A script to run; ``writes``: in a transaction. ``writer``: who writes one after the other."""

    verb: PruningVerb[Any]
    writes: bool = False
    writer: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for a result: for so many seconds (None: as long as it takes), and None if there is none by then."""

    result: Future[bool]
    seconds: float | None


Verb: TypeAlias = Generator[DatabaseCall | Wait, Any, T]

WRITTEN = frozenset({"null", "bytes", "bytearray", "msgpack"})
"""The kinds of values that LangGraph's serializer writes, without pickles."""
STRATEGIES = ("keep_latest", "delete")


@frozen
class ThreadPage:
    """What is left of a list. ``rows`` were found, but their values not yet read; ``left``: how many at most."""

    wanted: ThreadFilter
    left: int | None
    after: Cursor | None = None
    more: bool = True
    rows: Sequence[ThreadRow] = ()


class Verbs:
    """The verbs of a saver with this serializer."""

    def __init__(self, serde: SerializerProtocol, heads: Heads, company: Company) -> None:
        self._serde = serde
        # What another serializer writes is not known.
        self._apart = type(serde) in (AllowedTypes, JsonPlusSerializer)
        self._heads = heads
        self._company = company

    def get(self, config: RunnableConfig) -> Verb[CheckpointTuple | None]:
        """Return the checkpoint of a config."""
        place = place_of(config)
        found = yield DatabaseCall(lambda s: s.newest(place))
        if found is None:
            return None
        checkpoint = self.tuple_of(found)
        self._remember(place, found, checkpoint.checkpoint)
        return checkpoint

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, changed: ChannelVersions
    ) -> Verb[RunnableConfig]:
        """Store a checkpoint."""
        before = place_of(config)
        place = before._replace(checkpoint=checked("checkpoint id", str(checkpoint["id"]), NAME))
        known = metadata_of(get_serializable_checkpoint_metadata(config, metadata))
        coming = self._heads.coming[place[:2]] = Future()
        for head in (self._heads.get(place), None):
            try:
                encoded = encode(
                    checkpoint, changed, self._serde.dumps_typed, head, before.checkpoint, apart=self._apart
                )
                given = PreparedPut(place=place, parent=before.checkpoint, metadata=known, encoded=encoded, hint=head)
                stored = yield from self._store(given, (), self._company.take(place))
            except BaseGone:
                continue
            except BaseException:
                self._heads.forget(place)
                coming.set_result(False)
                raise
            break
        self._heads.put(
            place,
            StoredHead(
                **stored._asdict(),
                turn=encoded.turn,
                checkpoint=str(place.checkpoint),
                channels=encoded.channels,
                chunks=encoded.all_chunks,
            ),
        )
        coming.set_result(True)
        return config_of(config["configurable"]["thread_id"], place.ns, str(place.checkpoint))

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str) -> Verb[None]:
        """Store the writes of a task."""
        place = place_of(config, named=True)
        checked("task_id", task, NAME), checked("task_path", path)
        # By index: of several with the same one (such as two interrupts) the last is meant.
        by_index = {WRITES_IDX_MAP.get(channel, idx): (channel, value) for idx, (channel, value) in enumerate(writes)}
        typed = [
            (idx, checked("channel", channel), typed_of(self._serde.dumps_typed, channel, value))
            for idx, (channel, value) in by_index.items()
        ]
        if not typed:
            return
        # The first checkpoint of a thread is stored while its input is written, which has the same chunks.
        if (head := self._heads.get(place)) is None and (coming := self._heads.coming.get(place[:2])):
            yield Wait(coming, None)
            head = self._heads.get(place)
        given = PreparedWrites(place=place, task=task, path=path, encoded=encode_writes(typed, head), hint=head)
        # A question to people is followed by no checkpoint.
        waits = self._company.expected and any(idx >= 0 for idx, _, _ in typed)
        if not (waits and (yield from self._stored_in_company(given))):
            with self._company.without(given):
                try:
                    yield from self._store(None, [given], ())
                except BaseGone:
                    full = replace(given, encoded=encode_writes(typed, None), hint=None)
                    yield from self._store(None, [full], ())

    def _stored_in_company(self, given: PreparedWrites) -> Verb[bool]:
        """Wait for a checkpoint or other writes of the namespace, and return whether the writes were stored."""
        waiting = self._company.join(given)
        try:
            stored = yield Wait(waiting.stored, MOMENT)
        except BaseException:
            self._company.leave(waiting)
            raise
        if stored is not None:
            return bool(stored)
        others = self._company.lead(waiting)
        if others is None:
            return bool((yield Wait(waiting.stored, None)))
        try:
            yield from self._store(None, [given], others)
        except BaseGone:
            return False
        return True

    def _store(
        self, put: PreparedPut | None, writes: Sequence[PreparedWrites], company: Sequence[WaitingWrites]
    ) -> Verb[StoredPut]:
        """Store a checkpoint, writes and those that came along in one transaction. ``BaseGone``."""
        all_writes = [*writes, *(waiting.given for waiting in company)]
        writer = "\n".join((put or all_writes[0]).place[:2])
        try:
            stored: StoredPut = yield DatabaseCall(
                partial(ThreadPruning.store, put=put, writes=all_writes), writes=True, writer=writer
            )
        except BaseException:
            tell(company, stored=False)
            raise
        tell(company, stored=True)
        return stored

    def first_page(
        self,
        config: RunnableConfig | None,
        metadata: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> ThreadPage:
        """Return a list that has not begun."""
        wanted = ThreadFilter(metadata=metadata_of(metadata or {}))
        if config is not None:
            place, named = place_of(config), "checkpoint_ns" in config["configurable"]
            wanted = replace(wanted, thread=place.thread, ns=place.ns if named else None, checkpoint=place.checkpoint)
        if before is not None and (last := before["configurable"].get("checkpoint_id")):
            wanted = replace(wanted, before=checked("before", str(last), NAME))
        return ThreadPage(wanted=wanted, left=None if limit is None else max(limit, 0))

    def page(self, page: ThreadPage) -> Verb[tuple[list[ReadCheckpoint], ThreadPage | None]]:
        """Return the next checkpoints of a list, and what is left of it then; None after the last."""
        if page.left == 0:
            return [], None
        if not page.rows:
            rows, after = yield DatabaseCall(lambda s: s.page(page.wanted, page.after))
            page = replace(page, rows=rows[: page.left], after=after, more=after is not None)
        if not page.rows:
            return [], page if page.more else None
        group = first_group(page.rows)
        found = yield DatabaseCall(lambda s: s.group(group))
        left = None if page.left is None else page.left - len(found)
        rest = replace(page, rows=page.rows[len(group) :], left=left)
        return found, rest if rest.rows or rest.more else None

    def delete_thread(self, thread: str) -> Verb[None]:
        """Delete a thread."""
        yield from self._remove(thread_key(checked("thread_id", str(thread))), ThreadPruning.everything)

    def delete_for_runs(self, runs: Sequence[str]) -> Verb[None]:
        """Delete the checkpoints of runs."""
        named = [str(run) for run in listed("run_ids", runs)]
        if not named:
            return
        threads = yield DatabaseCall(lambda s: s.threads_of_runs(named))
        for key, name in threads:
            yield from self._remove(key, lambda s, *place, name=name: s.of_runs(named, name)(*place))

    def copy_thread(self, source: str, target: str) -> Verb[None]:
        """Copy a thread."""
        names = checked("source_thread_id", str(source)), checked("target_thread_id", str(target))
        yield DatabaseCall(lambda s: s.copy(*names), writes=True)

    def prune(self, threads: Sequence[str], strategy: str) -> Verb[None]:
        """Remove from threads what a strategy does not keep."""
        if strategy not in STRATEGIES:
            raise InvalidValue(f"strategy: {' or '.join(STRATEGIES)}, not {strategy!r}", field="strategy")
        choose = ThreadPruning.everything if strategy == "delete" else ThreadPruning.all_but_latest
        for thread in listed("thread_ids", threads):
            yield from self._remove(thread_key(checked("thread_id", str(thread))), choose)

    def delta_history(self, config: RunnableConfig, channels: Sequence[str]) -> Verb[Mapping[str, DeltaChannelHistory]]:
        """Return what the values of channels are made of."""
        place, names = place_of(config), [*dict.fromkeys(channels)]
        found: DeltaHistory | None = yield DatabaseCall(lambda s: s.history(place, names))
        history: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in names}
        if found is None:
            return history
        for name in names:
            history[name]["writes"] = [
                (write.task, write.channel, self._load(write.stored, found.chunks)) for write in found.writes_to(name)
            ]
            if name in found.seeds:
                history[name]["seed"] = self._load(found.seeds[name], found.chunks)
        return history

    def tuple_of(self, found: ReadCheckpoint) -> CheckpointTuple:
        """Return a checkpoint as LangGraph knows it."""
        row = found.row
        values = {name: self._load(stored, found.chunks) for name, stored in found.content["c"].items()}
        rest = self._load(found.content["h"], found.chunks)
        if not isinstance(rest, dict):
            raise Damaged(LACKING)
        return CheckpointTuple(
            config=config_of(row.name, row.ns, row.checkpoint),
            checkpoint={**rest, "channel_values": values},  # type: ignore[typeddict-item]
            metadata=found.metadata,  # type: ignore[arg-type]
            parent_config=config_of(row.name, row.ns, row.parent) if row.parent else None,
            pending_writes=[
                (write.task, write.channel, self._load(write.stored, found.chunks)) for write in found.writes
            ],
        )

    def _load(self, stored: list[Any], chunks: Mapping[str, bytes]) -> Any:
        """Return a value. ``Damaged`` for what its serializer cannot read, or has not written."""
        kind, data = load(stored, chunks)
        # LangGraph's serializer reads more than it writes: JSON that names classes, from years ago.
        if isinstance(self._serde, JsonPlusSerializer) and kind not in WRITTEN:
            raise Damaged(f"a stored value is of the kind {kind!r}, which this saver never writes")
        try:
            return self._serde.loads_typed((kind, data))
        except Exception as error:  # Whatever stored bytes break in a serializer, they are broken.
            raise Damaged(f"a stored value cannot be read: choose an older checkpoint ({error})") from error

    def _remove(self, key: str, choose: Any) -> Verb[None]:
        """Remove from a thread what ``choose`` says, and the chunks that no thread needs any more."""
        survey: ThreadSurvey | None = yield DatabaseCall(lambda s: s.survey(key, partial(choose, s)))
        if survey is None:
            return
        alone = survey.removal.everything and survey.relatives == [survey.thread]
        for thread in () if alone else survey.relatives:
            for table in ROOTS:
                after = -1
                while after:
                    mark = partial(ThreadPruning.mark, survey=survey, thread=thread, table=table, after=after)
                    after = yield DatabaseCall(mark)
        yield DatabaseCall(lambda s: s.sweep(survey, partial(choose, s)), writes=True)

    def _remember(self, place: ThreadPlace, found: ReadCheckpoint, checkpoint: Checkpoint) -> None:
        """Note what is stored of a checkpoint that was read, for the one that follows it."""
        row, versions, known = found.row, checkpoint.get("channel_versions") or {}, self._heads.get(place)
        if known is not None and (known.row, known.turn) == (row.row, row.turn):
            return
        channels = {
            name: StoredChannel(versions.get(name), stored, *extent(stored, found.chunks))
            for name, stored in found.content["c"].items()
        }
        head, *_ = extent(found.content["h"], found.chunks)
        self._heads.put(
            place,
            StoredHead(
                thread=row.thread,
                family=row.family,
                row=row.row,
                turn=row.turn,
                checkpoint=row.checkpoint,
                channels=channels,
                chunks=head.union(*(channel.chunks for channel in channels.values())),
            ),
        )


def config_of(thread: str, ns: str, checkpoint: str) -> RunnableConfig:
    """Return the config that names a checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint}}


def listed(field: str, given: Sequence[str]) -> Sequence[str]:
    """Return ids. ``InvalidValue`` for a single text, which is a sequence, too."""
    if isinstance(given, str):
        raise InvalidValue(f"{field}: give a list of ids, not one text", field=field)
    return given
