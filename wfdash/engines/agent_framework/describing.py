"""A workflow of the framework as the dashboard knows it: drawn, with what it takes, and whom it asks.

Executors are steps, edges are arrows, with their code. Types of messages and answers become schemas, and JSON becomes
values of them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from checkpoints.ids import WorkflowId
from checkpoints.records import Json, JsonObject, Request
from wfdash.contract import Addressees, Description, EdgeInfo, InvalidInput, StepInfo
from wfdash.domain.labels import label_of_name, label_of_step
from wfdash.engines.agent_framework.allowed_types import namespaces, response_types
from wfdash.engines.agent_framework.definitions import (
    agents_of,
    executors_of,
    is_function,
    is_kind,
    is_of,
    nested,
    steps_of,
    tools_of,
    workflow_for_drive,
)
from wfdash.engines.serving import Served, problems_by_type
from wfdash.installation.workflow_sources import check_framework
from wfdash.questions.card import AnswerType
from wfdash.questions.policy import Policy, addressees_of
from wfdash.values.codec import codec_for

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


CHAT = ("Message", "Content", "AgentExecutorRequest", "AgentExecutorResponse")
"""The framework's own kinds of messages: people write text."""
TEXT: JsonObject = {"type": "string", "title": "Message", "minLength": 1, "format": "textarea"}
ANYTHING: JsonObject = {"title": "Message"}


def is_chat(kind: Any) -> bool:
    """Return whether a type is a message of a conversation, or a list of such."""
    if get_origin(kind) is not None:
        return any(is_chat(one) for one in get_args(kind))
    return is_kind(kind, *CHAT)


def chat_value(text: str, kind: Any) -> Any:
    """Return a person's text as a message of this type."""
    from agent_framework import AgentExecutorRequest, Content, Message

    if kind is Content:
        return Content.from_text(text)
    if get_origin(kind) is list:
        return [chat_value(text, Message)]
    message = Message(role="user", contents=[text])
    return AgentExecutorRequest(messages=[message], should_respond=True) if kind is AgentExecutorRequest else message


def chat_kind(kinds: Sequence[Any]) -> Any:
    """Return which of these types a person's text becomes: text itself, else a message; None if none is a chat's."""
    if not any(is_chat(kind) for kind in kinds):
        return None
    if str in kinds:
        return str
    order = [kind for kind in kinds if is_chat(kind) and not is_kind(kind, "AgentExecutorResponse")]
    return order[0] if order else None


def input_schema(kinds: Sequence[Any]) -> JsonObject:
    """Return the schema of what starts a workflow whose first executor takes these types."""
    if chat_kind(kinds) is not None:
        return dict(TEXT)
    schemas = [schema for kind in kinds if (schema := schema_of(kind)) is not None]
    if not schemas:
        return dict(ANYTHING)
    if len(schemas) == 1:
        return schemas[0]
    shared: JsonObject = {}
    for schema in schemas:
        shared |= schema.pop("$defs", {})
    return {"anyOf": schemas} | ({"$defs": shared} if shared else {})


def schema_of(kind: Any) -> JsonObject | None:
    """Return the JSON Schema of a type; None if it has none."""
    try:
        return AnswerType(kind).schema()
    except Exception:  # A type without JSON form: its author decides, not its class's errors.
        return None


def read_input(kinds: Sequence[Any], message: Json) -> Any:
    """Return the message as the first of these types that it fits. ``InvalidInput`` if it fits none."""
    chat = chat_kind(kinds)
    if chat is not None:
        if not isinstance(message, str) or not message.strip():
            raise InvalidInput([{"loc": [], "msg": "Enter a message"}])
        return message if chat is str else chat_value(message, chat)
    problems: list[str] = []
    for kind in sorted(kinds, key=lambda one: one is not type(message)):
        try:
            return codec_for(kind).decode(message, "input")
        except Exception as error:  # The author's own validators raise anything.
            problems.append(str(error))
    words = problems[0] if problems else "The workflow's first executor takes nothing that can be written as JSON"
    raise InvalidInput([{"loc": [], "msg": words}])


class TakesNothing(ValueError):
    """A function without a message cannot be run by the framework: the message says what to add."""


class NotTaken(ValueError):
    """An option of ``serve`` that the framework has no place for: the message says which it has."""


OPTIONS = frozenset({"client_kwargs", "function_invocation_kwargs", "tools"})
"""Names of ``config`` for a graph: what its agents hand to chat clients and tools, and further tools."""


def schema_for(served: Served, workflow: Any) -> JsonObject:
    """Return the schema of the input: that given to ``serve``, else that of the workflow's own types."""
    return dict(served.input) if isinstance(served.input, dict) else input_schema(kinds_of(served, workflow))


def input_for(served: Served, workflow: Any, message: Json) -> Any:
    """Return JSON as the message that the workflow's first executor takes. ``InvalidInput``."""
    if isinstance(served.input, dict) and chat_kind(kinds_of(served, workflow)) is None:
        found = message
    else:
        found = read_input(kinds_of(served, workflow), message)
    if found is None:
        raise InvalidInput([{"loc": [], "msg": "Agent Framework starts no workflow with nothing: enter a value"}])
    return found


def follow_up_schema(served: Served, workflow: Any) -> JsonObject | None:
    """Return the schema of a follow-up message: that of a conversation; None for a workflow that holds none."""
    if is_function(workflow) or isinstance(served.input, dict):
        return None
    if any(is_of(executor, "MagenticOrchestrator") for executor in executors_of(workflow).values()):
        return None  # Once finished, it refuses any further message.
    kinds = kinds_of(served, workflow)
    return input_schema(kinds) if chat_kind(kinds) is not None else None


def options_for(served: Served, workflow: Any) -> dict[str, Any]:
    """Return what the workflow is run with besides its message: ``config`` of ``serve``. ``NotTaken``."""
    unknown = set() if is_function(workflow) else served.config.keys() - OPTIONS
    if unknown:
        raise NotTaken(f"serve(config=): Agent Framework takes {', '.join(sorted(OPTIONS))}, not {min(unknown)}")
    if served.context is not None:
        raise NotTaken("serve(context=): Agent Framework takes no context; give config=")
    return dict(served.config)


def kinds_of(served: Served, workflow: Any) -> list[Any]:
    """Return the types that start a workflow."""
    if served.input is not None and not isinstance(served.input, dict):
        return [served.input]
    if not is_function(workflow):
        return list(workflow.input_types)
    return [_message_type(workflow.__wrapped__)]


def _message_type(function: Any) -> Any:
    try:
        hints = get_type_hints(function)
    except Exception:  # An annotation that cannot be resolved says nothing of the type.
        hints = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kind = hints.get(name, parameter.annotation)
        if name != "ctx" and not is_kind(kind, "RunContext"):
            return Any if kind is parameter.empty else kind
    raise TakesNothing(
        f"{function.__name__} takes no message, and Agent Framework runs no workflow without one: add a parameter"
    )


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


def check_answer(workflow: Any, request: Request, value: Json) -> list[JsonObject]:
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
