"""Recorders over anything a caller may give as ``storage=``, and the claim that one of them holds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Protocol, TypeAlias
from weakref import WeakValueDictionary

from checkpoints import claims as run_claims
from checkpoints.claims import RENEW_SECONDS, TTL, ClaimRenewer
from checkpoints.errors import CheckpointsError, ClaimLost
from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RequestKey, RunId
from checkpoints.recorder import BoundRecorder, TakeTurn, take_turn_here, utc_now
from checkpoints.records import Answer, Checkpoint, Claim, Commit, EventDraft, JsonObject
from checkpoints.storage import Claims, Confirming, Journal, Recorder, claims_of, missing_names
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.runtime.invoke import still_running, when_ended

log = logging.getLogger(__name__)
MOST_PIECES = 256
"""Pieces of streamed text that may be unread before they are joined."""
MOST_TEXT = 1_000_000
"""Characters of streamed text that may be unread."""
LEFT_SECONDS = 0.1
"""Between two looks whether functions that were left behind have ended, where no thread renews their claim."""


class SavesCheckpoints(Protocol):
    """A storage or a manager: keeps checkpoints."""

    async def save(self, checkpoint: Checkpoint) -> Any:
        """Store it durably."""


StorageLike: TypeAlias = Recorder | Journal | SavesCheckpoints | None
"""What ``storage=`` takes. None: the application keeps ``outcome.checkpoint``."""


def recorders_for(
    storage: StorageLike, run: RunId, unread: UnreadEvents | None
) -> tuple[Recorder, ClaimingRecorder | None]:
    """Return where a run is recorded, which shows its events where there is a reader, and what holds the run."""
    recorder = recorder_for(storage, run)
    claiming = recorder if isinstance(recorder, ClaimingRecorder) else None
    return (recorder if unread is None else EventTap(recorder, unread)), claiming


def recorder_for(storage: StorageLike, run: RunId) -> Recorder:
    """Return a recorder of one run over a Recorder, Journal, CheckpointStorage, CheckpointManager, or None.

    Over a journal whose storage offers claims, the run is held while it is driven. What a storage lacks for that is
    said in the log. ``InvalidCall`` for what is none of them, ``Unsupported`` for half of ``Claims``.
    """
    if isinstance(storage, type):
        raise InvalidCall(f"storage= is the class {storage.__name__}: give an object of it")
    if storage is None:
        return OwnRecorder()
    if isinstance(storage, Recorder):
        return storage
    kind = type(storage).__name__
    if isinstance(storage, Journal):
        claims = claims_of(storage)
        if claims is None:
            tell_once(f"{kind} has no claims: nothing keeps a second process from executing the same run")
        return ClaimingRecorder(storage, claims, run)
    if hasattr(storage, "commit"):
        lacks = ", ".join(missing_names(storage, Journal))
        raise InvalidCall(f"storage= {kind} has commit(), but no {lacks}: offer all of Journal")
    if hasattr(storage, "save"):
        tell_once(f"{kind} is no Journal: of a run it keeps checkpoints, but no events, answers and recorded calls")
        return SavingRecorder(storage)
    raise InvalidCall(f"storage= needs a save() or commit() method, {kind} has neither")


@lru_cache(64)
def tell_once(lacks: str) -> None:
    """Log what runs in a storage do without."""
    log.warning("%s", lacks)


class OwnRecorder:
    """No storage: the application owns ``outcome.checkpoint``."""

    async def commit(self, commit: Commit) -> None:
        """Keep nothing."""

    async def answers(self) -> Mapping[RequestKey, Answer]:
        """Never return: answers come with the next call of ``run``."""
        await asyncio.get_running_loop().create_future()
        return {}

    def stream(self, step: str, text: str) -> None:
        """Show nothing."""

    now = staticmethod(utc_now)


class SavingRecorder(OwnRecorder):
    """Keeps checkpoints in a storage or manager; events and effects go nowhere."""

    def __init__(self, storage: SavesCheckpoints) -> None:
        self._storage = storage

    async def commit(self, commit: Commit) -> None:
        """Save the checkpoint, if there is one."""
        if commit.checkpoint is not None:
            await self._storage.save(commit.checkpoint)


class EventTap:
    """A recorder that also shows every committed event, with the checkpoint that is current then.

    No step and no call begins while something is unread; what runs already is recorded without waiting for a reader.
    """

    def __init__(self, inner: Recorder, unread: UnreadEvents) -> None:
        self._inner = inner
        self._confirm = confirming(inner)
        self.take_turn: TakeTurn = getattr(inner, "take_turn", take_turn_here)
        self._unread = unread
        self._checkpoint: Checkpoint | None = None

    async def commit(self, commit: Commit) -> None:
        """Commit first, then show."""
        await self._inner.commit(commit)
        self._checkpoint = commit.checkpoint or self._checkpoint
        for event in commit.events:
            self._unread.put(event, self._checkpoint)

    async def confirm(self) -> None:
        """Return once all is read, and as the inner recorder does."""
        await self._unread.emptied()
        await self._confirm()

    async def answers(self) -> Mapping[RequestKey, Answer]:
        """Those of the inner recorder."""
        return await self._inner.answers()

    def stream(self, step: str, text: str) -> None:
        """Show streamed text as an event that is not stored."""
        self._inner.stream(step, text)
        self._unread.put_text(step, text, self._checkpoint)

    def now(self) -> datetime:
        """The inner recorder's clock."""
        return self._inner.now()


