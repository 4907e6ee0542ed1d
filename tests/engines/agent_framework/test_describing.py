"""Workflows as the dashboard draws and checks them, and those that cannot be served."""

from __future__ import annotations

import copy
import threading
from types import ModuleType

import pytest

pytest.importorskip("agent_framework")

from agent_framework import WorkflowBuilder

from checkpoints.errors import Incompatible
from tests.engines.agent_framework import functions, samples
from tests.engines.agent_framework.desk import Desk
from wfdash.contract import (
    ChecksAnswers,
    Continues,
    Engine,
    InvalidInput,
    LocatesCode,
    Migrates,
    NamesPeople,
    NamesSecrets,
    Shows,
)
from wfdash.engines import serve
from wfdash.engines.agent_framework import AgentFrameworkEngine
from wfdash.engines.catalog import definitions_in
from wfdash.installation import workflow_sources
from wfdash.questions.policy import Policy

engine: Engine = AgentFrameworkEngine()


def test_it_has_the_abilities_it_needs():
    for ability in (ChecksAnswers, Continues, LocatesCode, Migrates, NamesPeople, NamesSecrets, Shows):
        assert isinstance(engine, ability)


def test_executors_are_steps_and_edges_are_arrows():
    desk = Desk(samples.routed())
    found = engine.describe(desk.served)
    assert (found.workflow, found.title, found.engine) == ("routed", "Routed", "agent_framework")
    assert [(one.name, one.person) for one in found.steps] == [
        ("write", False),
        ("reviewer", True),
        ("cheap", False),
        ("other", False),
    ]
    assert {(one.source, one.target, one.kind, one.label) for one in found.edges} == {
        ("write", "reviewer", "case", "is dear"),
        ("write", "cheap", "otherwise", ""),
        ("cheap", "other", "when", "is odd"),
    }
    assert found.steps[0].doc == "Write a draft."
    assert (found.steps[0].takes, found.steps[0].gives) == ("str", "Draft")


def test_it_is_served_under_its_own_name_its_variables_or_the_one_given():
    module = ModuleType("some_module")
    module.first = samples.review_workflow()
    module.unnamed = WorkflowBuilder(start_executor=samples.write).build()
    module.publish = functions.publish
    found = definitions_in(module, [engine])
    assert [engine.describe(one.definition).workflow for one in found] == ["review", "unnamed", "publish"]
    named = serve(samples.review_workflow, name="by_a_factory", title="Ours", doc="What it does.")
    module.named = named
    (one,) = definitions_in(module, [engine])
    found = engine.describe(one.definition)
    assert (found.workflow, found.title, found.doc) == ("by_a_factory", "Ours", "What it does.")


def test_the_workflow_inside_of_another_is_not_served_beside_it():
    module = ModuleType("some_module")
    module.outer = samples.nested_review()
    module.inner = module.outer.executors["desk"].workflow
    assert [one.variable for one in definitions_in(module, [engine])] == ["outer"]


def test_questions_that_would_reach_no_one_are_named():
    lost = engine.describe(Desk(samples.nested_review(propagate=False)).served)
    assert "Questions of desk reach no one" in lost.doc
    assert "Questions of" not in engine.describe(Desk(samples.nested_review()).served).doc


def test_a_copy_has_the_same_version_as_what_it_is_a_copy_of():
    workflow = samples.review_workflow()
    version = engine.describe(Desk(workflow).served).version
    assert version == engine.describe(Desk(copy.deepcopy(workflow)).served).version
    assert version == engine.describe(Desk(samples.review_workflow()).served).version
    assert version != engine.describe(Desk(samples.routed()).served).version


def test_the_input_is_checked_by_the_types_of_the_first_executor():
    desk = Desk(samples.from_draft())
    assert engine.describe(desk.served).input_schema["properties"]["amount"] == {"title": "Amount", "type": "number"}
    assert engine.check_input(desk.served, {"title": "x", "amount": 1}) == {"title": "x", "amount": 1}
    with pytest.raises(InvalidInput, match="amount"):
        engine.check_input(desk.served, {"title": "x", "amount": "much"})


def test_an_agent_takes_text():
    desk = Desk(samples.chat())
    assert engine.describe(desk.served).input_schema["format"] == "textarea"
    with pytest.raises(InvalidInput, match="Enter a message"):
        engine.check_input(desk.served, "  ")


async def test_an_answer_that_its_own_type_rejects_is_refused_before_it_is_taken():
    desk = Desk(samples.review_workflow())
    await desk.start("Spring")
    check = desk.engine.check_answer
    assert check(desk.served, desk.requests[0], {"verdict": "publish", "words": "fine"}) == []
    assert check(desk.served, desk.requests[0], {"verdict": "publish", "words": "NO"}) == [
        {"loc": ["words"], "msg": "do not shout"}
    ]


