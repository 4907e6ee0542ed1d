"""Agent Framework's checkpoints in our storages do what the framework's own storages do, and what those cannot."""

from __future__ import annotations

import asyncio
import base64
import math
import pickle
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("agent_framework")

from agent_framework import CheckpointStorage as TheirProtocol
from agent_framework import InMemoryCheckpointStorage, WorkflowCheckpoint, WorkflowCheckpointException

from checkpoints.agent_framework import CheckpointStorage, decode, encode
from checkpoints.file import FileStorage
from checkpoints.manager import CheckpointConfig, CheckpointManager
from checkpoints.memory import MemoryStorage
from checkpoints.records import Phase
from tests.checkpoints.agent_framework.flows import VALUES, Claim, claims, made
from tests.conformance.worlds import AnyWorld

PLACES = ["memory", "file", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
CLAIM = "tests.checkpoints.agent_framework.flows:Claim"


@pytest_asyncio.fixture(params=PLACES)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AnyWorld]:
    from tests.conformance.conftest import make_world

    found = make_world(request.param, request, tmp_path)
    yield found
    await found.storage.aclose()


@pytest.fixture
def storage(world: AnyWorld) -> CheckpointStorage:
    """Give a storage with a scope of its own: databases are shared by the tests."""
    return CheckpointStorage(world.storage, scope=f"test {random.random()}", allowed_checkpoint_types=[CLAIM])


def same(one: WorkflowCheckpoint | None, other: WorkflowCheckpoint | None) -> bool:
    return repr(one) == repr(other)


async def test_what_is_saved_comes_back_with_its_types(storage: CheckpointStorage) -> None:
    given = made(state={**VALUES, "claim": Claim(3.5, ["a"])}, metadata={"n": (1, 2)}, iteration_count=7)
    assert await storage.save(given) == given.checkpoint_id
    found = await storage.load(given.checkpoint_id)
    assert math.isnan(found.state.pop("nan"))
    assert math.isnan(given.state.pop("nan"))
    assert {key: type(value) for key, value in found.state.items()} == {
        key: type(value) for key, value in given.state.items()
    }
    assert found == given
    found.state["text"] = "changed"
    assert (await storage.load(given.checkpoint_id)).state["text"] == given.state["text"]


async def test_any_order_of_operations_has_the_results_of_their_storage_in_memory(storage: CheckpointStorage) -> None:
    theirs, dice, known = InMemoryCheckpointStorage(), random.Random(23), list[str]()
    start = datetime(2026, 11, 23, tzinfo=UTC)
    for n in range(60):
        name = dice.choice(["one", "two"])
        match dice.choice(["save", "save", "save", "again", "delete", "look"]):
            case "save":
                at = start + timedelta(seconds=dice.randrange(10_000) + n / 1000)
                given = made(name, timestamp=at.isoformat(), state={"n": n, "moment": at})
                given.previous_checkpoint_id = dice.choice([*known, None])
                known.append(given.checkpoint_id)
                await asyncio.gather(storage.save(given), theirs.save(given))
            case "again" if known:
                at = (start + timedelta(seconds=20_000 + n)).isoformat()
                given = made(name, checkpoint_id=dice.choice(known), timestamp=at, state={"again": n})
                await asyncio.gather(storage.save(given), theirs.save(given))
            case "delete" if known:
                id_ = dice.choice(known)
                assert await storage.delete(id_) is await theirs.delete(id_)
        latest = [await each.get_latest(workflow_name=name) for each in (storage, theirs)]
        assert same(*latest), n
    for name in ("one", "two", "three"):
        ours, expected = [await each.list_checkpoints(workflow_name=name) for each in (storage, theirs)]
        assert {repr(one) for one in ours} == {repr(one) for one in expected}
        ids = [await each.list_checkpoint_ids(workflow_name=name) for each in (storage, theirs)]
        assert Counter(ids[0]) == Counter(ids[1])
    for id_ in known:
        found = [await asyncio.gather(each.load(id_), return_exceptions=True) for each in (storage, theirs)]
        assert repr(found[0]) == repr(found[1])


