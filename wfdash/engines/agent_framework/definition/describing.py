"""A workflow of the framework as the dashboard draws it: executors are steps, edges are arrows, with their code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from checkpoints.ids import WorkflowId
from wfdash.contract import Description, EdgeInfo, StepInfo
from wfdash.domain.labels import label_of_name, label_of_step
from wfdash.engines.agent_framework.definition.definitions import (
    executors_of,
    nested,
    steps_of,
    tools_of,
    workflow_for_drive,
)
from wfdash.engines.agent_framework.definition.inputs import follow_up_schema, options_for, schema_for, schema_of
from wfdash.engines.agent_framework.library import is_function, is_kind, is_of
from wfdash.engines.serving import Served
from wfdash.installation.workflow_sources import check_framework

ENGINE = "agent_framework"
LOST = (
    "**Questions of {name} reach no one.** Its sub-workflow asks people, and nothing here passes that on: give its "
    "WorkflowExecutor `propagate_request=True`, or handle `SubWorkflowRequestMessage`."
)


def describe(served: Served) -> Description:
    """Return the description of a workflow. ``UnusableFramework``, ``NotCopyable``, ``TakesNothing``, ``NotTaken``."""
    check_framework("agent_framework")
    workflow = workflow_for_drive(served)
    name = name_of(served, workflow)
    notes = [LOST.format(name=one) for one in lost_questions(workflow)]
    doc = served.doc or _doc(workflow)
    options_for(served, workflow)
    steps, edges = _function(workflow) if is_function(workflow) else _graph(workflow)
    served.check_steps(step.name for step in steps)
    return Description(
        workflow=WorkflowId(name),
        title=served.title or label_of_name(name),
        doc="\n\n".join(one for one in (doc, *notes) if one),
        engine=ENGINE,
        version=version_of(workflow),
        input_schema=schema_for(served, workflow),
        output_schema=_output_schema(workflow),
        follow_up_schema=follow_up_schema(served, workflow),
        queue=served.queue,
        limit=served.limit,
        steps=tuple(steps),
        edges=tuple(edges),
    )


def version_of(workflow: Any) -> str:
    """Return the framework's own signature of a workflow: with another one it reads no checkpoint."""
    return str(workflow.graph_signature_hash)


def name_of(served: Served, workflow: Any) -> str:
    """Return the name that runs are kept under: as given to ``serve``, the workflow's own, or its variable's."""
    return served.name or _own_name(workflow) or served.variable


def _own_name(workflow: Any) -> str:
    """Return the name its author gave it; empty for the one the framework makes up."""
    name = str(getattr(workflow, "name", "") or "")
    made_up = re.fullmatch(r"WorkflowBuilder-[0-9a-f-]{36}|[0-9a-f]{8}-[0-9a-f-]{27}", name)
    return "" if made_up else name


def _doc(workflow: Any) -> str:
    if is_function(workflow):
        return str(workflow.description or inspect.getdoc(workflow.__wrapped__) or "")
    return str(workflow.description or "")


def _graph(workflow: Any) -> tuple[list[StepInfo], list[EdgeInfo]]:
    order = [workflow.start_executor_id, *(one for one in workflow.executors if one != workflow.start_executor_id)]
    steps = [_step(name, workflow.executors[name]) for name in order]
    return steps, list({(one.source, one.target): one for one in _edges(workflow)}.values())


def _step(name: str, executor: Any) -> StepInfo:
    agent = getattr(executor, "agent", None)
    function = getattr(executor, "_original_func", None)
    written, doc = _written(executor), None if function else getattr(agent, "description", None)
    doc = doc or (inspect.getdoc(written) if written else "")
    return StepInfo(
        name=name,
        title=label_of_step(name),
        doc=str(doc or ""),
        person=asks_people(executor),
        takes=_names(executor.input_types),
        gives=_names((*executor.output_types, *executor.workflow_output_types)),
    )


def _names(kinds: Any) -> str:
    found = dict.fromkeys(getattr(kind, "__name__", None) or str(kind) for kind in kinds)
    return ", ".join(list(found)[:3])


