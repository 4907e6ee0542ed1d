"""Letting a model call a tool only if a person agrees: approve, edit the arguments, reject, or answer in its place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Required, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, model_validator
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import PydanticSerializationError
from typing_extensions import TypedDict

from checkpoints.records import Json
from wfdash.schema import problems_of
from wfdash.workflow.card import (
    AnswerType,
    Asking,
    Card,
    Style,
    action,
    action_field,
    check_labels,
    decision_schema,
    must_say,
    shown,
    when_action,
    words_field,
)
from wfdash.workflow.codec import check_plain
from wfdash.workflow.errors import InvalidCall

Verb = Literal["approve", "edit", "reject", "respond"]
LONG = 80
"""Characters of an argument from which on it is edited in a larger box."""
TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
_ARGUMENTS: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any], config=ConfigDict(ser_json_inf_nan="constants"))
LABELS: dict[str, str] = {"approve": "Approve", "edit": "Edit arguments", "reject": "Reject", "respond": "Respond"}
LOOKS: dict[str, tuple[Style, list[str]]] = {
    "approve": ("primary", []),
    "edit": ("quiet", ["arguments"]),
    "reject": ("danger", ["feedback"]),
    "respond": ("quiet", ["response"]),
}


class ToolCall(Card):
    """May this tool be called? Answer: ``ToolDecision``.

    ``tool``: its name, or the function itself (then its signature says what the arguments are). ``parameters``: a
    model or a JSON Schema that says so instead. Arguments that do not fit can be edited or rejected, not approved.
    """

    subject: str = ""
    tool: str | Callable[..., Any]
    arguments: dict[str, Any] = Field(default_factory=dict)
    parameters: Any = None
    allow: tuple[Verb, ...] = ("approve", "edit", "reject", "respond")
    require_feedback: bool = False
    """A rejection must say why."""
    labels: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _propose(cls, given: Any) -> Any:
        return {**given, "proposal": given.get("arguments", {})} if isinstance(given, dict) else given

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool if isinstance(self.tool, str) else getattr(self.tool, "__name__", type(self.tool).__name__)


class ToolDecision(BaseModel):
    """The answer to a ``ToolCall``.

    ``arguments``: what to call the tool with: exactly what was shown, or what it was edited to; typed where the
    tool's types are known. ``feedback``: why not. ``response``: what the model is told instead of calling it.
    """

    model_config = ConfigDict(frozen=True)

    action: Verb
    arguments: dict[str, Any] = Field(default_factory=dict)
    feedback: str | None = None
    response: str | None = None

    @property
    def approved(self) -> bool:
        """Whether it is to be called, as proposed or as edited."""
        return self.action in ("approve", "edit")


def ask_tool(card: ToolCall, answer: Any) -> Asking:
    """Return the question of a tool call."""
    if answer is not None:
        raise InvalidCall("ctx.ask(ToolCall(...)) takes no answer=: it gives a ToolDecision")
    wanted, arguments = AnswerType(_parameters(card)), _stored(card)
    shape = wanted.schema()
    shared = shape.pop("$defs", None)
    flaws = problems_of({**shape, "$defs": shared} if shared else shape, arguments)
    verbs: list[str] = [verb for verb in card.allow if verb != "approve" or not flaws]
    check_labels(card.labels, list(LABELS), "labels")
    if not verbs:
        raise InvalidCall(f"tool {card.name!r}: its arguments do not fit, and nothing but approve is allowed")
    schema = decision_schema("Tool call", _fields(verbs, shape), _rules(verbs, card.require_feedback), shared)
    face = _face(card, verbs, arguments, flaws)
    types = {"arguments": card.parameters} if "edit" in verbs and isinstance(card.parameters, type) else {}
    return Asking("tool_call", face, schema, functools.partial(_read, wanted), types, seen=arguments)


def _face(card: ToolCall, verbs: list[str], arguments: Json, flaws: list[dict[str, Any]]) -> dict[str, Json]:
    tool: dict[str, Json] = {"name": card.name}
    doc = inspect.getdoc(card.tool) if not isinstance(card.tool, str) else None
    if doc:
        tool["description"] = doc.split("\n\n")[0]
    if flaws:
        tool["flaws"] = [f"{'.'.join(map(str, flaw['loc'])) or 'arguments'}: {flaw['msg']}" for flaw in flaws]
    outcome = {
        "approve": f"{card.name} is called with these arguments",
        "edit": f"{card.name} is called with your arguments",
        "reject": "It is not called; your feedback goes back",
        "respond": "It is not called; your words are taken as its result",
    }
    told = {"consequence": {verb: outcome[verb] for verb in verbs}, **shown(card), "proposal": arguments, "tool": tool}
    if isinstance(told["consequence"], dict):
        told["consequence"] = {verb: text for verb, text in told["consequence"].items() if verb in verbs}
    told["subject"] = card.subject or f"Call {card.name}?"
    must = {"edit": ["arguments"], "respond": ["response"], "reject": ["feedback"] if card.require_feedback else []}
    labels = {**LABELS, **card.labels}
    return {**told, "actions": [action(verb, *LOOKS[verb], must.get(verb, []), labels[verb]) for verb in verbs]}


def _fields(verbs: list[str], arguments: dict[str, Json]) -> dict[str, Json]:
    own = {
        "arguments": ("edit", {**arguments, "title": "Arguments"}),
        "feedback": ("reject", words_field("Feedback")),
        "response": ("respond", words_field("Response")),
    }
    fields = {name: schema for name, (verb, schema) in own.items() if verb in verbs}
    return {"action": action_field(verbs), **fields}


def _rules(verbs: list[str], require_feedback: bool) -> list[Json]:
    rules = {
        "edit": when_action("edit", {"required": ["arguments"]}),
        "reject": must_say("reject", "feedback") if require_feedback else None,
        "respond": must_say("respond", "response"),
    }
    return [rule for verb, rule in rules.items() if verb in verbs and rule]


def _read(wanted: AnswerType, value: Json, seen: Json) -> ToolDecision:
    """Return the decision. Approved is what was recorded when it was asked, not what the code proposes by now."""
    arguments = value.get("arguments") if value["action"] == "edit" else seen
    if value["action"] in ("approve", "edit"):
        arguments = wanted.decode(arguments, "answer.arguments")
    told = {name: value.get(name) for name in ("action", "feedback", "response")}
    return ToolDecision(arguments=arguments if isinstance(arguments, dict) else dict(arguments), **told)


def _stored(card: ToolCall) -> dict[str, Json]:
    """Return the arguments as JSON."""
    try:
        arguments: dict[str, Json] = _ARGUMENTS.dump_python(card.arguments, mode="json")
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise InvalidCall(f"tool {card.name!r}: an argument cannot be stored: {error}") from error
    check_plain(arguments, f"arguments of {card.name!r}")
    return arguments


def _parameters(card: ToolCall) -> Any:
    if card.parameters is not None:
        return card.parameters
    return _guessed(card.arguments) if isinstance(card.tool, str) else _signature(card.tool, frozenset(card.arguments))


def _guessed(arguments: dict[str, Any]) -> dict[str, Json]:
    """Return a schema that has the fields the arguments have: nothing else is known."""
    properties: dict[str, Json] = {}
    for name, value in arguments.items():
        properties[name] = {"type": TYPES[type(value)]} if type(value) in TYPES else {}
        if isinstance(value, str) and (len(value) > LONG or "\n" in value):
            properties[name]["format"] = "textarea"
    return {"type": "object", "properties": properties, "required": list(arguments)}


@functools.lru_cache(maxsize=256)
def _signature(tool: Callable[..., Any], given: frozenset[str]) -> Any:
    """Return a type for a function's arguments. What has no JSON form and is not given is the function's own affair."""
    try:
        hints = get_type_hints(tool, include_extras=True)
    except (NameError, TypeError, AttributeError):
        hints = {}
    fields, open_ended = {}, False
    for parameter in inspect.signature(tool).parameters.values():
        open_ended |= parameter.kind is parameter.VAR_KEYWORD
        kind = hints.get(parameter.name, Any)
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            continue
        if parameter.name in given or _has_schema(kind):
            fields[parameter.name] = _marked(kind, parameter.default)
    name = getattr(tool, "__name__", type(tool).__name__)
    make: Any = TypedDict
    made = make(name, fields)
    made.__pydantic_config__ = ConfigDict(extra="allow" if open_ended else "forbid", arbitrary_types_allowed=True)
    return made


def _marked(kind: Any, default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return Required[kind]
    plain = default is None or type(default) in TYPES
    return NotRequired[Annotated[kind, Field(json_schema_extra={"default": default})] if plain else kind]


def _has_schema(kind: Any) -> bool:
    try:
        TypeAdapter(kind).json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, TypeError):
        return False
    return True
