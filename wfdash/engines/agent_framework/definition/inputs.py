"""Types of messages and answers as schemas, what starts a workflow, and JSON as values of them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, get_args, get_origin, get_type_hints

from checkpoints.records import Json
from wfdash.contract import InvalidInput
from wfdash.engines.agent_framework.definition.definitions import executors_of
from wfdash.engines.agent_framework.library import is_function, is_kind, is_of
from wfdash.engines.serving import Served
from wfdash.questions.card import AnswerType
from wfdash.values.codec import codec_for

CHAT = ("Message", "Content", "AgentExecutorRequest", "AgentExecutorResponse")
"""The framework's own kinds of messages: people write text."""
TEXT: dict[str, Json] = {"type": "string", "title": "Message", "minLength": 1, "format": "textarea"}
ANYTHING: dict[str, Json] = {"title": "Message"}


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


def input_schema(kinds: Sequence[Any]) -> dict[str, Json]:
    """Return the schema of what starts a workflow whose first executor takes these types."""
    if chat_kind(kinds) is not None:
        return dict(TEXT)
    schemas = [schema for kind in kinds if (schema := schema_of(kind)) is not None]
    if not schemas:
        return dict(ANYTHING)
    if len(schemas) == 1:
        return schemas[0]
    shared: dict[str, Json] = {}
    for schema in schemas:
        shared |= schema.pop("$defs", {})
    return {"anyOf": schemas} | ({"$defs": shared} if shared else {})


def schema_of(kind: Any) -> dict[str, Json] | None:
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


def schema_for(served: Served, workflow: Any) -> dict[str, Json]:
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


def follow_up_schema(served: Served, workflow: Any) -> dict[str, Json] | None:
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
