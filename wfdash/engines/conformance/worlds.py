"""The engine under test in its world: a storage, people who answer, and runs that a worker drives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from checkpoints.errors import ClaimLost
from checkpoints.events import EventKind
from checkpoints.ids import RequestKey, RunId, new_run_id
from checkpoints.manager import CheckpointManager
from checkpoints.memory import MemoryStorage
from checkpoints.records import ENDED, Checkpoint, Claim, Commit, Event, Json, Phase, Request, Standing
from wfdash.contract import Continue, Description, Engine, Finished, Outcome, Resume, RunInput, Start, Waiting
from wfdash.engines.conformance.recorder import DiskFull, Fault, Trail, WatchedRecorder
from wfdash.engines.conformance.samples import Ledger, Sample, Samples
from wfdash.engines.serving import Adopts, Served

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
