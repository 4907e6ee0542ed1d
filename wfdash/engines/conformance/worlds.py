"""The engine under test in its world: the samples of its author, a storage, people, and a worker that can break."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from checkpoints.errors import ClaimLost
from checkpoints.events import EventKind
from checkpoints.ids import RequestKey, RunId, new_run_id
from checkpoints.manager import CheckpointManager
from checkpoints.memory import MemoryStorage
from checkpoints.recorder import BoundRecorder
from checkpoints.records import (
    ENDED,
    Answer,
    Checkpoint,
    Claim,
    Commit,
    Event,
    Json,
    JsonObject,
    Phase,
    Request,
    Standing,
    frozen,
)
from wfdash.contract import Continue, Description, Engine, Finished, Outcome, Resume, RunInput, Start, Waiting
from wfdash.engines.serving import Adopts, Served

Given = Sequence[tuple[str, Json]]
"""The step of each question and the word that answered it, in the order of the answers."""


class OutOfPaper(Exception):
    """The error of a step that fails on purpose."""


class Unstorable:
    """A value that no checkpoint can hold."""

    def __reduce__(self) -> str:
        """Refuse to be pickled."""
        raise TypeError("an Unstorable cannot be stored")


class Ledger:
    """What the steps of a sample do to the world outside: it stays when the engine's process ends.

    A definition is made for each drive, and gets the ledger of its run. From any thread.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        """What steps have noted, in order."""
        self.failing = False
        """Whether ``fail_if_asked`` raises."""
        self.seconds: float | None = None
        """How long the step was held that was held last."""
        self._lock = threading.Lock()
        self._reached, self._released = asyncio.Event(), asyncio.Event()

    def note(self, step: str) -> None:
        """Note that a step runs. Called first in the steps that a sample's description names, and in no step that asks.

        A step that notes something twice has run twice.
        """
        with self._lock:
            self.notes.append(step)

    @property
    def counts(self) -> Counter[str]:
        """How often each step has run."""
        return Counter(self.notes)

    async def held(self) -> None:
        """Wait in a step, until a check lets it continue."""
        began = time.monotonic()
        self._reached.set()
        await self._released.wait()
        self.seconds = time.monotonic() - began

    def fail_if_asked(self) -> None:
        """Raise ``OutOfPaper("out of paper")`` in a step, while a check says that it fails."""
        if self.failing:
            raise OutOfPaper("out of paper")

    async def reached(self) -> None:
        """Wait until a step is held."""
        await self._reached.wait()

    def release(self) -> None:
        """Let the step that is held continue, and all later ones."""
        self._released.set()


def joined(text: str, given: Given) -> Json:
    """Return the text and the answers, separated by spaces: those of parallel steps in the order of their names."""
    steps = {step for step, _ in given}
    words = sorted(given, key=lambda pair: pair[0]) if len(steps) == len(given) else given
    return " ".join([text, *(str(word) for _, word in words)])


@frozen
class Sample:
    """A definition, how it is started and answered, and its output.

    ``make(ledger)`` returns a new definition, which calls the ledger in its steps; it may be a ``Served``. The checks
    start runs with texts and answer with words; the other fields say what these are to the engine.
    """

    make: Callable[[Ledger], object]
    message: Callable[[str], Json] = field(default=lambda text: text)
    """The input of a run that is about this text."""
    answer: Callable[[Json], Json] = field(default=lambda word: word)
    """The answer to each question that says this word."""
    output: Callable[[str, Given], Json] = joined
    """The output of a run about this text that got these words. Default: all of them in one text."""
    width: int = 1
    """How many steps may run at the same time, and so be repeated after a crash."""
    reply: Callable[[Request], Json] | None = None
    """The answer to a question, whatever the word: for a definition that asks several things."""
    quiet: bool = False
    """Its steps note nothing, because steps of this engine do nothing but ask."""