async def test_a_workflow_that_asks_is_continued_by_another_process(world: AnyWorld, storage: Any) -> None:
    first = await claims(storage).run(7)
    (request,) = first.get_request_info_events()
    again = CheckpointStorage(world.storage, scope=storage.scope)
    latest = await again.get_latest(workflow_name="claims")
    assert latest is not None
    assert list(latest.pending_request_info_events) == [request.request_id]
    done = await claims(again).run(checkpoint_id=latest.checkpoint_id, responses={request.request_id: True})
    assert done.get_outputs() == ["Pay 7? yes"]
    history = await again.list_checkpoints(workflow_name="claims")
    assert [one.previous_checkpoint_id for one in history] == [None, *(one.checkpoint_id for one in history[:-1])]
    assert await world.phase(storage.run_of_workflow("claims")) is Phase.WAITING
    assert storage.run_of_workflow("claims") not in await world.storage.due()


async def test_saves_under_one_name_at_once_are_all_kept(world: AnyWorld, storage: CheckpointStorage) -> None:
    other = CheckpointStorage(world.storage, scope=storage.scope)
    given = [made(state={"n": n}) for n in range(20)]
    await asyncio.gather(*((storage, other)[n % 2].save(one) for n, one in enumerate(given)))
    assert {*await storage.list_checkpoint_ids(workflow_name="claims")} == {one.checkpoint_id for one in given}


@pytest.fixture
async def memory() -> AsyncIterator[MemoryStorage]:
    async with MemoryStorage() as found:
        yield found


def test_it_has_the_methods_of_their_protocol() -> None:
    methods = [name for name, value in vars(TheirProtocol).items() if callable(value) and not name.startswith("_")]
    assert sorted(methods) == ["delete", "get_latest", "list_checkpoint_ids", "list_checkpoints", "load", "save"]
    assert all(callable(getattr(CheckpointStorage, name)) for name in methods)


async def test_an_id_that_is_not_there_is_their_error(memory: MemoryStorage) -> None:
    storage = CheckpointStorage(memory)
    for id_ in ("nothing", "", "\0", "\ud800", "x" * 1_000):
        with pytest.raises(WorkflowCheckpointException, match="No checkpoint found with ID"):
            await storage.load(id_)
        assert await storage.delete(id_) is False


@pytest.mark.parametrize("value", [lambda: None, Lock(), Claim(1, []), {"inner": [Claim(1, [])]}])
async def test_what_cannot_be_read_again_is_refused_when_it_is_saved(memory: MemoryStorage, value: Any) -> None:
    storage, given = CheckpointStorage(memory), made(state={"value": value})
    with pytest.raises(WorkflowCheckpointException):
        await storage.save(given)
    assert await storage.list_checkpoint_ids(workflow_name="claims") == []


async def test_a_type_is_decoded_only_where_it_is_allowed(memory: MemoryStorage) -> None:
    given = made(state={"value": Claim(1, [])})
    await CheckpointStorage(memory, allowed_checkpoint_types=[CLAIM]).save(given)
    careful = CheckpointStorage(memory)
    with pytest.raises(WorkflowCheckpointException, match="Claim is no class that may be decoded"):
        await careful.load(given.checkpoint_id)
    with pytest.raises(WorkflowCheckpointException, match="Claim is no class that may be decoded"):
        await careful.get_latest(workflow_name="claims")
    assert await careful.list_checkpoints(workflow_name="claims") == []


class MakesAModel:
    """Pickled as the making of a class, whose annotation pydantic evaluates."""

    def __init__(self, ran: Path) -> None:
        self.program = f"__import__('pathlib').Path({str(ran)!r}).touch()"

    def __reduce__(self) -> Any:
        from agent_framework._harness._file_access import _DeleteFileInput

        return type, ("X", (_DeleteFileInput,), {"__module__": __name__, "__annotations__": {"x": self.program}})


