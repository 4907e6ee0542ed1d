"""The operations of one running activation (asks, calls, sleeps), which tasks wait for them, and their replay."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from checkpoints.events import EventKind
from checkpoints.ids import RunId
from checkpoints.records import Json, JsonObject, Request
from wfdash.contract import Message
from wfdash.questions.card import Asking
from wfdash.values.fingerprints import MOST_AGAIN, Identity, asked_again
from wfdash.workflow.errors import InvalidCall, ReplayMismatch
from wfdash.workflow.graph import Node
from wfdash.workflow.reducer.moment import item_of
from wfdash.workflow.reducer.ticks import AskedAgain, OperationIssued, StepsIdle, Tick
from wfdash.workflow.stored import Activation, JournalEntry, numbered, task_name_of

Operation: TypeAlias = tuple[str, str]
"""Kind and name of an operation."""
Prints: TypeAlias = Mapping[str, str] | None
ARGUMENTS = "arguments"
"""The fingerprint of a call's arguments, where it is made beside others."""
CLOSED = {"answer", "result", "done", "raised"}

_inherited: ContextVar[tuple[Replay, str]] = ContextVar("wfdash_task_name")


class Replay:
    """The journal of one activation, and how far the running function has come in it.

    Each of a step's tasks is matched separately, since nothing fixes the order among tasks. A task that did
    one thing at a time must do the same things in the same order; one that had several open at once is matched by
    kind, name and occurrence.

    Tasks have names that are the same whenever the function runs again: ``""`` is the step's main task, ``".2"`` the
    second of its child tasks to do something, ``".2.1"`` a child of that one. A new child takes the first recorded name
    beside it that began as it does, with the same fingerprints if there is one. A call with other arguments is another
    one; a question that differs may be the same in other words.
    """

    def __init__(self, step: str, journal: list[JournalEntry], main: asyncio.Task[Any] | None) -> None:
        """``main``: the step's main task, None once that has ended."""
        self.step = step
        self.main = main
        self.entries = list(journal)
        self.recorded = len(journal)
        """How many entries there were before the function ran this time."""
        self._begun: dict[str, tuple[Operation, Prints]] = {}
        """The first recorded operation of each task, by its name."""
        self._taken: set[str] = set()
        self._guessed: dict[asyncio.Task[Any] | None, str] = {}
        """Names of child tasks that have read an effect key and done nothing else: their call may find another one."""
        self._done: Counter[str] = Counter()
        """How many operations each task has done."""
        self._left: dict[str, list[int]] = {}
        self._open: dict[str, list[int]] = {}
        """Entries by task that had no result when last looked at."""
        for index, entry in enumerate(journal):
            task_name = task_name_of(entry)
            self._begun.setdefault(task_name, ((entry["k"], entry["name"]), entry.get("prints")))
            self._left.setdefault(task_name, []).append(index)
            if not CLOSED & entry.keys():
                self._open.setdefault(task_name, []).append(index)
        for left in self._left.values():
            left.reverse()
        self._overlapped = {task_name_of(entry) for entry in journal if "o" in entry}
        self._mismatch: ReplayMismatch | None = None
        """What the code did otherwise than recorded. It does nothing more, even if it handles this error."""

    def match(self, kind: str, name: str, prints: Prints = None) -> tuple[int | None, str]:
        """Return the index of the recorded entry (None if this is new) and its task's name; or ``ReplayMismatch``.

        ``prints``: fingerprints of a question. Of several that were open at once, the one that has them comes first.
        """
        if self._mismatch is not None:
            raise self._mismatch
        task_name = self._task_name((kind, name), prints)
        self._done[task_name] += 1
        left = self._left.get(task_name)
        if not left:
            return None, task_name
        if task_name not in self._overlapped:
            return self._strict(left, kind, name), task_name
        fitting = [index for index in reversed(left) if self._is_entry(index, kind, name)]
        same = (index for index in fitting if prints is not None and self.entries[index].get("prints") == prints)
        found = next(same, fitting[0] if fitting else None)
        if found is not None:
            left.remove(found)
        return found, task_name

    def upcoming(self) -> str:
        """Return the number of the running task's next operation, with the task's name: the same in a replay."""
        task = asyncio.current_task()
        task_name = self._known_name(task)
        if task_name is not None:
            return numbered(task_name, self._done[task_name])
        if task not in self._guessed:
            self._guessed[task] = self._free_name(self._parent(), None, None)
        return numbered(self._guessed[task], 0)

    def has_guessed(self) -> bool:
        """Say whether the running task has read an effect key which may turn out to be that of another."""
        return asyncio.current_task() in self._guessed

    def is_another(self, did: Operation, prints: Prints) -> bool:
        """Say whether recorded tasks that did this at first, all with other arguments, are not found again yet.

        The running task may be one that was never recorded, or one of them whose arguments change when it runs again.
        """
        if prints is None or self._known_name(asyncio.current_task()) is not None:
            return False
        left, beside = self._begun.keys() - self._taken, (self._parent(), did)
        printed = [self._begun[one][1] for one in left if (one.rpartition(".")[0], self._begun[one][0]) == beside]
        return bool(printed) and prints not in printed and None not in printed

    def place(self) -> int:
        """Return behind how many entries the running task is; 0 for one that has done nothing recorded yet."""
        try:
            task_name = self._known_name(asyncio.current_task())
        except RuntimeError:
            task_name = ""  # Work in a thread is the main task's.
        return 0 if task_name is None else (self._left.get(task_name) or [len(self.entries)])[-1]

    def is_behind(self) -> bool:
        """Say whether the running task only repeats what was done before; of a task not known yet: whether any does."""
        if not self._left:
            return False
        try:
            task_name = self._known_name(asyncio.current_task())
        except RuntimeError:
            return False  # Work in a thread is no task.
        return any(self._left.values()) if task_name is None else bool(self._left.get(task_name))

    @cached_property
    def _task_names(self) -> WeakKeyDictionary[asyncio.Task[Any], str]:
        """Names by child task. Most steps have none."""
        return WeakKeyDictionary()

    def _known_name(self, task: asyncio.Task[Any] | None) -> str | None:
        return "" if task is None or task is self.main else self._task_names.get(task)

    def is_alone(self) -> bool:
        """Say whether the running task is the step's main one, and does one thing at a time so far."""
        task = asyncio.current_task()
        return self._known_name(task) == "" and "" not in self._overlapped and not self._still_open("")

    def _parent(self) -> str:
        owner, parent = _inherited.get((self, ""))
        return parent if owner is self else ""

    def _task_name(self, did: Operation, prints: Prints = None) -> str:
        """Return the name of the running task, which is about to do this."""
        task = asyncio.current_task()
        task_name = self._known_name(task)
        if task_name is None and task is not None:
            guess = self._guessed.pop(task, "")
            task_name = self._task_names[task] = self._free_name(self._parent(), did, prints, guess)
            self._taken.add(task_name)
        _inherited.set((self, task_name or ""))
        return task_name or ""

    def _free_name(self, parent: str, did: Operation | None, prints: Prints, guess: str = "") -> str:
        if guess and guess not in self._taken and (prints is None or ARGUMENTS not in prints):
            return guess
        number, like, held = 1, "", self._guessed.values()
        while (task_name := f"{parent}.{number}") in self._begun or task_name in self._taken or task_name in held:
            begun, printed = self._begun.get(task_name, (None, None))
            if task_name not in self._taken and did in (None, begun):
                if prints == printed and did is not None:
                    return task_name
                if not like and task_name not in held and (not prints or not printed or ARGUMENTS not in prints):
                    like = task_name
            number += 1
        return like or task_name

    def _strict(self, left: list[int], kind: str, name: str) -> int:
        if not self._is_entry(left[-1], kind, name):
            was = self.entries[left[-1]]
            raise self.refusal(
                f"step {self.step!r}, number {left[-1] + 1}: recorded {was['k']} {was['name']!r},"
                f" the code now does {kind} {name!r}"
            )
        return left.pop()

    def _is_entry(self, index: int, kind: str, name: str) -> bool:
        return bool(self.entries[index]["k"] == kind and self.entries[index]["name"] == name)

    def add(self, entry: JournalEntry, task_name: str) -> int:
        """Append a new entry, marked if others of its task are open; return its index."""
        if task_name:
            entry["t"] = task_name
        if still := self._still_open(task_name):
            entry["o"] = 1
        self._open[task_name] = [*still, len(self.entries)]
        self.entries.append(entry)
        return len(self.entries) - 1

    def _still_open(self, task_name: str) -> list[int]:
        return [index for index in self._open.get(task_name, ()) if not CLOSED & self.entries[index].keys()]

    def refuse_reuse(self, index: int, parts: tuple[str, ...]) -> None:
        """Raise ``ReplayMismatch`` if the answer to a question that is another one now cannot be asked for again."""
        was, said = self.entries[index], f"step {self.step!r}: the {self.entries[index]['name']} asked another question"
        if "answer" not in was:
            return
        if self.recorded > was["answer"].get("n", -1):
            raise self.refusal(
                f"{said} than the one that was answered ({', '.join(parts)} differ), and the step continued from that"
                " answer: run the code that asked it, or restore a checkpoint from before it"
            )
        if was.get("again", 0) >= MOST_AGAIN:
            raise self.refusal(
                f"{said} each time it ran ({', '.join(parts)} differ): get what changes through ctx.call, or leave it"
                " out of what must be the same with ctx.ask(..., same=...)"
            )

    def may_ask_again(self, index: int) -> bool:
        """Say whether an answer may be asked for once more: nothing rests on it, and it was not asked for too often."""
        was = self.entries[index]
        rests = self.recorded > was["answer"].get("n", index + 1)
        return not rests and was.get("again", 0) < MOST_AGAIN

    def replace(self, index: int, entry: JournalEntry) -> JournalEntry:
        """Put a question in the place of the one that was asked there; returns the entry with the place's marks."""
        was = self.entries[index]
        fresh = entry.copy()
        if "t" in was:
            fresh["t"] = was["t"]
        if "o" in was:
            fresh["o"] = was["o"]
        fresh["again"] = was.get("again", 0) + ("answer" in was)
        fresh["renewed"] = was.get("renewed", 0) + 1
        self.entries[index] = fresh
        still = self._open.setdefault(task_name_of(was), [])
        if index not in still:
            still.append(index)
        return self.entries[index]

    def check_end(self) -> None:
        """Raise ``ReplayMismatch`` if the function returned without doing all that was recorded."""
        if self._mismatch is not None:
            raise self._mismatch
        left = [index for indexes in self._left.values() for index in indexes]
        if left:
            entry = self.entries[min(left)]
            raise ReplayMismatch(f"step {self.step!r} returned without its recorded {entry['k']} {entry['name']!r}")

    def refusal(self, text: str) -> ReplayMismatch:
        """Return the error of code that does otherwise than recorded. It can do nothing more."""
        self._mismatch = ReplayMismatch(text)
        return self._mismatch