@frozen
class Samples:
    """The definitions under test. A check whose sample is None does not apply: ``EngineWorld.lacks`` says so."""

    asks: Sample
    """A step ``before`` that notes so, one question, a step ``after`` that notes so. The output: text and word."""
    steps: Sample | None = None
    """Four steps or more, one after the other, each notes its name; the output is the text."""
    changed: Sample | None = None
    """``asks`` with one more step after the question. Its output is the same."""
    asks_two: Sample | None = None
    """Two questions that are open at the same time, of different steps. The output: text, and both words."""
    asks_in_turn: Sample | None = None
    """Questions one after the other, until the word is ``stop``. The output: text and all words."""
    fails: Sample | None = None
    """A question, then a step that notes ``prints`` and calls ``fail_if_asked``. The output: text and word."""
    slow: Sample | None = None
    """A step ``work`` that is held. The output is the text."""
    asks_beside: Sample | None = None
    """A question that is visible while another branch is held. The output: text and word."""
    unstorable: Sample | None = None
    """A step that returns an ``Unstorable``, which is to be kept for another step."""
    echoes: Sample | None = None
    """One question that any JSON answers. The output is the answer alone."""
    chats: Sample | None = None
    """Takes follow-ups. The output is the texts of all messages of the conversation so far, separated by spaces."""
    wrong_input: Json = 0.5
    """A message that ``asks`` refuses."""
    wrong_answer: Json = 0.5
    """An answer that the question of ``asks`` refuses."""
    secret: tuple[Sample, frozenset[str]] | None = None
    """A definition that calls fields secret in its messages or state, and their names."""


WAYS = ("lost before", "lost after", "disk full", "killed before", "killed after")
"""How a drive can break at a commit: nothing of it is written, or all; the claim is lost, or the process ends."""


class DiskFull(OSError):
    """A commit could not be written: not the fault of any step."""


