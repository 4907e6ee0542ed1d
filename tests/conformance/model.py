"""A storage, and what it should hold: the same verbs on both, and they must agree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from checkpoints.conformance.storage import THEN
from checkpoints.conformance.worlds import checkpoint, question, refused
from checkpoints.errors import Conflict, Damaged
from checkpoints.ids import CheckpointId, RunId, new_run_id
from checkpoints.records import Checkpoint, CheckpointFilter, Reason
from tests.conformance.worlds import AnyWorld

T = TypeVar("T")

TEXTS = [" ".join(str(i * k) for i in range(900)) for k in range(1, 6)]
LABELS = st.sampled_from([None, "a", "b"])
STEPS = st.sampled_from([None, "review", "pay"])
STATES = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0, *TEXTS]), max_size=4)
SOME_STATES = st.lists(STATES, min_size=1, max_size=4)
OPTIONAL = st.none() | st.booleans()
PLACES = st.integers(0, 30)
HOURS = st.none() | st.integers(0, 20)


@dataclass
class Entry:
    """A checkpoint as it should be."""

    saved: Checkpoint
    label: str | None
    clean: bool = True
    damaged: bool = False


@dataclass
class History:
    """A run as it should be."""

    id: RunId
    family: RunId
    entries: dict[int, Entry] = field(default_factory=dict)
    last: int = 0

    def newest_first(self) -> list[Entry]:
        return [self.entries[n] for n in sorted(self.entries, reverse=True)]

    def at(self, place: int) -> Entry | None:
        """Return one of its checkpoints, None if there is none."""
        return self.newest_first()[place % len(self.entries)] if self.entries else None

    def needed(self) -> set[CheckpointId]:
        """Return what may not be pruned."""
        entries = self.newest_first()
        return {entry.saved.id for entry in (*entries[:1], *[e for e in entries if e.clean][:1])}


class StorageMachine(RuleBasedStateMachine):
    """Random verbs on a few runs of one storage."""

    def __init__(self, world: AnyWorld, runner: asyncio.Runner) -> None:
        super().__init__()
        self.world = world
        self.storage = world.storage
        self.runner = runner
        self.runs: list[History] = []
        self.shaky: set[RunId] = set()
        """Families that lost a chunk: theirs may be damaged, but never anything else."""

    def do(self, verb: Awaitable[T]) -> T:
        """Await a verb of the storage."""

        async def wait() -> T:
            return await verb

        return self.runner.run(wait())

    def pick(self, place: int) -> History:
        return self.runs[place % len(self.runs)]

    def chosen(self, run: int, place: int) -> tuple[History, Entry]:
        """Return one of a run's checkpoints; gives the example up if it has none."""
        history = self.pick(run)
        entry = history.at(place)
        assume(entry is not None)
        assert entry is not None
        return history, entry

    @initialize()
    def begin(self) -> None:
        self.start([{}])

    @precondition(lambda self: len(self.runs) < 4)
    @rule(states=SOME_STATES)
    def start(self, states: Any) -> None:
        run = new_run_id()
        self.runs.append(History(id=run, family=run))
        self.save(len(self.runs) - 1, states, None, None, 0)

    @rule(run=PLACES, states=SOME_STATES, step=STEPS, label=LABELS, asked=st.integers(0, 2))
    def save(self, run: int, states: Any, step: str | None, label: str | None, asked: int) -> None:
        history = self.pick(run)
        requests = tuple(question(str(i)) for i in range(asked))
        for state in states:
            self.put(history, body={"state": state}, step=step, label=label, requests=requests)

    def put(self, history: History, **facts: Any) -> None:
        """Save a checkpoint as the run's new head."""
        n = history.last + 1
        made = checkpoint(history.id, n, created=THEN + timedelta(hours=n), **facts)
        assert self.do(self.storage.save(made)) == made.id
        history.last = n
        history.entries[n] = Entry(made, made.label)

    @rule(run=PLACES, place=PLACES, state=STATES)
    def save_again(self, run: int, place: int, state: Any) -> None:
        """Save under an n that is taken."""
        history, entry = self.chosen(run, place)
        with refused(Conflict):
            self.do(self.storage.save(checkpoint(history.id, entry.saved.n, body={"state": state})))

    @rule(run=PLACES, place=PLACES)
    def restore(self, run: int, place: int) -> None:
        """Make an earlier one the head again, if it can be read."""
        history, entry = self.chosen(run, place)
        loaded = self.read(history, entry)
        if loaded is not None:
            self.put(history, body=loaded.body, requests=loaded.requests, reason=Reason.RESTORE, parent=loaded.id)

    @precondition(lambda self: len(self.runs) < 6)
    @rule(run=PLACES, place=PLACES)
    def fork(self, run: int, place: int) -> None:
        """Fork, if it can be read."""
        history, entry = self.chosen(run, place)
        if self.read(history, entry) is None:
            with refused(Damaged):
                self.do(self.storage.fork(history.id, entry.saved.id, new_run_id()))
            return
        other = History(id=new_run_id(), family=history.family, last=1)
        made = self.do(self.storage.fork(history.id, entry.saved.id, other.id))
        assert (made.body, made.parent, made.n, made.label) == (entry.saved.body, entry.saved.id, 1, None)
        other.entries[1] = Entry(made, None)
        self.runs.append(other)

    @rule(run=PLACES, place=PLACES)
    def load(self, run: int, place: int) -> None:
        self.read(*self.chosen(run, place))

    @rule(run=PLACES, place=PLACES, label=LABELS)
    def label(self, run: int, place: int, label: str | None) -> None:
        history, entry = self.chosen(run, place)
        self.do(self.storage.set_label(history.id, entry.saved.id, label))
        entry.label = label

    @rule(run=PLACES, place=PLACES)
    def quarantine(self, run: int, place: int) -> None:
        """Mark one as not to be read."""
        history, entry = self.chosen(run, place)
        self.do(self.storage.quarantine(history.id, entry.saved.id, "a test"))
        entry.clean = False

    @rule(run=PLACES, place=PLACES)
    def damage(self, run: int, place: int) -> None:
        history, entry = self.chosen(run, place)
        self.do(self.world.damage(history.id, entry.saved.id))
        entry.damaged = True

    @precondition(lambda self: len(self.runs) > 2 and not self.shaky)
    @rule(run=PLACES, lost=st.booleans())
    def damage_chunk(self, run: int, lost: bool) -> None:
        """Lose or change a chunk of a whole family."""
        family = self.pick(run).family
        assume(self.do(self.world.chunks(family)))
        self.do(self.world.lose_chunk(family) if lost else self.world.damage_chunk(family))
        self.shaky.add(family)

    @rule(run=PLACES, place=PLACES)
    def delete(self, run: int, place: int) -> None:
        history, entry = self.chosen(run, place)
        assert self.do(self.storage.delete(history.id, entry.saved.id))
        del history.entries[entry.saved.n]

    @rule(run=PLACES, places=st.sets(st.integers(0, 8)), other=PLACES)
    def prune(self, run: int, places: set[int], other: int) -> None:
        history, stranger = self.pick(run), self.pick(other).at(0)
        entries = history.newest_first()
        doomed = {entries[place].saved.id for place in places if place < len(entries)}
        asked = [*doomed, *([stranger.saved.id] if stranger and stranger.saved.run != history.id else [])]
        if doomed & history.needed():
            with refused(Conflict):
                self.do(self.storage.prune(history.id, asked))
            return
        assert self.do(self.storage.prune(history.id, asked)) == len(doomed)
        history.entries = {n: entry for n, entry in history.entries.items() if entry.saved.id not in doomed}

    @rule(run=PLACES, step=STEPS, clean=OPTIONAL, asked=OPTIONAL, named=OPTIONAL, label=LABELS, a=HOURS, b=HOURS)
    def list_some(self, run: int, a: int | None, b: int | None, **chosen: Any) -> None:
        """List what is asked for, at once and in pages."""
        names = {"step": "step", "clean": "clean", "asked": "has_request", "named": "labelled", "label": "label"}
        facts = {names[name]: value for name, value in chosen.items()}
        times = {"since": a, "until": b}
        facts |= {name: THEN + timedelta(hours=h) for name, h in times.items() if h is not None}
        self.compare_list(self.pick(run), CheckpointFilter(**facts))

    def compare_list(self, history: History, where: CheckpointFilter) -> None:
        """Compare a list, and its pages, with what they should show."""
        listed = self.do(self.storage.list_checkpoints(history.id, limit=999, where=where))
        shown = [info for info in map(self.info, history.newest_first()) if where.admits(info)]
        # A fork's own time is the database's; everything else is as it was saved.
        assert [(i.id, i.n, i.label, i.clean, i.step, i.waiting) for i in listed] == [
            (i.id, i.n, i.label, i.clean, i.step, i.waiting) for i in shown
        ]
        half = len(shown) // 2
        if half:
            rest = self.do(self.storage.list_checkpoints(history.id, before=shown[half - 1].n, limit=999, where=where))
            assert [info.id for info in rest] == [info.id for info in shown[half:]]

    @staticmethod
    def info(entry: Entry) -> Any:
        facts = {"label": entry.label, "clean": entry.clean, "waiting": len(entry.saved.requests)}
        return entry.saved.info().model_copy(update=facts)

    @invariant()
    def the_latest_is_the_head(self) -> None:
        """Compare each run's ids, and the head of one with what it should be."""
        for history in self.runs:
            ids = self.do(self.storage.list_checkpoint_ids(history.id))
            assert list(ids) == [entry.saved.id for entry in history.newest_first()]
        if self.runs:
            self.compare_latest(self.runs[-1])

    def compare_latest(self, history: History) -> None:
        head = history.at(0)
        if head is None:
            assert self.do(self.storage.get_latest(history.id)) is None
        else:
            self.compare(history, head, self.storage.get_latest(history.id))

    def read(self, history: History, entry: Entry) -> Checkpoint | None:
        """Load one and compare it; None if it is damaged, and should be."""
        return self.compare(history, entry, self.storage.load(history.id, entry.saved.id))

    def compare(self, history: History, entry: Entry, reading: Awaitable[Checkpoint | None]) -> Checkpoint | None:
        """Compare what a read gives with what it should."""
        try:
            loaded = self.do(reading)
        except Damaged:
            assert entry.damaged or not entry.clean or history.family in self.shaky
            entry.clean = False
            return None
        assert loaded is not None
        assert entry.clean
        assert not entry.damaged
        saved = entry.saved
        assert (loaded.id, loaded.run, loaded.n, loaded.parent) == (saved.id, saved.run, saved.n, saved.parent)
        assert (loaded.body, loaded.requests, loaded.label) == (saved.body, saved.requests, entry.label)
        return loaded

    def teardown(self) -> None:
        """Compare everything there is."""
        for history in self.runs:
            for entry in history.newest_first():
                self.read(history, entry)
            self.compare_list(history, CheckpointFilter())
            self.compare_latest(history)
