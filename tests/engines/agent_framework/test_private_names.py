"""Names of the framework that are private, each with what happens where it is gone."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("agent_framework")

from agent_framework import FunctionalWorkflow, InMemoryCheckpointStorage, Workflow, WorkflowExecutor
from agent_framework._workflows import _checkpoint_encoding

from checkpoints.agent_framework import registered_types
from tests.engines.agent_framework import functions, samples
from tests.engines.agent_framework.desk import Desk
from wfdash.engines.agent_framework.allowed_types import response_types
from wfdash.engines.agent_framework.commits import not_saved
from wfdash.engines.agent_framework.definitions import steps_of
from wfdash.engines.agent_framework.describing import code_places
from wfdash.engines.agent_framework.transcripts import EXECUTORS


def test_classes_that_authors_register_are_found(monkeypatch: pytest.MonkeyPatch):
    assert "_REGISTERED_CHECKPOINT_TYPE_KEYS" in vars(_checkpoint_encoding)
    monkeypatch.setattr(_checkpoint_encoding, "_REGISTERED_CHECKPOINT_TYPE_KEYS", {"fractions:Fraction"})
    assert registered_types() == {"fractions:Fraction"}
    monkeypatch.delattr(_checkpoint_encoding, "_REGISTERED_CHECKPOINT_TYPE_KEYS")
    assert registered_types() == frozenset()


async def test_a_registered_class_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_checkpoint_encoding, "_REGISTERED_CHECKPOINT_TYPE_KEYS", {"fractions:Fraction"})
    desk = Desk(samples.unknown_class())
    await desk.start("go")
    assert desk.output == "done"


def test_types_of_answers_are_found_at_executors():
    asker = samples.review_workflow().executors["reviewer"]
    assert response_types(asker) == [(samples.Draft, samples.Verdict)]
    del asker._response_handlers
    assert response_types(asker) == []


async def test_answers_are_still_taken_where_their_types_are_not_found(monkeypatch: pytest.MonkeyPatch):
    from wfdash.engines.agent_framework import allowed_types, describing

    for module in (allowed_types, describing):
        monkeypatch.setattr(module, "response_types", lambda executor: [])
    desk = Desk(samples.review_workflow())
    await desk.start("Spring")
    await desk.answer({"verdict": "reject"})
    assert desk.output == "Spring rejected"


def test_functions_are_found_in_executors():
    assert samples.write._original_func.__name__ == "write"
    assert "clerk" not in {name for name, *_ in code_places(samples.refunds())}


def test_steps_of_a_function_are_found_in_its_code(monkeypatch: pytest.MonkeyPatch):
    workflow = functions.publish.build()
    assert steps_of(workflow) == ["send", "upper"]
    monkeypatch.delattr(FunctionalWorkflow, "_discover_workflow_dependencies")
    assert steps_of(workflow) == []


async def test_a_function_whose_events_come_late_ends_the_same(monkeypatch: pytest.MonkeyPatch):
    assert "_execute" in vars(FunctionalWorkflow)
    monkeypatch.setattr("wfdash.engines.agent_framework.step_events.watch", lambda *_: False)
    functions.CALLS.clear()
    desk = Desk(functions.publish)
    await desk.start("spring")
    await desk.answer(True)
    await desk.answer("web")
    assert desk.output == "SPRING on web: True"
    functions.CALLS.clear()


async def test_why_no_checkpoint_was_made_is_found_out_or_in_the_log():
    workflow = samples.unkeepable()
    assert hasattr(workflow._runner, "build_checkpoint")
    workflow.executors["locksmith"].kept = samples.threading.Lock()
    assert "locksmith" in str(await not_saved(workflow))
    del workflow._runner
    assert str(await not_saved(workflow)) == "Agent Framework could make no checkpoint: its log says why"


async def test_an_agent_keeps_its_pending_calls_under_these_names():
    storage: Any = InMemoryCheckpointStorage()
    await samples.refunds().run("please refund", checkpoint_storage=storage)
    state = (await storage.get_latest(workflow_name="refunds")).state[EXECUTORS]["clerk"]
    assert state.keys() >= {
        "agent_session",
        "full_conversation",
        "pending_agent_requests",
        "pending_responses_to_agent",
    }


async def test_a_call_is_only_approved_or_rejected_where_the_agents_state_is_not_found(monkeypatch: pytest.MonkeyPatch):
    from wfdash.engines.agent_framework import questions

    monkeypatch.setattr(questions, "agent_state", lambda state, request: None)
    samples.REFUNDS.clear()
    desk = Desk(samples.refunds())
    await desk.start("please refund")
    assert [one["name"] for one in desk.requests[0].card["actions"]] == ["approve", "reject"]
    await desk.answer({"action": "approve"}, {"action": "reject", "feedback": "no"})
    assert samples.REFUNDS == [(7, 40.0)]
    samples.REFUNDS.clear()


def test_whether_a_sub_workflow_passes_questions_on_is_known():
    assert WorkflowExecutor(samples.review_workflow(), id="x")._propagate_request is False
    assert not hasattr(Workflow, "_propagate_request")
