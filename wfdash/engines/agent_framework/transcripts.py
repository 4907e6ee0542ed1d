"""The conversation of a workflow's agents as one transcript; messages and results as JSON for pages.

Each executor keeps the conversation as its agent saw it. One transcript of all of them is made as the run goes: after
every superstep, what some agent saw and the transcript lacks is added before what that agent saw next, else to the end.
Pages show what was said, without ids and raw representations.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from checkpoints.records import Json, JsonObject
from checkpoints.rules import reported_usage
from wfdash.contract import Message, ToolUse
from wfdash.engines.agent_framework.definitions import is_of
from wfdash.values.display import to_display

ROLES = frozenset({"system", "user", "assistant", "tool"})
MOST = 2_000
"""Messages that are kept; the earliest are left out."""


def extended(transcript: Sequence[Message], conversations: Iterable[Sequence[Any]]) -> tuple[Message, ...]:
    """Return the transcript with what these conversations have more. Messages are the framework's, or their dicts."""
    found = [(_key(one), one) for one in transcript]
    have = Counter(key for key, _ in found)
    for conversation in conversations:
        seen, new = Counter[object](), list[tuple[object, Message]]()
        for one in messages(conversation):
            key = _key(one)
            seen[key] += 1
            if seen[key] > have[key]:
                have[key] += 1
                new.append((key, one))
            elif new:
                at = [place for place, (known, _) in enumerate(found) if known == key][seen[key] - 1]
                found[at:at], new = new, []
        found += new
    return tuple(one for _, one in found[-MOST:])


def messages(conversation: Iterable[Any]) -> Iterator[Message]:
    """Yield the messages of a conversation; those without text, call or result are left out."""
    tools: dict[str, str] = {}
    for one in conversation:
        contents = list(_field(one, "contents") or ())
        role = str(_field(one, "role") or "")
        results = [item for item in contents if _field(item, "type") == "function_result"]
        yield from (_result(item, tools) for item in results)
        text = "\n".join(str(_field(item, "text")) for item in contents if _field(item, "type") == "text").strip()
        calls = tuple(
            ToolUse(
                id=str(_field(item, "call_id") or ""),
                name=str(_field(item, "name") or ""),
                arguments=arguments_of(item),
            )
            for item in contents
            if _field(item, "type") == "function_call"
        )
        tools |= {call.id: call.name for call in calls}
        if (text or calls) and role in ROLES:
            name = str(_field(one, "author_name") or "")
            yield Message.model_validate({"role": role, "text": to_display(text), "name": name, "calls": calls})


def arguments_of(item: Any) -> Json:
    """Return the arguments of a call: an object, or the text that is none."""
    arguments = _field(item, "arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            return to_display(arguments)
    return to_display({} if arguments is None else arguments)


def _result(item: Any, tools: Mapping[str, str]) -> Message:
    result = _field(item, "result")
    failed = _field(item, "exception") is not None or str(result).startswith("Error:")
    text = result if isinstance(result, str) else json.dumps(to_display(result), ensure_ascii=False)
    call = str(_field(item, "call_id") or "")
    return Message(role="tool", text=to_display(text), name=tools.get(call, ""), call=call, failed=failed)


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _key(message: Message) -> object:
    # Arguments that a person has edited are another call to the model; what it proposed stays here.
    calls = [(one.name, one.id or json.dumps(one.arguments, sort_keys=True)) for one in message.calls]
    # Whose words they are is known to their own agent alone: others see the same text under another role.
    return message.role == "tool", message.text, *calls, message.call


def usage_in(given: Any) -> Iterator[JsonObject]:
    """Yield what models have used for a response, or for a part of one that is streamed."""
    whole = [_field(given, "usage_details")] if is_of(given, "AgentResponse") else []
    parts = _field(given, "contents") if is_of(given, "AgentResponseUpdate") else None
    raw = _field(given, "raw_representation")
    models = [_field(one, "model") for one in (raw if isinstance(raw, list) else [raw])]
    for used in (*whole, *(_field(part, "usage_details") for part in parts or ())):
        tokens = (_field(used, "input_token_count"), _field(used, "output_token_count"))
        if found := reported_usage(next(filter(None, models), None), *tokens):
            yield found


def conversations_of(executor_states: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    """Yield the conversations that executors keep, sub-workflows included, each executor's longest."""
    for state in executor_states.values():
        if not isinstance(state, Mapping):
            continue
        inner = getattr(state.get("sub_workflow_checkpoint"), "state", None)
        if isinstance(inner, Mapping):
            yield from conversations_of(inner.get(EXECUTORS) or {})
        yield max(_conversations(state), key=len, default=[])


EXECUTORS = "_executor_state"
"""Where a checkpoint of the framework keeps what its executors keep."""


def _conversations(state: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    session = state.get("agent_session")
    kept = session.get("state") if isinstance(session, Mapping) else None
    for provider in (kept or {}).values():
        if isinstance(provider, Mapping) and isinstance(provider.get("messages"), list):
            yield provider["messages"]
    yield from (one for one in state.values() if isinstance(one, list) and one and hasattr(one[0], "contents"))


MAX_DEPTH = 20


def display(value: Any, depth: int = 0) -> Json:
    """Return any value of a workflow as JSON: a message or an agent's response is its text."""
    if depth > MAX_DEPTH or value is None or isinstance(value, (str, int, float)):
        return to_display(value)
    if is_of(value, "AgentExecutorResponse"):
        return display(value.agent_response, depth + 1)
    if is_of(value, "AgentExecutorRequest"):
        asked = value.messages
        return display(asked[0] if len(asked) == 1 else asked, depth + 1)
    if is_of(value, "AgentResponse", "AgentResponseUpdate", "ChatResponse", "ChatResponseUpdate"):
        structured = getattr(value, "value", None)
        return to_display(value.text if structured is None else structured)
    if is_of(value, "Message"):
        shown = [content(one) for one in value.contents]
        return text_of(value) or (shown[0] if len(shown) == 1 else shown)
    if is_of(value, "Content"):
        return content(value)
    return _parts(value, depth + 1)


def _parts(value: Any, depth: int) -> Json:
    if isinstance(value, BaseModel):
        # A model's own serializers and secrets decide what is seen of it.
        return to_display(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: display(getattr(value, field.name), depth) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): display(item, depth) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [display(item, depth) for item in value]
    return to_display(value)


def content(value: Any) -> Json:
    """Return one content of a message: its text, or its plain fields."""
    if getattr(value, "text", None):
        return to_display(value.text)
    known = ("type", "name", "arguments", "result", "uri", "error_code", "message")
    found = {name: getattr(value, name, None) for name in known}
    call = getattr(value, "function_call", None)
    if call is not None:
        found |= {"name": call.name, "arguments": call.arguments}
    return to_display({name: item for name, item in found.items() if item is not None})


def text_of(message: Any) -> str:
    """Return the text of a message."""
    return str(getattr(message, "text", "") or "")