def confirming(recorder: Recorder) -> Callable[[], Awaitable[None]]:
    """Return the recorder's ``confirm``, or one that is always sure. Ask once: isinstance() costs more than a step."""
    return recorder.confirm if isinstance(recorder, Confirming) else always_sure


_queues = WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str], asyncio.Lock]()
"""Who waits for a turn, by loop and name."""


async def in_turn(recorder: object, name: str, every: float) -> None:
    """Return once it is the turn of what is called so. One of a loop asks at a time: a process that ends loses one."""
    async with _queues.setdefault((asyncio.get_running_loop(), name), asyncio.Lock()):
        while wait := await getattr(recorder, "take_turn", take_turn_here)(name, every):  # noqa: ASYNC110 (nothing tells of a turn)
            await asyncio.sleep(wait)


async def always_sure() -> None:
    """Return at once: this recorder's runs have no other driver."""


class UnreadEvents:
    """What a run has shown and its reader has not read yet. For one event loop, one writer and one reader.

    Committed events are all kept, because ``emptied`` holds the run back. Streamed text cannot be held back: pieces
    behind ``MOST_PIECES`` are joined, what exceeds ``MOST_TEXT`` characters is left out, which ``cut`` of the next
    piece says.
    """

    def __init__(self) -> None:
        self._events: deque[tuple[EventDraft | UnreadText, Checkpoint | None]] = deque()
        self._pieces = self._characters = 0
        self._cut = False
        self._ended = False
        self._some, self._none = asyncio.Event(), asyncio.Event()
        self._none.set()

    def put(self, event: EventDraft | UnreadText, checkpoint: Checkpoint | None) -> None:
        """Add a committed event, or streamed text, and the checkpoint that is current then."""
        self._events.append((event, checkpoint))
        self._some.set()
        self._none.clear()

    def put_text(self, step: str, text: str, checkpoint: Checkpoint | None) -> None:
        """Add text that a step streams."""
        if self._characters + len(text) > MOST_TEXT:
            self._cut = True
            return
        self._characters += len(text)
        last = self._events[-1][0] if self._events else None
        if self._pieces >= MOST_PIECES and isinstance(last, UnreadText) and last.step == step and not self._cut:
            last.texts.append(text)
            return
        self._pieces += 1
        self.put(UnreadText(step, [text], self._cut), checkpoint)
        self._cut = False

    async def get(self) -> tuple[EventDraft, Checkpoint | None] | None:
        """Return the oldest, waiting for one; None after the last, once the run is over."""
        await self._some.wait()
        if not self._events:
            return None
        found, checkpoint = self._events.popleft()
        if not self._events:
            self._none.set()
            if not self._ended:
                self._some.clear()
        if isinstance(found, UnreadText):
            found = self._whole(found)
        return found, checkpoint

    async def emptied(self) -> None:
        """Return once all is read."""
        await self._none.wait()

    def end(self, _: object = None) -> None:
        """Note that the run is over. A callback of its task."""
        self._ended = True
        self._some.set()

    def _whole(self, found: UnreadText) -> EventDraft:
        text = "".join(found.texts)
        self._pieces -= 1
        self._characters -= len(text)
        more: JsonObject = {"cut": True} if found.cut else {}
        return EventKind.STREAM.draft(found.step, text=text, **more)


@dataclass(slots=True)
class UnreadText:
    """Pieces of text of one step. ``cut``: some before them is missing."""

    step: str
    texts: list[str]
    cut: bool