T = TypeVar("T")
PATIENCE = 10.0
"""Seconds for which a call that is none of the recorded ones beside it waits until those are found again."""
SETTLE = 0.05
"""Seconds without news after which a step that asks in child tasks counts as waiting: its main task's own
doings cannot be seen."""
MOST_LOGGED = 1_000
"""Records of ``logging`` that are kept of one try at an activation."""


class Host(Protocol):
    """What an activation needs of the loop that drives it."""

    run_id: RunId
    park_after: float
    loop: asyncio.AbstractEventLoop

    def post(self, tick: Tick) -> None:
        """Hand in what happened."""

    def recheck_idle(self) -> None:
        """Check again which activations are idle."""

    def now(self) -> datetime:
        """The storage's clock."""

    def event(self, activation: str, kind: EventKind, data: JsonObject) -> None:
        """Show an event soon. From any thread."""

    def stream(self, step: str, text: str) -> None:
        """Show text at once. From any thread."""

    def tell(self, tick: Tick) -> None:
        """Hand in what a step says. From any thread."""

    def wake_at(self, when: datetime) -> None:
        """Look at the clock then."""

    async def in_turn(self, name: str, every: float) -> None:
        """Return once what is called so may start: so many seconds after it last did, in any process."""

    async def confirm(self) -> None:
        """Return once it is sure that this process still has the run: before code begins."""


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A question as its step asks it now: how the answer is read, its record, and the request for a place."""

    asking: Asking
    entry: JournalEntry
    request: Callable[[int], Request]


running_step: ContextVar[StepOps | None] = ContextVar("wfdash_running_step", default=None)
"""The step whose code runs: in its task, its child tasks and the threads of its calls."""


def apart(name: str) -> None:
    """Give the running task, if it has done nothing recorded yet, and those it begins a name beside their numbers.

    They are found again by it where nothing fixes in which order tasks begin that do the same at first. It must be the
    same in a replay. The step's main task needs none.
    """
    ops = running_step.get()
    if ops is not None and asyncio.current_task() is not ops.main:
        owner, parent = _inherited.get((ops.replay, ""))
        _inherited.set((ops.replay, f"{parent if owner is ops.replay else ''}/{name}"))


class StepOps:
    """The operations of one run of one activation's function."""

    def __init__(self, host: Host, node: Node, activation: str, record: Activation) -> None:
        self.host = host
        self.node = node
        self.activation = activation
        self.called = record.get("called", node.name)
        self.item = item_of(node.path, record["scope"]) if record["scope"] else None
        """Index of the item inside the innermost map, None outside of maps."""
        self._journal = record["journal"]
        self.main: asyncio.Task[Any] | None = None
        """The task that runs the step's function."""
        self.timeout: asyncio.Timeout | None = None
        """What limits the step's own work, while its function runs; None without a limit."""
        self._left = 0.0
        """The seconds of work that are left while the limit stands still."""
        self._waits = self._works = 0
        """Waits of the step that are no work of its own, and its calls whose functions run."""
        self.calling = 0
        self.calling_once = 0
        self.logged = 0
        """Records its function has logged so far."""
        self.said: tuple[tuple[Message, ...], list[Json]] = (), []
        """What its conversation was last, and as JSON."""
        self._counted, _, self._paid = record.get("used", (0, 0, 0))
        self.expected: dict[int, tuple[str, Coroutine[Any, Any, Any]]] = {}
        """What the step asked, called or slept and has not awaited yet."""
        self._held: list[OperationIssued] = []
        """Questions that no code awaits yet: they are opened with the first operation that is, and in their order."""
        self.errors: dict[int, Exception] = {}
        """What its calls raised."""
        self._closed = False
        self._futures: dict[int, asyncio.Future[None]] = {}
        self._waiting: dict[int, asyncio.Task[Any] | None] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._last = 0.0

    @cached_property
    def replay(self) -> Replay:
        """The journal, and how far the function has come in it. Most steps have none and do nothing that needs one."""
        return Replay(self.node.name, self._journal, self.main)

    def place_of_usage(self) -> int | None:
        """Return where usage of a model is said: behind so many operations. None if it was counted before."""
        place = self.replay.place()
        # Behind a call of an earlier attempt there is a result that was paid for then.
        if 0 < place <= self._paid:
            return None
        self._counted -= 1
        return place if self._counted < 0 else None

    def issue(
        self,
        entry: JournalEntry,
        request: Callable[[int], Request] | None = None,
        save: bool = False,
        identity: Identity | None = None,
    ) -> int:
        """Take the next operation: the recorded one, or a new record. Return its index in the journal.

        A question that is not the one that was recorded (``fingerprints``) is asked again in its place.
        """
        if identity is not None:
            entry["prints"] = identity.prints
        if not self.node.is_async:
            raise InvalidCall(f"step {self.node.name!r} is a plain function: make it 'async def' to {entry['k']}")
        if self._closed:
            raise InvalidCall(f"step {self.node.name!r} has ended: a task it left behind cannot {entry['k']}")
        known, task_name = self.replay.match(entry["k"], entry["name"], entry.get("prints"))
        if known is not None:
            if identity is not None and request is not None:
                self._compare(known, entry, identity, request)
            return known
        made = request(len(self.replay.entries)) if request is not None else None
        if made is not None:
            entry["request"] = made.key
        index = self.replay.add(entry, task_name)
        now = self.host.now()
        self._held.append(OperationIssued(at=now, activation=self.activation, entry=entry, request=made, save=save))
        if made is None:
            self._open_held()
        return index

    async def others_found(self, name: str, prints: Prints) -> None:
        """Return once all calls recorded beside a new one are found again; ``ReplayMismatch`` if some are not."""
        self.calling += 1
        try:
            with self.counted(waits=1):
                until = self.host.loop.time() + PATIENCE
                while self.host.loop.time() < until:
                    if not self.replay.is_another(("call", name), prints):
                        return
                    await asyncio.sleep(SETTLE)
        finally:
            self.calling -= 1
            self.host.recheck_idle()
        raise self.replay.refusal(
            f"step {self.node.name!r}: {name!r} was recorded in a child task with other arguments: restore a checkpoint"
            " from before it, and get what changes when the step runs again through ctx.call"
        )

    def _open_held(self) -> None:
        held, self._held = self._held, []
        for tick in held:
            self.host.post(tick)

    def _compare(self, index: int, entry: JournalEntry, identity: Identity, request: Callable[[int], Request]) -> None:
        """Ask again if the question is not the recorded one; log parts that differ and need not be the same."""
        was = self.entry(index)
        parts = identity.moved(was.get("prints"))
        if not parts:
            if drifted := identity.drifted(was.get("prints")):
                data: JsonObject = {"key": was["request"], "parts": list(drifted)}
                self.host.event(self.activation, EventKind.REQUEST_DRIFTED, data)
            return
        self.replay.refuse_reuse(index, parts)
        self._renew(index, entry, request, parts)

    def ask_again(self, index: int, asked: PendingQuestion, problem: str) -> bool:
        """Ask once more because the answer on record is none of what the step takes now; False if that cannot be.

        It cannot where later operations rest on the answer, and after ``MOST_AGAIN`` attempts.
        """
        if not self.replay.may_ask_again(index):
            return False
        entry: JournalEntry = {"k": asked.entry["k"], "name": asked.entry["name"]}
        if "seen" in asked.entry:
            entry["seen"] = asked.entry["seen"]
        if "prints" in asked.entry:
            entry["prints"] = asked.entry["prints"]
        self._renew(index, entry, asked.request, ("answer",), problem)
        self.reopen(index)
        return True

    def _renew(
        self,
        index: int,
        entry: JournalEntry,
        request: Callable[[int], Request],
        parts: tuple[str, ...],
        problem: str = "",
    ) -> None:
        was = self.entry(index)
        fresh, number = request(index), was.get("renewed", 0) + 1
        made = asked_again(fresh, number, parts, was["request"], answered="answer" in was, problem=problem)
        entry = self.replay.replace(index, {**entry, "request": made.key})
        at, activation = self.host.now(), self.activation
        self.host.post(AskedAgain(at=at, activation=activation, index=index, entry=entry, request=made, parts=parts))

    @property
    def home(self) -> Mapping[str, Any]:
        """The globals of the step's function."""
        home: Mapping[str, Any] = getattr(inspect.unwrap(self.node.function), "__globals__", {})
        return home

    def leave(self) -> None:
        """Forget the task, which ends now: its context refers to this, and a cycle waits for the garbage collector."""
        if self.logged > MOST_LOGGED:
            text = f"{self.logged - MOST_LOGGED:,} more were left out"
            self.host.event(self.activation, EventKind.LOG, {"level": "WARNING", "logger": "wfdash", "message": text})
        if self.main is not None:
            self._tasks.discard(self.main)
        if "replay" in vars(self):
            self.replay.main = None
        self.main = None

    def expect(self, index: int, name: str, made: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Return what an operation is awaited by, having noted that it is to be."""
        self.expected[index] = (name, made)
        return made

    def begin(self, index: int) -> JournalEntry:
        """Return the journal entry of an operation that is awaited now."""
        self.expected.pop(index, None)
        if self._held:
            self._open_held()
        return self.entry(index)

    async def check_end(self) -> None:
        """Raise ``InvalidCall`` if the function returned without awaiting all that is ``expected``.

        ``ReplayMismatch`` if it did not do all that was recorded.
        """
        if self.expected:
            await asyncio.sleep(0)  # A task that was just made for it has not begun yet.
            if words := self.forget():
                raise InvalidCall(f"step {self.node.name!r} returned without awaiting {words}")
        if self._journal or "replay" in vars(self):
            self.replay.check_end()

    def forget(self) -> str:
        """Close what is still ``expected`` and say what it is, and how it is awaited; empty if there is nothing."""
        names = sorted({name for name, _ in self.expected.values()})
        for _, made in self.expected.values():
            made.close()
        self.expected.clear()
        calls = " and ".join(f"ctx.{name}(...)" for name in names)
        return f"{calls}: write 'await ctx.{names[0]}(...)'" if names else ""

    def entry(self, index: int) -> JournalEntry:
        """Return the current journal entry."""
        return self.replay.entries[index]

    async def wait(self, index: int, *, people: bool) -> JournalEntry:
        """Wait for the entry's result. ``people``: it may take days, during which the step may be parked."""
        if CLOSED & self.begin(index).keys():
            return self.entry(index)
        if self._closed:
            raise asyncio.CancelledError(f"step {self.node.name!r} has ended")
        future = self._futures.setdefault(index, self.host.loop.create_future())
        if people:
            self._block(index)
        try:
            with self.counted(waits=1):
                await asyncio.shield(future)
        finally:
            self._unblock(index)
        return self.entry(index)

    @contextmanager
    def counted(self, *, waits: int = 0, works: int = 0) -> Iterator[None]:
        """Count what is done inside: see ``count``."""
        self.count(waits=waits, works=works)
        try:
            yield
        finally:
            self.count(waits=-waits, works=-works)

    def count(self, *, waits: int = 0, works: int = 0) -> None:
        """Note how many more the step has of its waits (for people, a time, a commit, a free thread) and of its calls
        whose functions run: those are work, whatever else is waited for. A function that waits for a thread does not.
        """
        self._waits += waits
        self._works += works
        if self.timeout is not None:
            self._set_clock(self.timeout)

    def _set_clock(self, timeout: asyncio.Timeout) -> None:
        """Let the limit stand still while the step only waits."""
        ends, still = timeout.when(), bool(self._waits and self._works <= 0)
        if timeout.expired() or still == (ends is None):
            return
        now = self.host.loop.time()
        if ends is not None:
            self._left = ends - now
        timeout.reschedule(None if still else now + self._left)

    def _block(self, index: int) -> None:
        task = asyncio.current_task()
        self._waiting[index] = task
        if task is not None:
            self._tasks.add(task)
        self._news()
        if self.idle_at() == 0.0:
            self.host.post(StepsIdle(at=self.host.now(), activations={self.activation: self.waits}))
        else:
            self.host.recheck_idle()

    def _unblock(self, index: int) -> None:
        if index in self._waiting:
            self._waiting.pop(index)
            self._news()

    def _news(self) -> None:
        self._last = self.host.loop.time()

    def resolve(self, index: int, entry: JournalEntry) -> None:
        """Resume the code that waits for this entry. An answer to what was asked before it was renewed is none."""
        if entry["k"] == "ask" and "answer" not in entry:
            return
        self.replay.entries[index] = entry
        self._unblock(index)
        future = self._futures.setdefault(index, self.host.loop.create_future())
        if not future.done():
            future.set_result(None)

    def reopen(self, index: int) -> None:
        """Make the entry one that has to be waited for again."""
        self._futures.pop(index, None)

    @property
    def waits(self) -> tuple[int, ...]:
        """The journal entries that are waited for."""
        return tuple(self._waiting)

    def idle_at(self) -> float | None:
        """Return when it can do nothing but wait: 0.0 now, a loop time, None while it works."""
        if self.calling or not self._waiting:
            return None
        waiting = set(self._waiting.values())
        if any(task not in waiting and not task.done() for task in self._tasks if task is not self.main):
            return None
        return 0.0 if self.main in waiting else self._last + SETTLE

    def cut(self) -> set[asyncio.Task[Any]]:
        """Let nothing more be recorded; return the child tasks that are left."""
        self._closed = True
        return {task for task in self._tasks if task is not self.main and not task.done()}
