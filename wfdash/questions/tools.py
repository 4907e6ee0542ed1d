"""Approval of a model's tool calls by people: approve, edit the arguments, reject, or answer instead of the tool."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NotRequired, Required, get_type_hints

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, model_validator
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import PydanticSerializationError
from typing_extensions import TypedDict

from checkpoints.records import Json
from wfdash.domain.line_comments import field_for
from wfdash.questions.card import (
    AnswerType,
    Asking,
    Card,
    Given,
    LineComment,
    Style,
    action,
    action_field,
    check_labels,
    decision_schema,
    must_say,
    only_with,
    read_lines,
    shown,
    when_action,
    words_field,
)
from wfdash.questions.headlines import one_line
from wfdash.schemas.secrets import HIDDEN, secret_names
from wfdash.schemas.validate import problems_of
from wfdash.values.codec import check_plain
from wfdash.values.errors import InvalidCall

Verb = Literal["approve", "edit", "reject", "respond"]
LONG = 80
"""Characters of an argument from which on it is edited in a larger box."""
SHORT = 40
"""Characters of an argument that a headline shows."""
MOST_NAMED = 3
"""Arguments that a headline shows."""
TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
_ARGUMENTS: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any], config=ConfigDict(ser_json_inf_nan="constants"))
LABELS: dict[str, str] = {
    "approve": "Approve",
    "edit": "Approve with changes",
    "reject": "Reject",
    "respond": "Respond",
}
LOOKS: dict[str, tuple[Style, list[str]]] = {
    "approve": ("primary", []),
    "edit": ("quiet", ["arguments"]),
    "reject": ("danger", ["feedback"]),
    "respond": ("quiet", ["response"]),
}


class ToolCall(Card):
    """May this tool be called? Answer: ``ToolDecision``.

    ``tool``: its name, or the function itself (then its signature describes the arguments). ``parameters``: a model or
    a JSON Schema that describes them instead. Invalid arguments can be edited or rejected, not approved.
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
        """Return the tool's name."""
        return self.tool if isinstance(self.tool, str) else getattr(self.tool, "__name__", type(self.tool).__name__)


class ToolDecision(Given):
    """The answer to a ``ToolCall``.

    ``arguments``: what to call the tool with: exactly what was shown, or what it was edited to; typed where the tool's
    types are known. ``feedback``: why not. ``response``: what the model gets instead of the tool's result.
    ``line_comments``: on a patch or another difference of texts in the evidence.
    """

    action: Verb
    arguments: dict[str, Any] = Field(default_factory=dict)
    feedback: str | None = None
    response: str | None = None
    line_comments: tuple[LineComment, ...] = Field(default=(), exclude_if=lambda comments: not comments)

    @property
    def approved(self) -> bool:
        """Return whether it is to be called, as proposed or as edited."""
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
        raise InvalidCall(f"tool {card.name!r}: its arguments do not match its schema, and only approve is allowed")
    schema = decision_schema("Tool call", _fields(verbs, shape), _rules(verbs, card.require_feedback), shared)
    face = _face(card, verbs, arguments, flaws, secret_names(shape))
    schema["properties"] |= field_for(face)
    types = {"arguments": card.parameters} if "edit" in verbs and isinstance(card.parameters, type) else {}
    # The recorded call is approved, whatever a model proposes by the time the step runs again; but only of this tool.
    guessed = card.parameters is None and isinstance(card.tool, str)
    form = {"allow": list(card.allow), "arguments": None if guessed else shape}
    read = functools.partial(_read_decision, wanted)
    return Asking("tool_call", face, schema, read, types, seen=arguments, form=form, same=())


def _subject(name: str, arguments: dict[str, Json], secrets: frozenset[str]) -> str:
    """Return a headline that distinguishes calls of one tool: its first plain arguments, without secrets."""
    parts = distinguishing({key: value for key, value in arguments.items() if key not in secrets})
    return f"{name}: {parts}" if parts else f"Call {name}?"


def distinguishing(arguments: Mapping[str, Json]) -> str:
    """Return the first plain arguments of a call for a headline: ``order 1042, reason “It broke”``.

    Empty if there is none. Secret ones are left out.
    """
    plain = ((name, value) for name, value in arguments.items() if type(value) in TYPES and value != HIDDEN)
    named = [_named(name, text) for name, value in plain if (text := one_line(_word(value), SHORT))]
    return ", ".join(named[:MOST_NAMED])


