from __future__ import annotations

import asyncio

import pytest

from checkpoints.manager import CheckpointConfig, CheckpointManager
from checkpoints.memory import MemoryStorage
from checkpoints.records import Checkpoint, Reason
from tests.workflow.world import ListRecorder, PowerCut
from wfdash.workflow import Context, Failed, Finished, Workflow

labelled = Workflow("labelled")


@labelled.step(start=True)
async def work(ctx: Context) -> int:
    ctx.state["own"] = 1
    await ctx.checkpoint("half way")
    await ctx.checkpoint("almost there")
    return 1


parallel = Workflow("parallel")


@parallel.step(start=True)
async def both(ctx: Context) -> int:
    await asyncio.gather(*(ctx.checkpoint(f"label {i}") for i in range(5)))
    return 1


def labels(recorder: ListRecorder) -> list[tuple[str | None, Reason]]:
    """Return label and reason of every checkpoint."""
    return [(c.checkpoint.label, c.checkpoint.reason) for c in recorder.commits if c.checkpoint]


async def test_a_label_is_a_checkpoint_of_its_own() -> None:
    recorder = ListRecorder()
    assert isinstance(await labelled.run(None, storage=recorder), Finished)
    found = labels(recorder)
    assert [label for label, reason in found if reason is Reason.LABEL] == ["half way", "almost there"]
    half = next(c.checkpoint for c in recorder.commits if c.checkpoint and c.checkpoint.label == "half way")
    assert half.step == "work"
    assert half.body["state"] == {}


async def test_labels_given_at_once_are_all_kept() -> None:
    recorder = ListRecorder()
    await parallel.run(None, storage=recorder)
    assert sorted(label for label, _ in labels(recorder) if label) == [f"label {i}" for i in range(5)]


async def test_a_label_is_not_saved_again_when_the_step_runs_again() -> None:
    recorder = ListRecorder(dies_after=2)
    with pytest.raises(PowerCut):
        await labelled.run(None, storage=recorder)
    kept = Checkpoint.model_validate_json(recorder.latest.model_dump_json())
    assert kept.label == "half way"
    rest = ListRecorder()
    assert isinstance(await labelled.run(checkpoint=kept, storage=rest), Finished)
    assert [label for label, _ in labels(rest) if label] == ["almost there"]


async def test_a_label_is_saved_and_kept_whatever_the_policy() -> None:
    manager = CheckpointManager(MemoryStorage(), CheckpointConfig(when="pause", keep=1))
    outcome = await labelled.run(None, storage=manager)
    infos = await manager.list_checkpoints(outcome.checkpoint.run)
    assert [(info.label, info.reason) for info in infos] == [
        (None, Reason.END),
        ("almost there", Reason.LABEL),
        ("half way", Reason.LABEL),
    ]


@pytest.mark.parametrize("label", ["", " ", "x" * 201])
async def test_a_label_must_be_readable(label: str) -> None:
    odd = Workflow("odd")

    @odd.step(start=True)
    async def work(ctx: Context) -> int:
        await ctx.checkpoint(label)
        return 1

    outcome = await odd.run(None)
    assert isinstance(outcome, Failed)
    assert "1 to 200 characters" in outcome.error.message
