"""What a graph takes: the type of its input as a form, and messages that begin a run or continue a conversation."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import typing_extensions
from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph.channels.base import BaseChannel
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError

from checkpoints.records import Checkpoint, Json, JsonObject, frozen
from wfdash.contract import InvalidInput, Resume, RunInput
from wfdash.domain.labels import humanize
from wfdash.engines.langgraph.graphs import Graph, Ready, function_of
from wfdash.engines.langgraph.thread import Thread, is_hidden
from wfdash.values.codec import type_problems
from wfdash.values.schemas.validate import problems_of

Schema: TypeAlias = JsonObject
MARKS = (typing_extensions.Required, typing_extensions.NotRequired, typing_extensions.ReadOnly)
"""What a field of a ``TypedDict`` may be marked as."""
ROLES = ["user", "assistant", "system", "tool"]
NAMED, TEXT = ("name", "tool_call_id"), {"type": "string"}
"""What else a message may say of itself."""
NO_TYPE = (PydanticSchemaGenerationError, PydanticUserError, PydanticInvalidForJsonSchema, TypeError, NameError)
"""What pydantic raises for a type that has no schema."""


_inputs: WeakKeyDictionary[Ready, Input] = WeakKeyDictionary()


def chat_schema(title: str = "Message") -> Schema:
    """Return the schema of a conversation: a text, or a list of messages. A form has one box for it."""
    message: Schema = {
        "type": "object",
        "title": "Message",
        "properties": {"role": {"type": "string", "enum": ROLES}, "content": {"type": "string"}}
        | dict.fromkeys(NAMED, TEXT),
        "required": ["role", "content"],
        # Neither an id, by which a reducer replaces what was said before, nor calls of tools that no model made.
        "additionalProperties": False,
    }
    said: Schema = {"type": "string", "title": "Text", "minLength": 1, "format": "textarea"}
    return {"title": title, "anyOf": [said, {"type": "array", "title": "Messages", "items": message, "minItems": 1}]}


@frozen
class InputPart:
    """One value of the input: its schema, and what makes a value of its type; ``chat``: it is a conversation."""

    schema: Schema
    read: Callable[[Json], Any]
    chat: bool = False


@frozen
class Input:
    """What a graph takes: an object with these fields, or one value alone."""

    fields: Mapping[str, InputPart] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    whole: InputPart | None = None
    context: str = ""
    """The field that is the run's context, which no node gets as its input; empty where the graph asks for none."""
    sole: bool = False
    """Whether the one value that the graph takes is a field, ``input``, because its context is another."""

    @property
    def chats(self) -> tuple[str, ...]:
        """Return the fields that are conversations."""
        return tuple(name for name, part in self.fields.items() if part.chat)

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        if self.whole is not None:
            return self.whole.schema
        required = {"required": list(self.required)} if self.required else {}
        properties = {name: titled(name, part.schema) for name, part in self.fields.items()}
        return object_schema(properties) | {"additionalProperties": False} | required

    def check(self, message: Json) -> None:
        """Raise ``InvalidInput`` with errors per field."""
        if problems := problems_of(self.schema(), message):
            raise InvalidInput(problems)
        self.read(message)

    def read(self, message: Json) -> Any:
        """Return a message as its type. ``InvalidInput``."""
        if self.whole is not None:
            return _read(self.whole, message, [])
        found = {
            name: _read(self.fields[name], value, [name]) for name, value in message.items() if name in self.fields
        }
        found.pop(self.context, None)
        return found["input"] if self.sole else found

    def read_context(self, given: Json) -> Any:
        """Return a run's context as its type; one that was not given has its defaults. ``InvalidInput``.

        None for a graph that asks for none, and for runs that were started before it did.
        """
        if not self.context or (given is None and self.context in self.required):
            return None
        return _read(self.fields[self.context], {} if given is None else given, [self.context])


def _read(part: InputPart, value: Json, loc: list[str | int]) -> Any:
    try:
        return part.read(value)
    except ValidationError as error:
        found = type_problems(error, value)
        raise InvalidInput([{**one, "loc": [*loc, *one["loc"]]} for one in found]) from error
    except (ValueError, TypeError, NotImplementedError, KeyError) as error:
        raise InvalidInput([{"loc": loc, "msg": f"is not valid: {error}"}]) from error


def titled(name: str, schema: Schema) -> Schema:
    """Return a schema with a title: that of its type, else the name of the value."""
    return schema if "title" in schema or "$ref" in schema else {"title": humanize(name), **schema}


