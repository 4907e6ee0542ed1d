"""Whom a workflow asks, and what their answers must be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

from pydantic import BaseModel

from checkpoints.records import Json, Request
from wfdash.contract import Addressees
from wfdash.engines.agent_framework.definition.allowed_types import namespaces, response_types
from wfdash.engines.agent_framework.definition.definitions import agents_of, executors_of, nested, tools_of
from wfdash.engines.agent_framework.definition.describing import asks_people
from wfdash.engines.agent_framework.definition.inputs import schema_of
from wfdash.engines.agent_framework.library import is_function
from wfdash.engines.serving import Served, problems_by_type
from wfdash.questions.policy import Policy, addressees_of


def addressees(served: Served, workflow: Any) -> list[Addressees]:
    """Return whom the questions of each step that may ask are addressed to, one entry for each policy."""
    steps = [workflow.name]
    if not is_function(workflow):
        steps = [name for name, executor in executors_of(workflow).items() if asks_people(executor)]
    return [addressees_of(step, policy) for step in steps for policy in _policies(served, workflow, step)]


def _policies(served: Served, workflow: Any, step: str) -> list[Policy]:
    tools = [tool.name for agent in agents_of(workflow) for tool in tools_of(agent) if hasattr(tool, "name")]
    found = [served.policy_of(step), *(served.policy_of(tool, step) for tool in tools if tool in served.policies)]
    return list({id(one): one for one in found if one is not None}.values())


def check_answer(workflow: Any, request: Request, value: Json) -> list[dict[str, Json]]:
    """Return what the type of a question's answer rejects in a value that is valid by its schema.

    The type is one of those the workflow's handlers take, or that its modules define, with the schema that was asked.
    """
    for kind in _kinds(workflow):
        if schema_of(kind) == request.answer_schema:
            return problems_by_type(kind, value)
    return []


def _kinds(workflow: Any) -> Iterator[Any]:
    for executor in executors_of(workflow).values():
        yield from (answer for _, answer in response_types(executor))
    for _, inner in nested(workflow):
        yield from _kinds(inner)
    for namespace in namespaces(workflow):
        classes = [value for value in list(namespace.values()) if isinstance(value, type)]
        yield from (one for one in classes if issubclass(one, BaseModel) or is_dataclass(one))
