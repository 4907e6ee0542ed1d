"""Migration hooks of sub-workflows: asked where nothing but the sub-workflow has changed."""

from __future__ import annotations

from typing import Any

import pytest

from checkpoints.errors import Incompatible
from tests.worker.graphs import expense as chain
from tests.workflow.test_versions import carried, goes_on, parked
from tests.workflow.world import ListRecorder
from wfdash.workflow import Workflow
from wfdash.workflow.authoring import Migration


def around(child: Workflow, *, name: str = "parent", more: bool = False) -> Workflow:
    wf = Workflow(name)
    sub = wf.sub("claims", child, start=True)
    if more:

        @wf.step(after=sub)
        async def archive(text: str) -> str:
            return f"{text}, filed"

    return wf


def renamed(old: Workflow, **facts: Any) -> Workflow:
    """The chain with another name for the step that asks, which its own hook knows."""
    new = chain(step="decide", **facts)

    @new.migrate(from_version=old.version)
    def hook(run: Migration) -> None:
        assert dict(run.steps) == {"review": 1}
        run.rename("review", "decide")
        run.state["note"] = [*run.state, "migrated"]

    return new


async def test_the_hook_of_a_sub_workflow_sees_its_own_steps_and_state():
    checkpoint = await parked(around(chain()))
    recorder = ListRecorder()
    assert await goes_on(around(renamed(chain())), checkpoint, storage=recorder) == "paid 7"
    migrated = recorder.commits[0]
    assert migrated.events[0].data["words"] == ["claims/review was renamed claims/decide", "state gets claims/note"]
    assert migrated.checkpoint.body["state"] == {"claims/note": ["migrated"]}
    assert [request.step for request in migrated.checkpoint.requests] == ["claims/decide"]


async def test_hooks_are_found_however_deep_they_lie():
    checkpoint = await parked(around(around(chain(), name="middle")))
    new = around(around(renamed(chain()), name="middle"))
    found = carried(new, around(around(chain(), name="middle")), checkpoint)
    assert (found.how, found.names) == ("hook", {"claims/claims/review": "claims/claims/decide"})
    assert found.body["position"]["levels"].keys() == {"", "claims", "claims/claims"}


async def test_a_carried_run_is_carried_again_by_the_next_hook():
    first, second = chain(), renamed(chain())
    checkpoint = await parked(around(first))
    found = carried(around(second), around(first), checkpoint)
    here = checkpoint.model_copy(
        update={"body": found.body, "requests": found.requests, "version": around(second).version}
    )
    third = chain(step="settle")
    third.migrate(from_version=second.version)(lambda run: run.rename("decide", "settle"))
    assert await goes_on(around(third), here) == "paid 7"


async def test_where_the_parent_has_changed_too_its_own_hook_is_wanted():
    checkpoint = await parked(around(chain()))
    new = around(renamed(chain()), more=True)
    version = chain().version
    with pytest.raises(Incompatible, match=f"sub-workflow 'claims' was version {version}, is"):
        await new.run(checkpoint=checkpoint)
    new.migrate(from_version=checkpoint.version)(lambda run: run.rename("claims/review", "claims/decide"))
    assert await goes_on(new, checkpoint) == "paid 7, filed"


async def test_of_two_sub_workflows_each_that_has_changed_needs_a_way():
    def both(one: Workflow, other: Workflow) -> Workflow:
        wf = Workflow("both")
        wf.sub("one", one, start=True)
        wf.sub("other", other, start=True)
        return wf

    checkpoint = await parked(both(chain(), chain()))
    found = carried(both(renamed(chain()), renamed(chain())), both(chain(), chain()), checkpoint)
    assert found.names == {"one/review": "one/decide", "other/review": "other/decide"}
    assert carried(both(renamed(chain()), chain()), both(chain(), chain()), checkpoint).how == "hook"
    with pytest.raises(Incompatible, match="sub-workflow 'other'"):
        carried(both(renamed(chain()), chain(step="gone")), both(chain(), chain()), checkpoint)


async def test_what_a_sub_workflow_gives_belongs_to_its_parent_too():
    old = chain()
    new = Workflow("chain")
    new.step(start=True, name="read")(lambda claim: claim)
    new.step(after="read", name="review")(counts)
    new.migrate(from_version=old.version)(lambda run: None)
    with pytest.raises(Incompatible, match="has changed since"):
        await around(new).run(checkpoint=await parked(around(old)))


async def counts(claim: Any) -> int:
    return 1


def test_a_workflow_without_sub_workflows_remembers_nothing_more():
    assert chain().graph.levels == {}