@dataclass(kw_only=True)
class Fault:
    """Breaks the drive at the commit of this number (of the whole run, from 0)."""

    way: str
    at: int
    happened: bool = False
    killed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where the process ends: the commit never returns."""

    @property
    def error(self) -> Exception:
        """Return what the commit raises."""
        return DiskFull("no space left on device") if self.way == "disk full" else ClaimLost(run="this run")


@dataclass(kw_only=True)
class Trail:
    """What is durable of a run under test, as its commits say; it stays from drive to drive."""

    commits: int = 0
    head: Checkpoint | None = None
    standing: Standing | None = None
    opened: list[RequestKey] = field(default_factory=list)
    """The keys of its questions, in the order in which they were opened by its engine."""
    flaws: list[str] = field(default_factory=list)
    """What was wrong with a commit. Kept, because an engine may take an error here for one of a step."""


class WatchedRecorder(BoundRecorder):
    """What an engine commits to, in one drive of a run under test."""

    def __init__(self, storage: Any, claim: Claim, record: Trail, description: Description) -> None:
        super().__init__(storage, claim.run, claim, poll=0.01)
        self.record, self.description = record, description
        self.fault: Fault | None = None
        self.resumed: frozenset[RequestKey] = frozenset()
        """The requests whose answers the drive was given at its beginning."""
        self.ended = False
        self.stalls: asyncio.Event | None = None
        """Where it is set, commits wait for it."""
        self._bodies: list[tuple[JsonObject, JsonObject]] = []

    def resumed_with(self, answers: Mapping[RequestKey, Answer]) -> None:
        """Remember the answers that the drive begins with."""
        self.handed_out(answers)
        self.resumed = frozenset(answers)

    async def commit(self, commit: Commit) -> None:
        """Store a commit, unless the drive is to break here."""
        fault, here = self.fault, self.record.commits
        self.record.commits += 1
        if fault is not None and (fault.happened or here == fault.at):
            fault.happened = True
            if fault.way.endswith("after") and here == fault.at:
                await self._store(commit)
            if fault.way.startswith("killed"):
                fault.killed.set()
                await asyncio.get_running_loop().create_future()
            raise fault.error
        await self._store(commit)

    async def _store(self, commit: Commit) -> None:
        record = self.record
        flaws = list(self._flaws(commit))
        if self.stalls is not None:
            await self.stalls.wait()
        await super().commit(commit)
        record.flaws += flaws
        if commit.checkpoint is not None:
            record.head = commit.checkpoint
            self._bodies.append((commit.checkpoint.body, copy.deepcopy(commit.checkpoint.body)))
        record.opened += [request.key for request in commit.opened]
        self.resumed -= frozenset(commit.closed)
        if commit.standing is not None:
            record.standing, self.ended = commit.standing, True
            if commit.standing.phase is Phase.WAITING and self.resumed:
                kept = ", ".join(sorted(self.resumed))
                record.flaws.append(
                    f"the drive was given the answer to {kept}, and suspends the run without closing it"
                )

    def changed_in_place(self) -> bool:
        """Return whether the body of a checkpoint was changed after its commit."""
        return any(body != kept for body, kept in self._bodies)

    # -- what is wrong with a commit

    def _flaws(self, commit: Commit) -> Iterator[str]:
        if self.ended:
            yield "a commit comes after the one with a standing, which ended the drive"
        if commit.run != self.run:
            yield f"a commit is of run {commit.run}, the drive of {self.run}"
        if commit.opened and commit.checkpoint is None:
            yield "a commit opens questions without a checkpoint that holds them"
        if commit.checkpoint is not None:
            yield from self._flaws_of(commit.checkpoint)
            yield from self._pending(commit, commit.checkpoint)
        yield from self._unknown_steps(commit)
        asked = {event.data.get("key") for event in commit.events if event.kind == EventKind.REQUEST_OPENED}
        for request in commit.opened:
            if request.key not in asked:
                yield f"the question {request.key} is opened without the event request.opened"

    def _flaws_of(self, checkpoint: Checkpoint) -> Iterator[str]:
        head = self.record.head
        wanted = {
            "run": self.run,
            "n": head.n + 1 if head is not None else 1,
            "parent": head.id if head is not None else None,
            "workflow": self.description.workflow,
            "version": self.description.version,
            "engine": self.description.engine,
        }
        for name, value in wanted.items():
            if getattr(checkpoint, name) != value:
                yield f"{name} of a checkpoint is {getattr(checkpoint, name)!r}, not {value!r}"
        if _as_stored(checkpoint.body) != checkpoint.body:
            yield f"the body of checkpoint {checkpoint.n} is not plain JSON: it is read otherwise than it was written"

    def _pending(self, commit: Commit, checkpoint: Checkpoint) -> Iterator[str]:
        before = {request.key for request in self.record.head.requests} if self.record.head is not None else set()
        opened = [request.key for request in commit.opened]
        pending = [request.key for request in checkpoint.requests]
        if sorted(pending) != sorted((before - set(commit.closed)) | set(opened)):
            yield (
                f"checkpoint {checkpoint.n} has the questions {pending}: its parent had {sorted(before)}, "
                f"opened are {opened}, closed {list(commit.closed)}"
            )
        if again := before & set(opened) - set(commit.closed):
            yield f"the questions {sorted(again)} are opened, and were open"

    def _unknown_steps(self, commit: Commit) -> Iterator[str]:
        known = {step.name for step in self.description.steps}
        if unknown := {request.step for request in commit.opened} - known:
            yield f"questions are asked by {sorted(unknown)}, and the description has the steps {sorted(known)}"


def _as_stored(body: JsonObject) -> Json:
    try:
        return json.loads(json.dumps(body, allow_nan=False))
    except (TypeError, ValueError):
        return None


MANY = 200
"""More drives than any sample needs."""
PATIENCE = 30.0
"""Seconds after which a drive is taken to hang."""


class Place(Protocol):
    """A storage with people around it."""

    storage: Any
    """A ``CheckpointStorage`` that is a ``Journal`` and has ``Claims``, too."""

    async def answer(self, run: RunId, key: str, value: Json) -> None:
        """Answer a pending request as a person; a run that is suspended becomes ready."""


class Memory:
    """The place where checks are made unless another is given: SQLite in memory."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()

    async def answer(self, run: RunId, key: str, value: Json) -> None:
        """Answer as the person ``rosa``."""
        await self.storage.answer(run, RequestKey(key), value, by="rosa")


