"""Every step of a generated graph gets another name in mid-run: the run ends as if nothing had happened."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints.records import Checkpoint
from tests.workflow.test_cut_anywhere import BLOCKS, Witness, make, play
from tests.workflow.world import handed_over
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Workflow
from wfdash.workflow.authoring import Migration

NEW = "new "


class Renamed(Workflow):
    """A workflow whose steps all have another name than the code below gives them, and say so."""

    def step(self, **facts: Any) -> Any:
        after = facts.get("after")
        if isinstance(after, list):
            facts["after"] = [NEW + one if isinstance(one, str) else one for one in after]
        return super().step(**{**facts, "name": NEW + facts["name"], "was": facts["name"]})

    def sub(self, name: str, child: Workflow, **facts: Any) -> Any:
        return super().sub(NEW + name, child, **{**facts, "was": name})


def reached(blocks: list[str], message: int) -> tuple[Any, list[Checkpoint], Counter[str]]:
    calm = Witness()
    return asyncio.run(play(make(blocks, calm), {"message": message}, [], calm.truth))


def summed(log: Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, count in log.items():
        found[name.removeprefix(NEW)] += count
    return found


@given(blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4), message=st.integers(0, 5), data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_run_goes_on_under_new_names_from_every_checkpoint(blocks: list[str], message: int, data: st.DataObject):
    expected, seen, log = reached(blocks, message)
    witness = Witness()
    start = {"checkpoint": handed_over(data.draw(st.sampled_from(seen)))}
    output, _, found = asyncio.run(play(make(blocks, witness, kind=Renamed), start, [], witness.truth))
    assert output == expected
    assert summed(found) == summed(log)


@pytest.mark.parametrize("override", [False, True])
def test_each_checkpoint_of_every_kind_of_block_fits_the_renamed_graph(override: bool):
    _, seen, _ = reached(list(BLOCKS), 3)
    old, new = make(list(BLOCKS), Witness()), make(list(BLOCKS), Witness(), kind=Renamed)
    engine = NativeEngine()
    described = engine.describe(old)
    for checkpoint in seen:
        found = engine.carry(new, checkpoint, described, override=override)
        assert found.body["position"].keys() == checkpoint.body["position"].keys()
        steps = {record["step"] for record in found.body["position"]["live"].values()}
        assert steps <= new.graph.nodes.keys()


def renaming(wf: Workflow) -> Callable[[Migration], None]:
    """A hook that renames all that is in a workflow."""

    def rename(run: Migration) -> None:
        for name in (*wf.steps, *wf.subs):
            run.rename(name.removeprefix(NEW), name)
        for sub in wf.subs.values():
            for name in (*sub.child.steps, *sub.child.subs):
                run.rename(f"{sub.name}/{name.removeprefix(NEW)}", f"{sub.name}/{name}")

    return rename


def test_a_hook_that_renames_everything_does_the_same_as_declared_names():
    expected, seen, log = reached(list(BLOCKS), 3)
    for checkpoint in seen[:: max(1, len(seen) // 12)]:
        witness = Witness()
        new = make(list(BLOCKS), witness, kind=Renamed)
        new.migrate(from_version=checkpoint.version)(renaming(new))
        output, _, found = asyncio.run(play(new, {"checkpoint": handed_over(checkpoint)}, [], witness.truth))
        assert output == expected
        assert summed(found) == summed(log)
