"""Tool calls that wait for approval: the card, and what an answer does to the agent that asked.

An agent keeps its pending calls in its own state, and runs the call that is recorded there, whatever an answer holds.
So arguments that a person has edited are written there, and so are words for the model: in the checkpoint that the run
continues from, in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkpoints.records import Json
from wfdash.engines.agent_framework.definition.definitions import agents_of, tools_of
from wfdash.engines.agent_framework.library import is_of
from wfdash.engines.agent_framework.stored.transcripts import EXECUTORS, arguments_of
from wfdash.questions.card import Asking
from wfdash.questions.cards import prepare
from wfdash.questions.evidence import Evidence
from wfdash.questions.tools import ToolCall, ToolDecision, Verb

ALL: tuple[Verb, ...] = ("approve", "edit", "reject", "respond")
PLAIN: tuple[Verb, ...] = ("approve", "reject")
REJECTED = "The call of {tool} was rejected by a person, who said: {words}"
ANSWERED = "The call of {tool} was not made. A person answered in its place: {words}"


def is_approval(value: Any) -> bool:
    """Return whether a request is one to approve a tool call."""
    return is_of(value, "Content") and value.type == "function_approval_request" and value.function_call is not None


def is_call(value: Any) -> bool:
    """Return whether a request is a tool call that people answer: its tool has no function."""
    return is_of(value, "Content") and value.type == "function_call"


def ask(workflow: Any, request: Any, state: Mapping[str, Any], evidence: list[Evidence]) -> Asking:
    """Return the question about a tool call. ``state``: that of the checkpoint in which it is pending."""
    call = request.function_call if is_approval(request) else request
    arguments = arguments_of(call)
    tools = (tool for agent in agents_of(workflow) for tool in tools_of(agent))
    tool = next((one for one in tools if getattr(one, "name", None) == call.name), None)
    known = agent_state(state, request.id) is not None
    allow: tuple[Verb, ...] = (ALL if known else PLAIN) if is_approval(request) else ("respond",)
    card = ToolCall(
        tool=call.name,
        arguments=arguments if isinstance(arguments, dict) else {"arguments": arguments},
        parameters=_parameters(tool) if isinstance(arguments, dict) else None,
        body=str(getattr(tool, "description", "") or ""),
        allow=allow,
        evidence=evidence,
    )
    return prepare(card, None)


def _parameters(tool: Any) -> dict[str, Json] | None:
    try:
        schema = tool.parameters()
    except Exception:  # A tool of another kind: its arguments are shown as they are.
        return None
    return dict(schema) if isinstance(schema, dict) and schema.get("properties") else None


def answer(request: Any, decision: ToolDecision, state: Any) -> Any:
    """Return the response to a request, having written into the agent's state what the response cannot carry."""
    from agent_framework import Content

    if not is_approval(request):
        return Content.from_function_result(call_id=request.call_id, result=decision.response or "")
    kept, tool = agent_state(state, request.id), request.function_call.name
    if decision.action == "edit" and kept is not None:
        for record in _records_of(kept, request.function_call):
            _set(record, "arguments", dict(decision.arguments))
        request.function_call.arguments = dict(decision.arguments)
    words = decision.response if decision.action == "respond" else decision.feedback
    if words and kept is not None:
        said = ANSWERED if decision.action == "respond" else REJECTED
        kept["pending_responses_to_agent"].append(Content.from_text(said.format(tool=tool, words=words)))
    return request.to_function_approval_response(decision.approved)


def agent_state(state: Any, request_id: str) -> Any:
    """Return what the executor keeps that waits for this request, in sub-workflows too; None where it is not found."""
    executors = state.get(EXECUTORS) if isinstance(state, Mapping) else None
    for one in (executors or {}).values():
        if not isinstance(one, dict):
            continue
        if request_id in (one.get("pending_agent_requests") or {}) and "pending_responses_to_agent" in one:
            return one
        inner = getattr(one.get("sub_workflow_checkpoint"), "state", None)
        found = agent_state(inner, request_id)
        if found is not None:
            return found
    return None


def _records_of(kept: Any, call: Any) -> Iterator[Any]:
    """Yield every record of a call in an agent's state: the framework's objects, and their dicts."""
    seen: set[int] = set()
    pending = [kept]
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, (list, tuple)):
            pending += value
        elif is_of(value, "Content", "Message"):
            pending += vars(value).values()
        if _is_call(value, call):
            yield value


def _is_call(value: Any, call: Any) -> bool:
    if not (isinstance(value, dict) or is_of(value, "Content")):
        return False
    return _get(value, "type") == "function_call" and all(
        _get(value, name) == getattr(call, name) for name in ("call_id", "name", "id")
    )


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _set(value: Any, name: str, item: Any) -> None:
    if isinstance(value, dict):
        value[name] = item
    else:
        setattr(value, name, item)