class EngineWorld:
    """An engine, its samples and a place. Each check makes runs of its own in it.

    ``make_engine`` is called for each drive, as each process makes its own. ``visible_within``: seconds after which a
    running step must be visible; ``tolerance``: seconds by which its length may be wrong. On a machine with other work
    give both more.
    """

    def __init__(
        self,
        make_engine: Callable[[], Any],
        samples: Samples,
        place: Place | None = None,
        *,
        visible_within: float = 0.3,
        tolerance: float = 0.03,
    ) -> None:
        self.make_engine, self.samples = make_engine, samples
        self._place = place
        self.visible_within, self.tolerance = visible_within, tolerance

    def engine(self) -> Engine:
        """Return a new engine, as another process has."""
        made: Engine = self.make_engine()
        return made

    @property
    def place(self) -> Place:
        """Where the checks are made."""
        if self._place is None:
            self._place = Memory()
        return self._place

    @property
    def storage(self) -> Any:
        """The storage under the engine."""
        return self.place.storage

    def definition(self, sample: Sample, ledger: Ledger | None = None) -> Any:
        """Return a new definition of a sample, as the engine's methods get it."""
        made = sample.make(ledger if ledger is not None else Ledger())
        if isinstance(self.engine(), Adopts) and not isinstance(made, Served):
            return Served(target=made, variable="sample")
        return made.as_variable("sample") if isinstance(made, Served) else made

    def lacks(self, check: Callable[..., Any]) -> str:
        """Return why a check does not apply here: the ability or the sample that is missing; empty: it applies."""
        wanted = getattr(check, "needs", ())
        for ability in (one for one in wanted if not isinstance(one, str)):
            if not isinstance(self.engine(), ability):
                return f"the engine is no {ability.__name__}"
        for name in (one for one in wanted if isinstance(one, str)):
            if getattr(self.samples, name) is None:
                return f"Samples.{name} is not given"
        return ""

    async def begin(self, sample: Sample, text: str = "paper", **options: Any) -> RunUnderTest:
        """Return a run that is ready to start."""
        run = RunUnderTest(self, sample, text, **options)
        ready = Standing(phase=Phase.READY)
        await self.storage.commit(Commit(run=run.id, events=(EventKind.RUN_QUEUED.draft(),), standing=ready))
        return run