async def test_policies_decide_who_is_asked_about_which_tool():
    policies = {"refund": Policy(by="finance", not_by="requester", due="4h")}
    desk = Desk(samples.refunds(), policies=policies, policy=Policy(by="shop"))
    await desk.start("please refund")
    assert {(one.by, one.not_by) for one in desk.requests} == {(("finance",), ("requester",))}
    assert all(one.due for one in desk.requests)
    assert [(one.step, one.by) for one in desk.engine.addressees(desk.served)] == [
        ("clerk", ("shop",)),
        ("clerk", ("finance",)),
    ]


def test_its_code_is_found():
    desk = Desk(samples.routed())
    places = {name: (file, line) for name, file, line in desk.engine.code_places(desk.served)}
    assert places["write"][0].endswith("samples.py")
    assert places["reviewer"][1] > 0


def test_an_unsupported_version_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workflow_sources, "version", lambda name: "1.20.3")
    with pytest.raises(
        workflow_sources.UnusableFramework, match=r"agent-framework-core 1\.20\.3 is installed, and 1\.23 or newer"
    ):
        engine.describe(Desk(samples.review_workflow()).served)


def test_a_workflow_that_cannot_be_copied_says_what_to_serve_instead():
    workflow = samples.review_workflow()
    workflow.executors["reviewer"].lock = threading.Lock()
    with pytest.raises(ValueError, match=r"sample cannot be copied for each run .*sample = serve\(build_sample\)"):
        engine.describe(Desk(workflow).served)


def test_agents_and_their_clients_are_shared_by_the_copies():
    from wfdash.engines.agent_framework.definitions import agents_of, workflow_for_drive

    workflow = samples.refunds()
    next(agents_of(workflow)).client.lock = threading.Lock()
    made = workflow_for_drive(Desk(workflow).served)
    assert made is not workflow
    assert list(agents_of(made)) == list(agents_of(workflow))


def test_a_checkpoint_of_another_engine_is_refused(checkpoint_of_no_engine):
    with pytest.raises(Incompatible, match="not written by the engine of Agent Framework"):
        AgentFrameworkEngine().show(checkpoint_of_no_engine)


def test_nothing_of_the_framework_is_imported_before_a_workflow_of_it_is_served(run_python):
    code = """
import sys
from wfdash.engines.agent_framework import AgentFrameworkEngine
print(AgentFrameworkEngine().accepts(object()), "agent_framework" in sys.modules)
"""
    assert run_python(code) == "False False"


async def test_a_run_of_another_graph_is_held_until_an_operator_continues_it():
    desk = Desk(samples.review_workflow())
    await desk.start("Spring")
    changed = Desk(samples.review_and_archive())
    old = desk.engine.describe(desk.served)
    with pytest.raises(Incompatible, match=r"archive.* Agent Framework has no migrations"):
        changed.engine.carry(changed.served, desk.head, old)
    carried = changed.engine.carry(changed.served, desk.head, old, override=True)
    head = desk.head.model_copy(
        update={"body": carried.body, "version": changed.engine.describe(changed.served).version}
    )
    await changed.resume({desk.requests[0].key: {"verdict": "reject"}}, at=head)
    assert changed.output == "Spring rejected"


async def test_a_run_is_not_continued_where_a_step_is_gone_that_it_holds_something_of():
    desk = Desk(samples.review_workflow())
    await desk.start("Spring")
    other = Desk(samples.questionnaire())
    with pytest.raises(Incompatible, match="holds the state of reviewer, write, which the workflow no longer has"):
        other.engine.carry(other.served, desk.head, None, override=True)


async def test_options_of_serve_reach_the_tools_of_an_agent():
    desk = Desk(samples.signing(), config={"function_invocation_kwargs": {"clerk": "Ida"}})
    await desk.start("please sign")
    await desk.answer({"action": "approve"})
    assert desk.output == "signed by Ida"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"config": {"temperature": 1}}, r"serve\(config=\): Agent Framework takes client_kwargs, .* not temperature"),
        ({"context": object()}, r"serve\(context=\): Agent Framework takes no context"),
    ],
)
def test_options_that_the_framework_does_not_take_are_refused(options: dict, words: str):
    with pytest.raises(ValueError, match=words):
        engine.describe(Desk(samples.chat(), **options).served)


def test_a_workflow_that_ends_for_good_takes_no_follow_up():
    pytest.importorskip("agent_framework_orchestrations")
    from tests.engines.agent_framework.orchestrations import magentic, sequential

    assert engine.describe(Desk(magentic()).served).follow_up_schema is None
    assert engine.describe(Desk(sequential()).served).follow_up_schema is not None
