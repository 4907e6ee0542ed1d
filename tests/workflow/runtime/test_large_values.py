"""Large values of a step are converted beside the event loop, and within a time."""

from __future__ import annotations

import asyncio
import threading
import traceback
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, BeforeValidator

from checkpoints.errors import InvalidValue
from checkpoints.memory import MemoryStorage
from checkpoints.sql import storage as sql_storage
from tests.workflow.world import flow
from wfdash.contract import Failed, Finished
from wfdash.values import codec
from wfdash.values.codec import is_large
from wfdash.workflow import Context, Workflow
from wfdash.workflow.runtime import step_run

WIDE = {f"k{number}": {"name": f"value {number}"} for number in range(12_000)}
CONVERTERS = ("check_plain", "copy_plain")


class Parcel(BaseModel):
    items: list[dict[str, str]]


@dataclass
class Crate:
    parcels: list[Parcel]


@pytest.mark.parametrize(
    ("value", "large"),
    [
        ([], False),
        ("x" * 300_000, True),
        (["x" * 100_000] * 2, False),
        (["x" * 100_000] * 3, True),
        (WIDE, True),
        ([[[n] * 10 for n in range(10)] for _ in range(100)], True),
        (Parcel(items=[{"a": "b"}] * 100), False),
        (Crate([Parcel(items=[{"a": "b"}] * 100)] * 100), True),
        (Crate, False),
        (object(), False),
    ],
)
def test_a_value_is_large_by_its_parts_or_its_text(value: Any, large: bool) -> None:
    assert is_large(value) is large


def test_a_value_that_holds_itself_is_looked_at_with_an_end() -> None:
    value: list[Any] = []
    value.append(value)
    assert is_large(value)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Where large plain values are checked and copied, and checkpoints with them encoded."""
    found: set[str] = set()

    def note(module: Any, name: str) -> None:
        plain = getattr(module, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            if any(one is not None and is_large(getattr(one, "checkpoint", one)) for one in args[:1]):
                found.add(threading.current_thread().name)
            return plain(*args, **kwargs)

        monkeypatch.setattr(module, name, noted)

    for name in CONVERTERS:
        note(codec, name)
    return found


async def test_large_messages_outputs_and_states_are_converted_in_threads(threads: set[str]) -> None:
    async def load(number: int, ctx: Context) -> dict[str, Any]:
        ctx.state.wide = WIDE
        return WIDE

    async def count(wide: dict[str, Any]) -> int:
        return len(wide)

    async with MemoryStorage() as storage:
        outcome = await flow(load, count).run(1, storage=storage)
        assert isinstance(outcome, Finished)
        assert outcome.output == 12_000
        assert outcome.checkpoint.body["state"]["wide"] == WIDE
    assert threads
    assert all(name.startswith("wfdash-step") for name in threads)


async def test_only_checkpoints_with_much_that_is_new_are_encoded_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    prepared = sql_storage.prepared

    def noted(*args: Any) -> Any:
        found.append(threading.current_thread() is threading.main_thread())
        return prepared(*args)

    monkeypatch.setattr(sql_storage, "prepared", noted)

    async def load(number: int, ctx: Context) -> int:
        ctx.state.wide = WIDE
        return number

    async def add(number: int, ctx: Context) -> int:
        ctx.state.number = number
        return number

    async with MemoryStorage() as storage:
        outcome = await flow(load, add).run(1, storage=storage)
        assert isinstance(outcome, Finished)
        # The start; the first step, whose encoding is given up and done in a thread; the end, which reuses it.
        assert found == [True, True, False, True]
        latest = await storage.get_latest(outcome.checkpoint.run)
    assert latest is not None
    assert latest.body["state"] == {"wide": WIDE, "number": 1}


@pytest.mark.parametrize("side", ["read", "store"])
async def test_a_value_that_is_not_converted_in_time_fails_its_step(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_run, "CONVERT_SECONDS", 2.0)
    release, conversion = threading.Event(), {"read": "decode", "store": "encode"}[side]

    def hang(value: Any) -> Any:
        if conversion in {frame.name for frame in traceback.extract_stack()}:
            release.wait(20)
        return value

    class Slow(BaseModel):
        parts: Annotated[dict[str, Any], BeforeValidator(hang)]

    wf = Workflow("slow")

    @wf.step(start=True)
    async def give(number: int) -> Slow:
        return Slow(parts=WIDE)

    @wf.step(after=give)
    async def take(slow: Slow) -> int:
        return 1

    try:
        outcome = await wf.run(1)
    finally:
        release.set()
    assert isinstance(outcome, Failed)
    assert outcome.error.type.endswith("StepTimeout")
    assert f"took longer than 2 s to {side}: keep large values elsewhere" in outcome.error.message


async def test_a_checkpoint_that_is_not_encoded_in_time_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    release, prepared = threading.Event(), sql_storage.prepared

    def hang(*args: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            release.wait(20)
        return prepared(*args)

    async def load(number: int, ctx: Context) -> int:
        ctx.state.wide = WIDE
        return number

    async with MemoryStorage() as storage:
        monkeypatch.setattr(sql_storage, "prepared", hang)
        monkeypatch.setattr(sql_storage, "ENCODE_SECONDS", 0.2)
        try:
            with pytest.raises(InvalidValue, match="keep large values elsewhere"):
                await flow(load).run(1, storage=storage, run_id="one")
        finally:
            release.set()
        latest = await storage.get_latest("one")
    assert latest is not None
    assert latest.body["state"] == {}


async def test_a_large_value_that_changes_while_it_is_converted_is_stored_all_the_same() -> None:
    async def load(number: int, ctx: Context) -> int:
        ctx.state.wide = dict(WIDE)

        async def change() -> None:
            while True:
                ctx.state.wide.pop(next(iter(ctx.state.wide)))
                await asyncio.sleep(0)

        task = asyncio.create_task(change())
        await asyncio.sleep(0)
        assert not task.done()
        return number

    outcome = await flow(load).run(1)
    assert isinstance(outcome, Finished)
    assert outcome.checkpoint.body["state"]["wide"].items() < WIDE.items()