class RunUnderTest:
    """A run, from its start to its end, through any number of processes: each drive has its own engine and definition.

    ``definition``: the one of all its drives, where they are to be in one process.
    """

    def __init__(
        self, world: EngineWorld, sample: Sample, text: str, *, definition: Any = None, engine: Engine | None = None
    ) -> None:
        self.world, self.sample, self.text = world, sample, text
        self.id = new_run_id()
        self.ledger = Ledger()
        self.given: list[tuple[str, Json]] = []
        """The step of each question and the word that answered it."""
        self.record = Trail()
        self.broken_by: Fault | None = None
        self.follows: Json = None
        """The text of the follow-up message, where it follows another run."""
        self._definition, self._engine = definition, engine

    # -- what people do

    async def answer(self, word: Json = "yes", *, step: str | None = None) -> None:
        """Answer an open question, that of a step if it is given, with a word."""
        asked = await self.unanswered()
        request = next((one for one in asked if step is None or one.step == step), None)
        assert request is not None, f"no question of {step or 'any step'} is open: {[one.key for one in asked]}"
        value = self.sample.answer(word) if self.sample.reply is None else self.sample.reply(request)
        await self.world.place.answer(self.id, request.key, value)
        self.given.append((request.step, word))

    async def unanswered(self) -> list[Request]:
        """Return the open questions that have no answer yet."""
        head, answers = await self.head(), await self.world.storage.read_answers(self.id)
        return [request for request in head.requests if request.key not in answers]

    # -- what a worker does

    async def claim(self, ttl: float = 30.0) -> Claim | None:
        """Return a claim of a new worker, None if the run is not due."""
        claim: Claim | None = await self.world.storage.claim(self.id, worker=f"test:{new_run_id()}", ttl=ttl)
        return claim

    async def drive(self, claim: Claim | None = None) -> Outcome:
        """Drive the run as a worker does, once, and check what can be checked of every drive. It must be due."""
        claim = claim or await self.claim()
        assert claim is not None, f"the run is not due; it was left as {self.record.standing}"
        recorder, work = await self.prepare(claim)
        try:
            outcome: Outcome = await asyncio.wait_for(work, PATIENCE)
        finally:
            await self.world.storage.release(claim)
            self.refuse_flaws(recorder)
        await self._check_end(outcome, recorder)
        return outcome

    async def prepare(self, claim: Claim, fault: Fault | None = None) -> tuple[WatchedRecorder, Any]:
        """Return the recorder of a drive and the drive: a coroutine."""
        engine = self._engine or self.world.engine()
        definition = self._definition or self.world.definition(self.sample, self.ledger)
        recorder = WatchedRecorder(self.world.storage, claim, self.record, engine.describe(definition))
        recorder.fault = fault
        return recorder, engine.drive(definition, await self._input(engine, definition, recorder), recorder)

    async def _input(self, engine: Engine, definition: Any, recorder: WatchedRecorder) -> RunInput:
        head = await self.world.storage.get_latest(self.id)
        self.record.head = head
        if head is None:
            return Start(run=self.id, message=engine.check_input(definition, self.sample.message(self.text)))
        if self.follows is not None and head.n == 1:
            return Continue(run=self.id, checkpoint=head, message=self.follows)
        answers = await self.world.storage.read_answers(self.id)
        recorder.resumed_with(answers)
        return Resume(run=self.id, checkpoint=head, answers=answers)

    def refuse_flaws(self, recorder: WatchedRecorder) -> None:
        """Fail for what was wrong with the commits of a drive."""
        assert self.record.flaws == [], "; ".join(self.record.flaws)
        assert not recorder.changed_in_place(), "the body of a checkpoint was changed after its commit"

    async def _check_end(self, outcome: Outcome, recorder: WatchedRecorder) -> None:
        standing, head = self.record.standing, await self.head()
        assert standing is not None, "the drive ended without a commit that has a standing"
        assert recorder.ended, "the drive ended without a commit that has a standing"
        assert outcome.checkpoint.id == head.id, "the outcome has another checkpoint than the newest one"
        if isinstance(outcome, Finished):
            assert standing.phase is Phase.COMPLETED, f"the drive returned Finished and left the run {standing.phase}"
            assert outcome.output == standing.output, "the output returned is not the one that was committed"
            assert not head.requests, "the run is finished and still asks"
        elif isinstance(outcome, Waiting):
            assert standing.phase in {Phase.WAITING, Phase.SLEEPING, Phase.RETRYING}, standing
            assert outcome.requests == head.requests, "the questions returned are not those that were committed"
        else:
            assert standing.phase is Phase.FAILED, f"the drive returned Failed and left the run {standing.phase}"
            assert standing.error is not None, "a run is left failed without its error"
            assert standing.error.message, "the error of a failed run has no message"

    async def breaks(self, fault: Fault, claim: Claim) -> None:
        """Drive until the fault ends the drive; as ``drive`` if that ends before."""
        recorder, work = await self.prepare(claim, fault)
        drive, killed = asyncio.ensure_future(work), asyncio.ensure_future(fault.killed.wait())
        try:
            await asyncio.wait([drive, killed], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            if fault.happened:
                await self._broken(fault, drive)
            else:
                assert drive.done(), "the drive hangs"
                await self._check_end(drive.result(), recorder)
        finally:
            killed.cancel()
            drive.cancel()
            await self.world.storage.release(claim)
        self.refuse_flaws(recorder)

    async def _broken(self, fault: Fault, drive: asyncio.Future[Outcome]) -> None:
        if fault.way.startswith("killed"):
            await asyncio.sleep(0.005)  # What else is running in the process may do a little more.
            drive.cancel()
            await asyncio.wait([drive], timeout=PATIENCE)
            return
        done = len(self.ledger.notes)
        await asyncio.wait([drive], timeout=PATIENCE)
        assert drive.done(), f"the drive does not end after a commit broke ({fault.way})"
        assert not drive.cancelled(), f"the drive was cancelled, not ended by the error of its commit ({fault.way})"
        error = drive.exception()
        assert error is not None, f"the drive ended with {drive.result()!r} after a commit broke ({fault.way})"
        wanted = DiskFull if fault.way == "disk full" else ClaimLost
        assert isinstance(error, wanted), f"the drive ended with {error!r}, not with the error of its commit"
        more = self.ledger.notes[done:]
        assert len(more) <= self.sample.width, f"after a commit broke ({fault.way}), steps ran: {more}"

    async def finish(self, *words: Json, together: bool = False, fault: Fault | None = None) -> Json:
        """Drive the run to its end and return its output. Questions get these words, the last one again and again.

        ``together``: all open questions are answered before the next drive. With ``fault``, one drive breaks.
        """
        left = list(words) or ["yes"]
        for _ in range(MANY):
            if self._has_ended():
                break
            if (claim := await self.claim()) is not None:
                if fault is None or fault.happened:
                    await self.drive(claim)
                else:
                    await self.breaks(fault, claim)
                continue
            asked = await self.unanswered()
            assert asked, f"the run waits for nothing: it was left as {self.record.standing}"
            for request in asked if together else asked[:1]:
                await self.answer(left.pop(0) if len(left) > 1 else left[0], step=request.step)
        return self.output

    # -- looking

    def refuse_notes_but(self, *steps: str) -> None:
        """Fail if its steps have noted anything else than this."""
        expected = [] if self.sample.quiet else list(steps)
        assert self.ledger.notes == expected, f"steps have run that had to wait, or ran twice: {self.ledger.notes}"

    @property
    def expected(self) -> Json:
        """The output that its answers must lead to."""
        return self.sample.output(self.text, self.given)

    @property
    def output(self) -> Json:
        """The output that it has finished with."""
        standing = self.record.standing
        assert standing is not None, "the run was never left by a drive"
        assert standing.phase is Phase.COMPLETED, f"the run was left as {standing!r}"
        return standing.output

    async def head(self) -> Checkpoint:
        """Return its newest checkpoint."""
        head: Checkpoint | None = await self.world.storage.get_latest(self.id)
        assert head is not None, "the run has no checkpoint"
        return head

    async def checkpoints(self) -> Sequence[Checkpoint]:
        """Return all its checkpoints, oldest first."""
        ids = await self.world.storage.list_checkpoint_ids(self.id)
        return [await self.world.storage.load(self.id, one) for one in reversed(ids)]

    async def asking(self) -> Checkpoint:
        """Return the first checkpoint at which a question is open."""
        return next(one for one in await self.checkpoints() if one.requests)

    async def is_asking(self) -> bool:
        """Return whether a question is open; the run must not have ended before."""
        assert not self._has_ended(), f"the run ended before its question was visible: {self.record.standing}"
        head = await self.world.storage.get_latest(self.id)
        return head is not None and bool(head.requests)

    def _has_ended(self) -> bool:
        return self.record.standing is not None and self.record.standing.phase in ENDED

    async def events(self, kind: EventKind | None = None) -> list[Event]:
        """Return its events, those of a kind if it is given."""
        found = await self.world.storage.read_events(self.id, limit=10_000)
        return [event for event in found if kind is None or event.kind == kind]

    # -- the past

    async def restore(self, checkpoint: Checkpoint) -> None:
        """Restore it to one of its checkpoints, as a person does. Its answers count from there."""
        await CheckpointManager(self.world.storage).restore(self.id, checkpoint.id)
        self.record.standing = Standing(phase=Phase.READY)
        self.given.clear()

    async def fork(self, checkpoint: Checkpoint, **options: Any) -> RunUnderTest:
        """Return a new run with the content of one of its checkpoints. Its answers count from there."""
        other = RunUnderTest(self.world, self.sample, self.text, **options)
        await self.world.storage.fork(self.id, checkpoint.id, other.id)
        ready = Standing(phase=Phase.READY)
        await self.world.storage.commit(Commit(run=other.id, opened=checkpoint.requests, standing=ready))
        return other

    def description(self) -> Description:
        """Return what its engine says of its definition."""
        return self.world.engine().describe(self.world.definition(self.sample))


Check: TypeAlias = Callable[[EngineWorld], Awaitable[None]]


def needs(*what: Any) -> Callable[[Check], Check]:
    """Say which samples (by name) and abilities (protocols of the contract) a check needs."""

    def mark(check: Check) -> Check:
        check.needs = what  # type: ignore[attr-defined]
        return check

    return mark
