"""``run(storage=...)`` has the worker's guarantees: one driver, accepted answers, no step before it is certain."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
from typing_extensions import get_protocol_members

from checkpoints import models
from checkpoints.claims import TTL, is_gone, process_name
from checkpoints.errors import AlreadyAnswered, ClaimLost, Conflict, InvalidValue, NotFound, Unsupported
from checkpoints.file import FileStorage
from checkpoints.ids import RequestKey, RunId, new_run_id
from checkpoints.manager import CheckpointConfig, CheckpointManager, KnowsNeeds
from checkpoints.memory import MemoryStorage
from checkpoints.records import Answer, Claim, Commit, Phase, Reason
from checkpoints.storage import CheckpointStorage, Claims, FindsRuns, Journal, RemembersAnswers, Runs
from tests.conformance.conftest import DATABASES, make_world
from tests.conformance.worlds import AnyWorld, DatabaseWorld
from tests.conformance.worlds import asking as parked_for_workers
from tests.workflow.world import finished, flow, handed_over
from wfdash.contract import InvalidInput, Outcome
from wfdash.workflow import Approval, Context, Finished, Question, Waiting, Workflow
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.runtime.recorders import tell_once


class Gate:
    """Steps that wait until they are let through."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.entered = asyncio.Event()
        self.open = asyncio.Event()

    async def step(self, name: str) -> None:
        self.begun.append(name)
        self.entered.set()
        await self.open.wait()

    async def reached(self, running: Coroutine[Any, Any, Outcome]) -> asyncio.Task[Outcome]:
        """Return a run's task once its step waits here."""
        task = asyncio.create_task(running)
        await asyncio.wait_for(self.entered.wait(), 60)
        return task