def _named(name: str, text: str) -> str:
    """Return a name in words and its value, in quotation marks where it has several words."""
    return f"{one_line(name.replace('_', ' '), SHORT)} {f'“{text}”' if set(text) & set(' ,') else text}".lstrip()


def _word(value: str | float) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _face(
    card: ToolCall, verbs: list[str], arguments: Json, flaws: list[dict[str, Any]], secrets: frozenset[str]
) -> dict[str, Json]:
    tool: dict[str, Json] = {"name": card.name}
    doc = inspect.getdoc(card.tool) if not isinstance(card.tool, str) else None
    if doc:
        tool["description"] = doc.split("\n\n")[0]
    if flaws:
        tool["flaws"] = [f"{'.'.join(map(str, flaw['loc'])) or 'arguments'}: {flaw['msg']}" for flaw in flaws]
    outcome = {
        "approve": f"Runs {card.name} with these arguments",
        "edit": f"Runs {card.name} with your arguments",
        "reject": "Not run; your feedback is returned",
        "respond": "Not run; your reply is used as the result",
    }
    own = shown(card)
    fields = {**own, "proposal": arguments, "tool": tool}
    if isinstance(own.get("consequence", {}), dict):
        # A consequence given for one action does not replace those of the others.
        consequences = {**outcome, **own.get("consequence", {})}
        fields["consequence"] = {verb: consequences[verb] for verb in verbs}
    fields["subject"] = card.subject or _subject(card.name, arguments, secrets)
    must = {"edit": ["arguments"], "respond": ["response"], "reject": ["feedback"] if card.require_feedback else []}
    labels = {**LABELS, **card.labels}
    return {**fields, "actions": [action(verb, *LOOKS[verb], must.get(verb, []), labels[verb]) for verb in verbs]}


def _fields(verbs: list[str], arguments: dict[str, Json]) -> dict[str, Json]:
    own = {
        "arguments": ("edit", {**arguments, "title": "Arguments"}),
        "feedback": ("reject", words_field("Feedback")),
        "response": ("respond", words_field("Response")),
    }
    fields = {name: schema for name, (verb, schema) in own.items() if verb in verbs}
    return {"action": action_field(verbs), **fields}


def _rules(verbs: list[str], require_feedback: bool) -> list[Json]:
    rules: dict[str, list[Json]] = {
        "edit": [when_action("edit", {"required": ["arguments"]}), only_with("edit", "arguments")],
        "reject": [*([must_say("reject", "feedback")] if require_feedback else []), only_with("reject", "feedback")],
        "respond": [must_say("respond", "response"), only_with("respond", "response")],
    }
    return [rule for verb, its in rules.items() if verb in verbs for rule in its]


def _read_decision(wanted: AnswerType, value: Json, seen: Json) -> ToolDecision:
    """Return the decision. Approved is what was recorded when it was asked, not what the code proposes by now."""
    arguments = value.get("arguments") if value["action"] == "edit" else seen
    if value["action"] in ("approve", "edit"):
        arguments = wanted.decode(arguments, "answer.arguments")
    words = {"reject": "feedback", "respond": "response"}
    fields = {name: value.get(name) for name in ("action", words.get(value["action"], "")) if name}
    given = arguments if isinstance(arguments, dict) else dict(arguments)
    return ToolDecision(arguments=given, line_comments=read_lines(value), **fields)


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
    """Return a schema with the fields of the arguments: nothing else is known."""
    properties: dict[str, Json] = {}
    for name, value in arguments.items():
        properties[name] = {"type": TYPES[type(value)]} if type(value) in TYPES else {}
        if isinstance(value, str) and (len(value) > LONG or "\n" in value):
            properties[name]["format"] = "textarea"
    return {"type": "object", "properties": properties, "required": list(arguments)}


@functools.lru_cache(maxsize=256)
def _signature(tool: Callable[..., Any], given: frozenset[str]) -> Any:
    """Return a type for a function's arguments. Those without a JSON form that are not given are left to the
    function.
    """
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
            fields[parameter.name] = _parameter_type(kind, parameter.default)
    name = getattr(tool, "__name__", type(tool).__name__)
    make: Any = TypedDict
    made = make(name, fields)
    made.__pydantic_config__ = ConfigDict(extra="allow" if open_ended else "forbid", arbitrary_types_allowed=True)
    return made


def _parameter_type(kind: Any, default: Any) -> Any:
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