def asks_people(executor: Any) -> bool:
    """Return whether an executor may ask people."""
    inner = getattr(executor, "workflow", None)
    if inner is not None:
        return any(asks_people(one) for one in executors_of(inner).values())
    agent = getattr(executor, "agent", None)
    if agent is not None and is_of(executor, "AgentExecutor"):
        return any(getattr(tool, "approval_mode", None) == "always_require" for tool in tools_of(agent))
    return bool(getattr(executor, "is_request_response_capable", False))


def lost_questions(workflow: Any) -> list[str]:
    """Return the executors whose sub-workflows ask people in vain: nothing passes their questions on."""
    takers = [
        executor
        for executor in executors_of(workflow).values()
        if any(is_kind(kind, "SubWorkflowRequestMessage") for kind in executor.input_types)
    ]
    found = [
        name
        for name, _ in nested(workflow)
        if not takers
        and asks_people(workflow.executors[name])
        and not getattr(workflow.executors[name], "_propagate_request", True)
    ]
    return [*found, *(f"{name}, {one}" for name, inner in nested(workflow) for one in lost_questions(inner))]


def _edges(workflow: Any) -> Iterator[EdgeInfo]:
    for group in workflow.edge_groups:
        cases = {case.target_id: case for case in getattr(group, "cases", ())}
        for edge in group.edges:
            if edge.source_id in workflow.executors and edge.target_id in workflow.executors:
                yield EdgeInfo(source=edge.source_id, target=edge.target_id, **_kind(group, edge, cases))


def _kind(group: Any, edge: Any, cases: dict[str, Any]) -> dict[str, str]:
    case = cases.get(edge.target_id)
    if case is not None:
        condition = getattr(case, "condition_name", None)
        return {"kind": "case", "label": _words(condition)} if condition else {"kind": "otherwise"}
    if is_of(group, "FanInEdgeGroup"):
        return {"kind": "join"}
    condition = getattr(edge, "condition_name", None) or getattr(group, "selection_func_name", None)
    return {"kind": "when", "label": _words(condition)} if condition else {}


def _words(name: str) -> str:
    return "" if "<" in name else name.replace("_", " ").strip()


def _function(workflow: Any) -> tuple[list[StepInfo], list[EdgeInfo]]:
    name = workflow.name
    inner = [one for one in steps_of(workflow) if one != name]
    code = inspect.unwrap(workflow.__wrapped__).__code__
    body = StepInfo(name=name, title=label_of_step(name), doc=_doc(workflow), person="request_info" in code.co_names)
    steps = [StepInfo(name=one, title=label_of_step(one)) for one in inner]
    return [body, *steps], [EdgeInfo(source=name, target=one) for one in inner]


def _output_schema(workflow: Any) -> dict[str, object]:
    executors = [] if is_function(workflow) else workflow.get_output_executors()
    kinds = list(dict.fromkeys(kind for executor in executors for kind in executor.workflow_output_types))
    if any(is_kind(kind, "AgentResponse", "AgentResponseUpdate") for kind in kinds):
        return {"type": "string", "title": "Output"} if len(kinds) <= 2 else {}
    schema = schema_of(kinds[0]) if len(kinds) == 1 else None
    return schema or {}


def code_places(workflow: Any) -> Iterator[tuple[str, str, int]]:
    """Yield each step that is an author's function or class: its name, file and first line."""
    sources = {name: _written(executor) for name, executor in executors_of(workflow).items()}
    if is_function(workflow):
        sources[workflow.name] = workflow.__wrapped__
    for name, source in sources.items():
        code = getattr(inspect.unwrap(source), "__code__", None) if callable(source) else None
        if code is not None:
            yield name, code.co_filename, code.co_firstlineno
        elif isinstance(source, type):
            with suppress(OSError, TypeError):
                yield name, inspect.getsourcefile(source) or "", inspect.getsourcelines(source)[1]


def _written(executor: Any) -> Any:
    """Return the function or class in which an author wrote an executor; None for the framework's own."""
    function = getattr(executor, "_original_func", None)
    own = type(executor)
    return function or (None if own.__module__.startswith("agent_framework") else own)