def object_schema(properties: Mapping[str, Schema]) -> Schema:
    """Return the schema of an object with these properties. Their definitions become those of the whole."""
    definitions: Schema = {}
    for one in properties.values():
        definitions |= one.get("$defs", {})
    bare = {name: {key: part for key, part in one.items() if key != "$defs"} for name, one in properties.items()}
    return {"type": "object", "properties": bare} | ({"$defs": definitions} if definitions else {})


def input_of(ready: Ready) -> Input:
    """Return what a graph takes, as ``serve(input=)`` says, else as its own types do. Made once of a graph."""
    if ready not in _inputs:
        _inputs[ready] = _with_context(ready, _input_of(ready))
    return _inputs[ready]


def _input_of(ready: Ready) -> Input:
    given = ready.served.input
    if isinstance(given, dict):
        return Input(whole=InputPart(schema=given, read=lambda value: value))
    if given is not None:
        return _of_type(given, {}, required=True)
    builder = getattr(ready.graph, "builder", None)
    if builder is not None and list(builder.schemas[builder.input_schema]) != ["__root__"]:
        kind = builder.input_schema
        channels = {name: one for name, one in ready.graph.channels.items() if isinstance(one, BaseChannel)}
        return _of_type(kind, channels, required=kind is not builder.state_schema)
    keys = ready.graph.input_channels
    channel = ready.graph.channels.get(keys) if isinstance(keys, str) else None
    return Input(whole=part_of("input", channel.ValueType if isinstance(channel, BaseChannel) else Any, channel))


def _with_context(ready: Ready, bare: Input) -> Input:
    """Return the input with the context of a run, unless ``serve(context=)`` gives one or no form can be made of it."""
    kind = getattr(ready.graph, "context_schema", None)
    if ready.served.context is not None or not isinstance(kind, type):
        return bare
    part = part_of("context", kind, None)
    if "properties" not in part.schema and "$ref" not in part.schema:
        return bare
    closed = {"additionalProperties": False} if "properties" in part.schema else {}
    part = replace(part, schema={**closed, **part.schema, "title": "Context"})
    sole = bare.whole is not None
    fields = {"input": bare.whole} if bare.whole is not None else bare.fields
    name = "context" if "context" not in fields else "runtime_context"
    required = (*(["input"] if sole else bare.required), *([name] if problems_of(part.schema, {}) else []))
    return Input(fields={**fields, name: part}, required=required, context=name, sole=sole)


def _of_type(kind: Any, channels: Mapping[str, BaseChannel[Any, Any, Any]], *, required: bool) -> Input:
    """Return the fields of a class. ``required``: whether those of a ``TypedDict`` are; its own rules for any other."""
    hints = hints_of(kind)
    if not hints or not isinstance(kind, type):
        return Input(whole=part_of("input", kind, None))
    if not channels and not typing_extensions.is_typeddict(kind):
        return Input(whole=part_of("input", kind, None))
    names = [name for name in hints if not channels or name in channels]
    fields = {name: part_of(name, hints[name], channels.get(name)) for name in names}
    return Input(fields=fields, required=tuple(name for name in names if is_required(kind, name, required)))


def is_required(kind: Any, name: str, required: bool) -> bool:
    if issubclass(kind, BaseModel):
        return kind.model_fields[name].is_required() if name in kind.model_fields else False
    if dataclasses.is_dataclass(kind):
        one = next(field for field in dataclasses.fields(kind) if field.name == name)
        return one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
    return required and name in getattr(kind, "__required_keys__", ())


def part_of(name: str, kind: Any, channel: Any) -> InputPart:
    if is_chat(kind, channel):
        title = "Message" if name in {"messages", "input"} else humanize(name)
        return InputPart(schema=chat_schema(title), read=_messages, chat=True)
    while get_origin(kind) in MARKS:
        kind = get_args(kind)[0]
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(modern(kind))
        schema = adapter.json_schema()
    except NO_TYPE:
        return InputPart(schema={}, read=lambda value: value)
    return InputPart(schema=schema, read=adapter.validate_python)


def _messages(value: Json) -> list[BaseMessage]:
    return convert_to_messages([{"role": "user", "content": value}] if isinstance(value, str) else value)


def is_chat(kind: Any, channel: Any = None) -> bool:
    """Return whether a type, or the channel of one, is a list of messages."""
    reducer = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
    if getattr(reducer, "__name__", "") in {"add_messages", "_add_messages", "_messages_delta_reducer"}:
        return True
    if get_origin(kind) in (Annotated, *MARKS):
        return is_chat(get_args(kind)[0])
    arguments = get_args(kind)
    listed = isinstance(get_origin(kind), type) and len(arguments) == 1
    return listed and _is_message(arguments[0])


