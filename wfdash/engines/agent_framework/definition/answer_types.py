"""Types of messages and answers as JSON Schema, and JSON as values of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args, get_origin

from checkpoints.records import Json
from wfdash.contract import InvalidInput
from wfdash.engines.agent_framework.library import is_kind
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
    for kind in sorted(kinds, key=lambda one: not _is_exact(one, message)):
        try:
            return codec_for(kind).decode(message, "input")
        except Exception as error:  # The author's own validators raise anything.
            problems.append(str(error))
    words = problems[0] if problems else "The workflow's first executor takes nothing that can be written as JSON"
    raise InvalidInput([{"loc": [], "msg": words}])


def _is_exact(kind: Any, message: Json) -> bool:
    return kind is type(message)