async def cancelled(task: asyncio.Task[Outcome]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def chain(gate: Gate) -> Workflow:
    async def first(n: int) -> int:
        await gate.step("first")
        return n

    async def second(n: int) -> int:
        gate.begun.append("second")
        return n + 1

    return flow(first, second)


asking = Workflow("asking")
ran: list[str] = []


@asking.step(start=True)
async def ask(ctx: Context) -> str:
    said: str = await ctx.ask(Question(subject="Well?"))
    ran.append(said)
    return said


@asking.step(after=ask)
async def close(said: str) -> str:
    return f"said {said}"


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


async def asked(world: AnyWorld) -> tuple[RunId, RequestKey]:
    run = new_run_id()
    outcome = await asking.run(None, storage=world.storage, run_id=run)
    assert isinstance(outcome, Waiting)
    return run, outcome.requests[0].key


async def test_a_run_is_no_one_elses_while_it_is_driven(world: AnyWorld) -> None:
    gate, run = Gate(), new_run_id()
    wf = chain(gate)
    task = await gate.reached(wf.run(1, storage=world.storage, run_id=run))
    assert run not in await world.storage.due(limit=10_000)
    assert await world.storage.claim(run, worker="a worker", ttl=5) is None
    with pytest.raises(Conflict, match="claimed by") as caught:
        await wf.run(storage=world.storage, run_id=run)
    assert caught.value.facts["worker"].startswith(process_name())
    with pytest.raises(Conflict):
        await wf.run(1, storage=world.storage, run_id=run)
    gate.open.set()
    assert finished(await task) == 2
    assert gate.begun == ["first", "second"]
    assert finished(await wf.run(storage=world.storage, run_id=run)) == 2


async def test_of_two_that_resume_a_run_one_drives_it(world: AnyWorld) -> None:
    run, key = await asked(world)
    calls = [asking.run(answers={key: "yes"}, storage=world.storage, run_id=run) for _ in range(4)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert ran == ["yes"]
    assert sum(isinstance(outcome, Finished) for outcome in outcomes) == 1
    assert all(isinstance(outcome, Finished | Conflict) for outcome in outcomes), outcomes


async def test_a_run_that_is_left_can_be_taken_at_once(world: AnyWorld) -> None:
    gate, run = Gate(), new_run_id()
    wf = chain(gate)
    task = await gate.reached(wf.run(1, storage=world.storage, run_id=run))
    await cancelled(task)
    gate.open.set()
    assert finished(await wf.run(storage=world.storage, run_id=run)) == 2


async def test_a_waiting_run_holds_no_claim(world: AnyWorld) -> None:
    run, _ = await asked(world)
    assert await world.phase(run) is Phase.WAITING
    assert isinstance(await asking.run(storage=world.storage, run_id=run), Waiting)
    assert await world.phase(run) is Phase.WAITING
    assert run not in await world.storage.due(limit=10_000)


async def test_a_run_that_is_taken_away_is_not_written_by_its_old_driver(world: AnyWorld) -> None:
    gate, run = Gate(), new_run_id()
    wf = chain(gate)
    task = await gate.reached(wf.run(1, storage=world.storage, run_id=run))
    await world.cancel(run)
    gate.open.set()
    with pytest.raises(ClaimLost):
        await task
    assert gate.begun == ["first"]
    with pytest.raises(Conflict, match="cancelled"):
        await wf.run(storage=world.storage, run_id=run)


async def test_a_persons_answer_is_what_a_run_goes_on_with(world: AnyWorld) -> None:
    run, key = await asked(world)
    await world.answer(run, key, "no")
    assert finished(await asking.run(storage=world.storage, run_id=run)) == "said no"


approving = Workflow("approving")


@approving.step(start=True)
async def approve(ctx: Context) -> str:
    return (await ctx.ask(Approval(subject="Pay?"))).action


async def test_a_program_answers_its_own_run_with_what_fits_the_request(world: AnyWorld) -> None:
    run, storage = new_run_id(), world.storage
    waiting = await approving.run(None, storage=storage, run_id=run)
    key = waiting.requests[0].key
    for bad in ("nonsense", {}, {"action": "explode"}, {"action": "approve", "extra": 1}, None, float("nan")):
        with pytest.raises(ValueError, match=f"answer to {key}|not a JSON value"):
            await storage.answer(run, key, bad)
    for where in ((run, RequestKey("other")), (new_run_id(), key)):
        with pytest.raises(NotFound):
            await storage.answer(*where, {"action": "approve"})
    assert await storage.read_answers(run) == {}
    before = len(await storage.read_events(run))
    await storage.answer(run, key, {"action": "approve"})
    with pytest.raises(AlreadyAnswered):
        await storage.answer(run, key, {"action": "reject"})
    (event,) = await storage.read_events(run, after=before)
    assert (event.kind, event.data["verdict"], event.data["subject"]) == ("request.answered", "approve", "Pay?")
    assert await world.phase(run) is Phase.READY
    assert finished(await approving.run(storage=storage, run_id=run)) == "approve"


async def test_of_many_answers_at_once_one_is_accepted(world: AnyWorld) -> None:
    run, key = await asked(world)
    with pytest.raises(InvalidValue, match="Must not be nested"):
        await world.storage.answer(run, key, json.loads("[" * 34 + "]" * 34))
    calls = [world.storage.answer(run, key, f"{n}") for n in range(6)]
    assert [type(one) for one in await asyncio.gather(*calls, return_exceptions=True) if one] == [AlreadyAnswered] * 5


@pytest.mark.parametrize("kind", DATABASES)
async def test_a_program_gives_no_answer_of_a_person_in_the_dashboard(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    world = make_world(kind, request, tmp_path)
    async with world.storage as storage:
        with pytest.raises(Unsupported, match="with their own right"):
            await storage.answer(*await asked(world), "no", by="rosa")
        await storage.commit(parked_for_workers(run := new_run_id(), "k"))
        with pytest.raises(Unsupported, match="people answer it there"):
            await storage.answer(run, RequestKey("k"), "no")


async def test_an_accepted_answer_that_does_not_fit_names_the_way_out(world: AnyWorld) -> None:
    run = new_run_id()
    waiting = await approving.run(None, storage=world.storage, run_id=run)
    await world.storage.commit(Commit(run=run, answered=(Answer(key=waiting.requests[0].key, value="nonsense"),)))
    with pytest.raises(InvalidInput, match="restore") as caught:
        await approving.run(storage=world.storage, run_id=run)
    assert repr(waiting.checkpoint.id) in str(caught.value)
    await CheckpointManager(world.storage).restore(run, waiting.checkpoint.id)
    again = await approving.run(storage=world.storage, run_id=run)
    done = await approving.run(
        answers={again.requests[0].key: {"action": "approve"}}, storage=world.storage, run_id=run
    )
    assert finished(done) == "approve"


class Proxy:
    """Passes everything on to a storage: for logs, metrics, retries."""

    def __init__(self, storage: Any) -> None:
        self._inner = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.fixture
def static_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``isinstance`` of a plain protocol look names up as from Python 3.12 on."""

    def is_static_instance(cls: type, instance: object) -> bool:
        missing = object()
        found = (inspect.getattr_static(instance, name, missing) for name in get_protocol_members(cls))
        return all(one is not missing for one in found)

    monkeypatch.setattr(type(Protocol), "__instancecheck__", is_static_instance)


@pytest.mark.usefixtures("static_lookups")
async def test_a_proxy_around_a_storage_keeps_claims_and_answers(world: AnyWorld) -> None:
    for storage in (
        Proxy(world.storage),
        CheckpointManager(Proxy(world.storage)),
        Proxy(CheckpointManager(world.storage)),
    ):
        gate, run, other = Gate(), new_run_id(), new_run_id()
        task = await gate.reached(chain(gate).run(1, storage=storage, run_id=run))
        with pytest.raises(Conflict, match="claimed by"):
            await chain(gate).run(storage=world.storage, run_id=run)
        gate.open.set()
        assert finished(await task) == 2
        waiting = await asking.run(None, storage=storage, run_id=other)
        await world.answer(other, waiting.requests[0].key, "no")
        assert finished(await asking.run(storage=storage, run_id=other)) == "said no"
        assert {event.kind for event in await world.storage.read_events(other)} >= {"request.opened", "run.completed"}


@pytest.mark.usefixtures("static_lookups")
def test_a_proxy_is_every_port_of_its_storage() -> None:
    storage = MemoryStorage()
    for port in (CheckpointStorage, Journal, Claims, Runs, FindsRuns, RemembersAnswers, KnowsNeeds):
        assert isinstance(storage, port)
        assert isinstance(Proxy(storage), port)
        assert not isinstance(Proxy(object()), port)
    assert isinstance(Proxy(CheckpointManager(storage)), Journal)


class Stores:
    """Offers only these methods of a storage."""

    def __init__(self, *names: str) -> None:
        storage = MemoryStorage()
        for name in names:
            setattr(self, name, getattr(storage, name))


JOURNAL = sorted(get_protocol_members(Journal))


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        (["save", "commit"], InvalidCall, "no read_answers, read_events"),
        (["commit"], InvalidCall, "no read_answers, read_events"),
        ([*JOURNAL, "take", "release"], Unsupported, "no begin, claim, claim_due, due, renew"),
    ],
)
async def test_half_of_a_port_is_refused(names: list[str], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        await asking.run(None, storage=Stores(*names))  # type: ignore[arg-type]
    assert ran == []


@pytest.mark.parametrize(("names", "lacks"), [(["save"], "no Journal"), (["save", *JOURNAL], "no claims")])
async def test_what_runs_do_without_is_said_once(
    names: list[str], lacks: str, caplog: pytest.LogCaptureFixture
) -> None:
    tell_once.cache_clear()
    for _ in range(2):
        await asking.run(None, storage=Stores(*names))  # type: ignore[arg-type]
    (record,) = caplog.records
    assert f"Stores {'is' if lacks == 'no Journal' else 'has'} {lacks}" in record.getMessage()


async def test_another_answer_than_the_accepted_one_is_refused_before_anything_runs(world: AnyWorld) -> None:
    run, key = await asked(world)
    await world.answer(run, key, "no")
    with pytest.raises(AlreadyAnswered, match=r'by rosa .*"no"') as caught:
        await asking.run(answers={key: "yes"}, storage=world.storage, run_id=run)
    assert (caught.value.facts["by"], caught.value.facts["value"]) == ("rosa", "no")
    assert caught.value.facts["at"] is not None
    assert ran == []
    assert finished(await asking.run(answers={key: "no"}, storage=world.storage, run_id=run)) == "said no"


async def test_an_answer_that_run_was_given_is_recorded_like_a_persons(world: AnyWorld) -> None:
    run, key = await asked(world)
    await asking.run(answers={key: "yes"}, storage=world.storage, run_id=run)
    assert await world.closed_as(run, key) == ["taken"]
    past = await world.storage.read_past_answers(run)
    assert past[key].value == "yes"
    events = await world.storage.read_events(run)
    (answered,) = [event for event in events if event.kind == "request.answered"]
    assert answered.data["request"] == (await world.request_ids(run))[0]


async def test_a_late_answer_is_told_who_answered_and_an_unknown_key_that_it_is_unknown(world: AnyWorld) -> None:
    run, key = await asked(world)
    await world.answer(run, key, "no")
    await asking.run(storage=world.storage, run_id=run)
    with pytest.raises(AlreadyAnswered, match="by rosa"):
        await asking.run(answers={key: "yes"}, storage=world.storage, run_id=run)
    with pytest.raises(InvalidCall, match="no such pending request"):
        await asking.run(answers={"never": "yes"}, storage=world.storage, run_id=run)


async def test_an_answer_survives_the_end_of_its_process(world: AnyWorld) -> None:
    gate, run = Gate(), new_run_id()

    async def one(ctx: Context) -> str:
        said: str = await ctx.ask(Question(subject="Well?"))
        await gate.step("one")
        return said

    wf = flow(one)
    waiting = await wf.run(None, storage=world.storage, run_id=run)
    assert isinstance(waiting, Waiting)
    key = waiting.requests[0].key
    task = await gate.reached(wf.run(answers={key: "yes"}, storage=world.storage, run_id=run))
    await cancelled(task)
    assert (await world.storage.read_answers(run))[key].value == "yes"
    gate.open.set()
    assert finished(await wf.run(storage=world.storage, run_id=run)) == "yes"


async def test_an_earlier_checkpoint_is_refused_before_any_step(world: AnyWorld) -> None:
    run, key = await asked(world)
    waiting = await world.storage.get_latest(run)
    assert waiting is not None
    await asking.run(answers={key: "yes"}, storage=world.storage, run_id=run)
    ran.clear()
    for earlier in (waiting, waiting.id):
        with pytest.raises(Conflict, match=r"restore.*fork"):
            await asking.run(checkpoint=earlier, storage=world.storage, run_id=run)
    assert ran == []


async def test_a_checkpoint_that_a_storage_is_handed_is_kept(world: AnyWorld) -> None:
    own = await asking.run(None)
    assert isinstance(own, Waiting)
    run, key = own.checkpoint.run, own.requests[0].key
    assert isinstance(await asking.run(checkpoint=handed_over(own.checkpoint), storage=world.storage), Waiting)
    head = await world.storage.get_latest(run)
    assert head is not None
    assert head.id == own.checkpoint.id
    await world.answer(run, key, "no")
    assert finished(await asking.run(run_id=run, storage=world.storage)) == "said no"


async def test_a_manager_holds_the_runs_of_its_storage(world: AnyWorld) -> None:
    gate, run = Gate(), new_run_id()
    manager = CheckpointManager(world.storage, CheckpointConfig.pauses())
    wf = chain(gate)
    task = await gate.reached(wf.run(1, storage=manager, run_id=run))
    assert await world.storage.claim(run, worker="a worker", ttl=5) is None
    with pytest.raises(Conflict, match="claimed by"):
        await wf.run(storage=world.storage, run_id=run)
    gate.open.set()
    assert finished(await task) == 2


async def test_an_answer_under_another_key_is_refused(world: AnyWorld) -> None:
    run, key = await asked(world)
    with pytest.raises(InvalidCall, match="has key='other'"):
        other = Answer(key=RequestKey("other"), value="yes")
        await asking.run(answers={key: other}, storage=world.storage, run_id=run)
    assert await world.phase(run) is Phase.WAITING


async def test_a_blocked_event_loop_keeps_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run_id()

    async def block(n: int) -> int:
        time.sleep(2.5)  # noqa: ASYNC251
        return n

    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        storage.renewer.every = 0.1
        monkeypatch.setattr(storage.renewer, "ttl", 1.5)
        monkeypatch.setattr("wfdash.workflow.runtime.recorders.TTL", 1.5)
        outcome = await flow(block).run(1, storage=storage, run_id=run)
        assert finished(outcome) == 1


async def test_a_renewal_beside_the_last_commit_loses_no_run() -> None:
    class Renewing(MemoryStorage):
        """Renews before its commits return."""

        async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
            seq = await super().commit(commit, claim=claim)
            await self.renewer._renew()
            await asyncio.sleep(0)
            return seq

    gate = Gate()
    gate.open.set()
    async with Renewing() as storage:
        assert finished(await chain(gate).run(1, storage=storage)) == 2
        waits = await asking.run(None, storage=storage)
        assert isinstance(waits, Waiting)


KILLED = """
import asyncio, os, sys
from checkpoints.file import FileStorage
from wfdash.workflow import Workflow

wf = Workflow("killed")

@wf.step(start=True)
async def one(n: int) -> int:
    if len(sys.argv) > 2:
        os.kill(os.getpid(), 9)
    return n

async def main():
    async with FileStorage(sys.argv[1]) as storage:
        start = {"message": 1} if len(sys.argv) > 2 else {}
        print((await wf.run(storage=storage, run_id="r", **start)).output)

asyncio.run(main())
"""


@pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="needs /proc")
async def test_the_run_of_a_killed_process_is_taken_at_once_on_its_machine(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.sqlite3")
    dead = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, path, "die")
    assert await dead.wait() == -9
    began = time.monotonic()
    again = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, path, stdout=asyncio.subprocess.PIPE)
    said, _ = await again.communicate()
    assert said.strip() == b"1"
    assert time.monotonic() - began < TTL


async def test_the_claim_of_another_machine_is_waited_for() -> None:
    storage, run = MemoryStorage(), new_run_id()
    gate = Gate()
    wf = chain(gate)
    gate.open.set()
    await wf.run(1, storage=storage, run_id=run)
    head = await storage.get_latest(run)
    assert head is not None
    await storage.fork(run, head.id, RunId("other"))
    fork = await storage.get_latest(RunId("other"))
    assert fork is not None
    await storage.take(RunId("other"), worker="elsewhere:1:abc-1:", ttl=30, head=fork.id)
    with pytest.raises(Conflict, match="elsewhere"):
        await wf.run(storage=storage, run_id="other")


def test_only_a_process_that_was_here_is_known_to_be_gone() -> None:
    mine = process_name()
    assert not is_gone(mine)
    host, pid, origin, _ = mine.rsplit(":", 3)
    place, _, start = origin.partition("-")
    if place:
        assert is_gone(f"{host}:{pid}:{place}-{int(start) - 1}:")
        assert is_gone(f"{host}:{2**22 + 1}:{place}-{start}:")
    for unknown in (
        f"elsewhere:{pid}:{origin}:",
        f"{host}:{pid}:other-1:",
        "host:1:abc",
        "",
        "worker",
        ":::",
        "a:b:c-d:",
    ):
        assert not is_gone(unknown)


async def test_a_restored_run_goes_on_from_where_it_was(world: AnyWorld) -> None:
    manager = CheckpointManager(world.storage)
    run, key = await asked(world)
    waiting = await world.storage.get_latest(run)
    assert waiting is not None
    assert finished(await asking.run(answers={key: "yes"}, storage=world.storage, run_id=run)) == "said yes"
    head = await manager.restore(run, waiting.id)
    assert (head.parent, head.reason, head.body, head.requests) == (
        waiting.id,
        Reason.RESTORE,
        waiting.body,
        waiting.requests,
    )
    assert head.n > waiting.n + 1
    assert await world.closed_as(run, key) == ["taken", ""]
    assert isinstance(await asking.run(storage=world.storage, run_id=run), Waiting)
    assert finished(await asking.run(answers={key: "no"}, storage=world.storage, run_id=run)) == "said no"
    assert ran == ["yes", "no"]


async def test_a_run_that_is_driven_cannot_be_restored(world: AnyWorld) -> None:
    gate, run = Gate(), new_run_id()
    task = await gate.reached(chain(gate).run(1, storage=world.storage, run_id=run))
    first = await world.storage.get_latest(run)
    assert first is not None
    with pytest.raises(Conflict, match="claimed by"):
        await CheckpointManager(world.storage).restore(run, first.id)
    gate.open.set()
    assert finished(await task) == 2


async def test_a_cancelled_run_goes_on_once_it_is_restored(world: AnyWorld) -> None:
    run, key = await asked(world)
    waiting = await world.storage.get_latest(run)
    assert waiting is not None
    await world.cancel(run)
    await CheckpointManager(world.storage).restore(run, waiting.id)
    assert finished(await asking.run(answers={key: "yes"}, storage=world.storage, run_id=run)) == "said yes"


@pytest.mark.parametrize("database", DATABASES)
async def test_a_step_that_was_killed_does_not_begin_again_in_a_run_that_someone_paused(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    world = make_world(database, request, tmp_path)
    assert isinstance(world, DatabaseWorld)
    gate, run = Gate(), new_run_id()
    wf = chain(gate)
    task = await gate.reached(wf.run(1, storage=world.storage, run_id=run))
    await cancelled(task)
    # What the tables look like after a SIGKILL of a process on this machine, in a run that was to be paused.
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await killed.wait()
    holder = process_name().replace(f":{os.getpid()}:", f":{killed.pid}:")
    row = {"token": "t", "worker": holder, "epoch": 1, "expires": datetime.now(UTC) + timedelta(hours=1)}
    claims, found = models.Claim.objects.using(world.alias), models.Run.objects.using(world.alias).filter(pk=run)
    await world._do(lambda: claims.create(run_id=run, **row))
    await world._do(lambda: found.update(ending="otto", ending_as="paused"))
    gate.open.set()
    with pytest.raises(Conflict, match="otto asked that the run is paused after its step"):
        await wf.run(storage=world.storage, run_id=run)
    assert gate.begun == ["first"]
    await world._do(lambda: found.update(ending=""))
    assert finished(await wf.run(storage=world.storage, run_id=run)) == 2
    await world.storage.aclose()