class ClaimingRecorder(BoundRecorder):
    """Records one run in a journal, under a claim where the storage offers that. Belongs to one event loop."""

    def __init__(self, journal: Journal, claims: Claims | None, run: RunId) -> None:
        super().__init__(journal, run)
        self._claims = claims
        renewer = getattr(claims, "renewer", None)
        self._renewer = renewer if isinstance(renewer, ClaimRenewer) else None
        self._worker = run_claims.new_holder()
        self._head: CheckpointId | None = None
        self._renewal = contextlib.AsyncExitStack()

    async def commit(self, commit: Commit) -> None:
        """Make it durable. The first commit of a new run takes it; the one that lets go gives it back."""
        if self._claims is not None and self.claim is None:
            await self._hold(run_claims.begin(self._claims, self.journal, commit, self._worker))
        elif self.claim is not None and self._renewer is not None:
            with self._renewer.committing(self.claim, ends=commit.standing is not None):
                self.seq = await self.journal.commit(commit, claim=self.claim)
        else:
            self.seq = await self.journal.commit(commit, claim=self.claim)
        if commit.checkpoint is not None:
            self._head = commit.checkpoint.id
        if self.claim is not None and commit.standing is not None:
            self.claim = None
            await self._renewal.aclose()
            if still_running(self.run):
                await self._take_again()

    async def take(self, head: CheckpointId) -> None:
        """Claim a run that continues from its newest checkpoint ``head``. ``Conflict``: who has it, or what changed.

        The claim of a process of this machine that is gone is not waited for.
        """
        self._head = head
        if self._claims is not None:
            await self._hold(run_claims.take(self._claims, self.run, head, self._worker))

    def end_soon(self) -> None:
        """Note that the drive is being stopped. From any thread."""
        if self.claim is not None:
            run_claims.end_soon(self._worker)

    async def confirm(self) -> None:
        """See ``Confirming``: after this process was stopped or slept, that takes a renewal."""
        claim, renewer = self.claim, self._renewer
        if claim is not None and renewer is not None and not renewer.is_held(claim):
            await renewer.confirm(claim)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep what was taken, and what the body takes, while the body runs. ``ClaimLost`` if it is lost."""
        try:
            async with self._renewal:
                yield
        finally:
            await self._give_back()

    async def _hold(self, claimed: Awaitable[Claim]) -> None:
        if self._claims is None:
            raise AssertionError("only a storage with claims gives one")
        self.claim = await claimed
        holding = self._renewer.holding if self._renewer is not None else partial(renewed_here, self._claims)
        # From a thread where the storage has one: a blocked loop keeps the claim then.
        await self._renewal.enter_async_context(holding(self.claim))

    async def _take_again(self) -> None:
        """Keep others off a run that has ended, or waits, while functions of it still run."""
        if self._claims is not None and self._head is not None:
            try:
                self.claim = await run_claims.take(self._claims, self.run, self._head, self._worker, stopped=True)
            except CheckpointsError as error:
                log.info("Run %s has ended, but this still runs: %s (%s)", self.run, still_running(self.run), error)

    async def _give_back(self) -> None:
        """Release the claim; where functions of the run still run, once they have ended."""
        claim, self.claim = self.claim, None
        try:
            if claim is None or self._claims is None:
                return
            if still_running(self.run):
                self._keep(self._claims, claim)
            else:
                await run_claims.give_back(self._claims, claim)
        finally:
            run_claims.ended(self._worker)

    def _keep(self, claims: Claims, claim: Claim) -> None:
        running = partial(still_running, self.run)
        log.info("Run %s is left here, but this still runs: %s", self.run, ", ".join(running()))
        run_claims.leave(claim, running)
        if self._renewer is not None:
            self._renewer.keep(claim, running, partial(run_claims.left, claim))
            when_ended(self.run, self._renewer.renew_now)
        else:
            task = asyncio.create_task(keep_here(claims, claim))
            _keeping.add(task)
            task.add_done_callback(_keeping.discard)


_keeping: set[asyncio.Task[None]] = set()


async def keep_here(claims: Claims, claim: Claim) -> None:
    """Renew a claim from this event loop until nothing of its run runs any more, then release it."""
    try:
        async with renewed_here(claims, claim):
            while still_running(claim.run):  # noqa: ASYNC110 (threads know no loop)
                await asyncio.sleep(LEFT_SECONDS)
        await run_claims.give_back(claims, claim)
    except ClaimLost:
        log.info("Run %s was taken over", claim.run)
    run_claims.left(claim)


@asynccontextmanager
async def renewed_here(claims: Claims, claim: Claim) -> AsyncIterator[None]:
    """Renew a claim from this event loop; once it is lost the body is cancelled and ``ClaimLost`` raised."""
    body = asyncio.current_task()
    lost: list[ClaimLost] = []

    async def renew() -> None:
        while not lost:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await claims.renew(claim, ttl=TTL)
            except ClaimLost as error:
                lost.append(error)
                if body is not None:
                    body.cancel()
            except Exception:
                log.exception("Could not renew the claim of run %s; retrying", claim.run)

    task = asyncio.create_task(renew())
    try:
        yield
    except asyncio.CancelledError:
        if lost and body is not None and body.uncancel() == 0:
            raise lost[0] from None
        raise
    finally:
        task.cancel()