async def test_a_checkpoint_that_someone_else_wrote_makes_no_class_and_runs_no_program(tmp_path: Path) -> None:
    body = encode(made(state={"value": 1}), frozenset())
    pickled = base64.b64encode(pickle.dumps(MakesAModel(tmp_path / "ran"))).decode()
    body["state"]["value"] = {"__pickled__": pickled, "__type__": "builtins:type"}
    with pytest.raises(WorkflowCheckpointException, match=r"_type.. takes 1 positional argument"):
        decode(body, frozenset())
    assert not (tmp_path / "ran").exists()


async def test_no_scope_sees_the_checkpoints_of_another(memory: MemoryStorage) -> None:
    scopes = [CheckpointStorage(memory, scope=scope) for scope in ("", "a", "a:b", "%3A", "\ud800", "x" * 500)]
    given = [made("b:c", checkpoint_id="b:c", state={"n": n}) for n in range(len(scopes))]
    for storage, one in zip(scopes, given, strict=True):
        await storage.save(one)
    for n, storage in enumerate(scopes):
        assert (await storage.load("b:c")).state == {"n": n}
        (only,) = await storage.list_checkpoints(workflow_name="b:c")
        assert only.state == {"n": n}
    assert await scopes[1].delete("b:c")
    assert (await scopes[2].load("b:c")).state == {"n": 2}


@pytest.mark.parametrize("name", ["", " ", "x" * 1_000, "\0", "\ud800", "Größe / 1 ?"])
async def test_names_and_ids_may_be_any_text(memory: MemoryStorage, name: str) -> None:
    storage, given = CheckpointStorage(memory), made(name, checkpoint_id=name)
    await storage.save(given)
    assert await storage.load(name) == given
    assert await storage.get_latest(workflow_name=name) == given
    assert await storage.list_checkpoint_ids(workflow_name=name) == [name]


class Counting:
    """Counts the calls of a storage."""

    def __init__(self, storage: Any) -> None:
        self._storage, self.calls = storage, Counter[str]()

    async def run_of(self, checkpoint: Any) -> Any:
        self.calls["run_of"] += 1
        return await self._storage.run_of(checkpoint)

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._storage, name)


async def test_the_latest_of_many_is_found_without_reading_the_others(memory: MemoryStorage) -> None:
    storage = CheckpointStorage(counting := Counting(memory))  # type: ignore[arg-type]
    late = made(timestamp=(datetime.now(UTC) + timedelta(days=1)).isoformat())
    for one in [made(), late, *(made() for _ in range(30))]:
        await storage.save(one)
    counting.calls.clear()
    assert await storage.get_latest(workflow_name="claims") == late
    assert counting.calls == {"list_checkpoints": 1, "run_of": 2, "load": 1}


async def test_a_policy_removes_what_it_does_not_keep_and_the_latest_stays(memory: MemoryStorage) -> None:
    manager = CheckpointManager(memory, CheckpointConfig(keep=5), prune_every=1)
    storage = CheckpointStorage(manager)
    given = [made(pending_request_info_events={"q": {"asked": n}}) for n in range(12)]
    for one in given:
        await storage.save(one)
    kept = [one.checkpoint_id for one in given[-5:]]
    assert await storage.list_checkpoint_ids(workflow_name="claims") == kept
    assert await storage.get_latest(workflow_name="claims") == given[-1]
    facts = [info.facts["pending"] for info in await memory.list_checkpoints(storage.run_of_workflow("claims"))]
    assert facts == [1] * 5


async def test_the_latest_is_never_replaced_by_an_older_one_that_can_be_read(tmp_path: Path) -> None:
    async with FileStorage(tmp_path / "runs.sqlite3") as file:
        storage = CheckpointStorage(file)
        old, new = made(), made()
        await storage.save(old)
        await storage.save(new)
        (info, _) = await file.list_checkpoints(storage.run_of_workflow("claims"))
        await file.quarantine(info.run, info.id, "for this test")
        with pytest.raises(WorkflowCheckpointException, match=r"cannot be read: .*quarantined"):
            await storage.get_latest(workflow_name="claims")
        assert await storage.list_checkpoints(workflow_name="claims") == [old]


def test_an_object_that_is_no_storage_is_refused() -> None:
    with pytest.raises(TypeError, match="dict has no run_of"):
        CheckpointStorage({})  # type: ignore[arg-type]