def _is_message(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        return _is_message(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return any(_is_message(one) for one in get_args(kind))
    return isinstance(kind, type) and issubclass(kind, BaseMessage)


def hints_of(kind: Any) -> dict[str, Any]:
    """Return the fields of a class with their types; empty for what has none, or where a name is unknown."""
    try:
        return get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError):
        module = sys.modules.get(getattr(kind, "__module__", ""))
        try:
            return get_type_hints(kind, globalns=vars(module) if module else None, include_extras=True)
        except Exception:
            return {}


def modern(kind: Any) -> Any:
    """Return a type in which each ``typing.TypedDict`` is one that pydantic takes, also before Python 3.12."""
    if typing_extensions.is_typeddict(kind):
        if sys.version_info >= (3, 12):
            return kind
        fields: dict[str, Any] = {}
        for name, hint in hints_of(kind).items():
            inner = modern(hint)
            bare = get_origin(hint) in MARKS
            mark: Any = typing_extensions.Required if name in kind.__required_keys__ else typing_extensions.NotRequired
            fields[name] = inner if bare else mark[inner]
        make: Any = typing_extensions.TypedDict
        made = make(kind.__name__, fields)
        made.__doc__, made.__module__ = kind.__doc__, kind.__module__
        return made
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return Annotated[(modern(arguments[0]), *arguments[1:])]
    if origin is None or origin is Literal or not arguments:
        return kind
    made = tuple(modern(one) if isinstance(one, type) or get_origin(one) else one for one in arguments)
    if made == arguments:
        return kind
    if origin in (Union, types.UnionType):
        return Union[made]  # noqa: UP007 - made of a tuple
    return origin[made]


def output_schema(graph: Graph) -> Schema:
    """Return the JSON Schema of a graph's output as pages show it, as far as its types say."""
    keys = graph.output_channels
    if isinstance(keys, str):
        channel = graph.channels.get(keys)
        return {} if not isinstance(channel, BaseChannel) else part_of("output", channel.ValueType, channel).schema
    found: Schema = {}
    for name in keys:
        channel = graph.channels.get(name)
        if not isinstance(channel, BaseChannel) or is_hidden(name):
            continue
        part = part_of(name, channel.ValueType, channel)
        found[name] = {"title": humanize(name), "type": "array"} if part.chat else part.schema
    return object_schema(found)


READING_PREVIOUS = frozenset({"previous", "runtime", "get_runtime"})
"""Names by which a function gets what its last run kept: the first two are parameters that LangGraph fills."""


def follow_up_schema(ready: Ready) -> Schema | None:
    """Return the schema of a message that continues a finished run; None for a graph that keeps no conversation.

    A chat takes its input again, with the next message. So does a function that may read what its last run kept. The
    context of the run before stays where no other is given.
    """
    wanted = input_of(ready)
    if not wanted.chats and not ((wanted.whole is not None or wanted.sole) and _reads_previous(ready)):
        return None
    if wanted.whole is not None:
        return wanted.schema()
    required = dict.fromkeys([*wanted.required, *wanted.chats[:1]])
    return {**wanted.schema(), "required": [name for name in required if name != wanted.context]}


def _reads_previous(ready: Ready) -> bool:
    """Return whether an entrypoint may read what its last run kept: by ``previous``, or from LangGraph's ``runtime``.

    True where its code is not known.
    """
    functions = [function_of(node) for node in ready.steps.values()]
    if "__previous__" not in ready.graph.channels or len(functions) != 1:
        return False
    if functions[0] is None:
        return True
    used = {*inspect.signature(functions[0]).parameters, *getattr(functions[0].__code__, "co_names", ())}
    return not used.isdisjoint(READING_PREVIOUS)


def check_follow_up(ready: Ready, checkpoint: Checkpoint, message: Json) -> Json:
    """Return the message as the run that follows gets it. ``InvalidInput``; ``Damaged`` for another engine's body."""
    Thread.of(checkpoint.body)
    schema = follow_up_schema(ready)
    if schema is None:
        raise InvalidInput([{"loc": [], "msg": "runs of this workflow take no further message: start a new one"}])
    if problems := problems_of(schema, message):
        raise InvalidInput(problems)
    input_of(ready).read(message)
    return message


def message_of(ready: Ready, given: RunInput) -> Any:
    """Return what the graph is called with: the input of a new run, or the next message; None for any other."""
    return None if isinstance(given, Resume) else input_of(ready).read(given.message)
