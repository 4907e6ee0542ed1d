"""Approval of a model's tool calls by people, and the transcript that led to them, as evidence."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from textwrap import indent
from typing import Annotated, Any, Literal, NotRequired, Required, get_type_hints

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, model_validator
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import PydanticSerializationError
from typing_extensions import TypedDict

from checkpoints.records import Json, JsonObject
from wfdash.contract import Message, pack_transcript, unpack_transcript
from wfdash.domain.json_patch import field_for
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
    one_line,
    only_with,
    read_lines,
    shown,
    when_action,
    words_field,
)
from wfdash.questions.evidence import Evidence, Transcript
from wfdash.values.codec import check_plain
from wfdash.values.display import truncate
from wfdash.values.errors import InvalidCall
from wfdash.values.schemas.secrets import HIDDEN, masked, secret_names
from wfdash.values.schemas.validate import problems_of

# What led to a question: the end of a conversation with a model, as evidence on its card. Pure.

LONGEST = 10_000
"""Characters of a message, or of the arguments of a call, up to which a card has all of it; the run's page always."""
LEFT_OUT = "Too long for this card: it is on the run's page."


def conversation(messages: Sequence[Message], *, most: int) -> list[Evidence]:
    """Return the last ``most`` messages of a conversation as evidence, long ones cut; nothing where there are none.

    A card has a largest size, and a question that is larger could not be asked.
    """
    if not messages:
        return []
    kept = tuple(_changed(message, _short) for message in messages[-most:])
    return [Transcript(title="Conversation", messages=kept, earlier=len(messages) - len(kept))]


def _changed(message: Message, change: Callable[[Json], Json]) -> Message:
    calls = tuple(call.model_copy(update={"arguments": change(call.arguments)}) for call in message.calls)
    text = change(message.text)
    return message.model_copy(update={"text": text if isinstance(text, str) else _as_text(text), "calls": calls})


def _short(value: Json) -> Json:
    """Return a value cut to what a card shows. JSON stays JSON, also as a text: its secrets are found by name."""
    if not _is_long(value):
        return value
    held = parsed(value)
    if isinstance(held, str):
        return LEFT_OUT if is_too_deep(held) else f"{held[:LONGEST]}…"
    short = truncate(held)
    return LEFT_OUT if _is_long(short) else short


def _is_long(value: Json) -> bool:
    return len(value if isinstance(value, str) else _as_text(value)) > LONGEST


def _as_text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def spoken(message: Message) -> str:
    """Return what a message says and which tools it calls, as a text."""
    calls = (f"`{call.name}` {_as_text(parsed(call.arguments))}" for call in message.calls)
    return "\n\n".join(filter(None, [message.text, *calls]))


def write_markdown(messages: Sequence[Message]) -> Iterator[str]:
    """Yield a conversation as Markdown, message by message. Texts are quotations: none looks like another message."""
    for message in messages:
        head = [message.name or message.role.capitalize(), message.model, str(message.at or "")]
        yield f"## {one_line(' · '.join(filter(None, head)), LONGEST)}\n\n{indent(spoken(message), '> ', bool)}\n\n"


# The transcript of a conversation with a model: who said what, and which tools were called. Pure.

DEEPEST = 60
"""Levels of a text in JSON that is read as a value, as many as pages show of any other."""
BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
"""A string, which ends with the text if it has no other end, or a bracket."""
OPENING, CLOSING = ("{", "["), ("}", "]")
SHORTEST = 4
"""Characters from which on a hidden text is also looked for in what is said: a shorter one is found by chance."""


class Masking:
    """Hides fields in conversations: in arguments, in texts that are JSON, and wherever else their values are said.

    Of a conversation that grows only what is new is looked at, and what was said before if there is a new secret.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = frozenset(names)
        self._said, self._named, self._hidden = list[Message](), list[Message](), list[Message]()
        self._values: set[str] = set()
        """The secrets, found in any text in time that does not depend on their number."""
        self._lengths: dict[str, list[int]] = {}
        """The first characters -> the lengths of the values that begin so, longest first."""
        self._begins: re.Pattern[str] | None = None
        """Finds where one of them may begin."""

    def masked(self, messages: Sequence[Message], names: Collection[str], beside: Json = None) -> tuple[Message, ...]:
        """Return the messages with these fields hidden; those that are as they were the last time are the same objects.

        ``beside``: what is shown with the conversation; the secrets in it are hidden there, too.
        """
        if names != self._names or [*messages[: len(self._said)]] != self._said:
            Masking.__init__(self, names)
        new = messages[len(self._said) :]
        if not names:
            self._said += new
            return tuple(self._said)
        self._look(beside)
        for message in new:
            for value in (*(call.arguments for call in message.calls), message.text):
                self._look(parsed(value))
            self._named.append(_changed(message, self._without_fields))
            self._said.append(message)
        self._hidden += [_changed(one, self._without_values) for one in self._named[len(self._hidden) :]]
        return tuple(self._hidden)

    def _look(self, value: Json) -> None:
        """Add the secrets in a value: what fields of these names hold."""
        pending = [(value, False)]
        while pending:
            one, secret = pending.pop()
            if isinstance(one, dict):
                pending += [(part, secret or name in self._names) for name, part in one.items()]
            elif isinstance(one, list):
                pending += [(part, secret) for part in one]
            elif secret and isinstance(one, (str, int, float)):
                self._add(str(one))

    def _add(self, text: str) -> None:
        for one in {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}:
            if len(one) >= SHORTEST and text != HIDDEN and one not in self._values:
                self._values.add(one)
                self._hidden.clear()
                self._begins = None
                lengths = {len(one), *self._lengths.get(one[:SHORTEST], ())}
                self._lengths[one[:SHORTEST]] = sorted(lengths, reverse=True)

    def _without_fields(self, value: Json) -> Json:
        held = parsed(value)
        hidden = masked(held, self._names)
        if held is value:
            # Of what is too deep no one can say which of its values are secrets.
            return HIDDEN if isinstance(value, str) and is_too_deep(value) else hidden
        return value if hidden == held else _as_text(hidden)

    def _without_values(self, value: Json) -> Json:
        if isinstance(value, str):
            return self._hide(value) if self._values else value
        if isinstance(value, dict):
            return {name: self._without_values(part) for name, part in value.items()}
        return [self._without_values(part) for part in value] if isinstance(value, list) else value

    def _hide(self, text: str) -> str:
        if self._begins is None:
            first, *rest = ("".join(map(re.escape, {*letters})) for letters in zip(*self._lengths, strict=True))
            self._begins = re.compile(f"[{first}](?=[{']['.join(rest)}])")
        parts, done = list[str](), 0
        for place in map(re.Match.start, self._begins.finditer(text)):
            lengths = self._lengths.get(text[place : place + SHORTEST], ()) if place >= done else ()
            length = next((one for one in lengths if text[place : place + one] in self._values), 0)
            if length:
                parts += [text[done:place], HIDDEN]
                done = place + length
        return "".join([*parts, text[done:]])


def masked_card(card: JsonObject, names: Collection[str]) -> JsonObject:
    """Return a card with these fields hidden in the conversations among its evidence."""
    pieces = card.get("evidence")
    if not names or not isinstance(pieces, list):
        return card
    return {**card, "evidence": [_masked_piece(piece, names) for piece in pieces]}


def _masked_piece(piece: Json, names: Collection[str]) -> Json:
    if not isinstance(piece, dict) or piece.get("kind") != "transcript":
        return piece
    try:
        messages = unpack_transcript(piece.get("value"))
    except ValueError:
        return {**piece, "value": masked(piece.get("value"), names)}
    return {**piece, "value": pack_transcript(Masking().masked(messages, names))}


def parsed(value: Json) -> Json:
    """Return the object or list that a text is in JSON, or the value itself; the text of one that is too deep."""
    if not isinstance(value, str) or value.lstrip()[:1] not in OPENING or is_too_deep(value):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def is_too_deep(text: str) -> bool:
    """Return whether a text that may be JSON is nested too deep to be read. Brackets in its strings do not count."""
    if text.lstrip()[:1] not in OPENING or text.count("{") + text.count("[") <= DEEPEST:
        return False
    depth = 0
    for one in BRACKETS.finditer(text):
        depth += (one[0] in OPENING) - (one[0] in CLOSING)
        if depth > DEEPEST:
            return True
    return False


Verb = Literal["approve", "approve_similar", "edit", "reject", "respond"]
AS_SHOWN = frozenset({"approve", "approve_similar"})
"""Verbs that call the tool with what was shown."""
LONG = 80
"""Characters of an argument from which on it is edited in a larger box."""
SHORT = 40
"""Characters of an argument that a headline shows."""
MOST_NAMED = 3
"""Arguments that a headline shows."""
BARE = re.compile(r"\d{1,3}|yes|no")
"""Values that say nothing without their name."""
TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
_ARGUMENTS: TypeAdapter[JsonObject] = TypeAdapter(JsonObject, config=ConfigDict(ser_json_inf_nan="constants"))
LABELS: dict[str, str] = {
    "approve": "Approve",
    "approve_similar": "Approve all similar",
    "edit": "Approve with changes",
    "reject": "Reject",
    "respond": "Respond",
}
LOOKS: dict[str, tuple[Style, list[str]]] = {
    "approve": ("primary", []),
    "approve_similar": ("quiet", []),
    "edit": ("quiet", ["arguments"]),
    "reject": ("danger", ["feedback"]),
    "respond": ("quiet", ["response"]),
}


class ToolCall(Card):
    """May this tool be called? Answer: ``ToolDecision``.

    ``tool``: its name, or the function itself (then its signature describes the arguments). ``parameters``: a model or
    a JSON Schema that describes them instead. Invalid arguments can be edited or rejected, not approved.
    ``approve_similar`` in ``allow``: people may also approve what is like this call. The step says what that is, and
    keeps to it.
    """

    subject: str = ""
    tool: str | Callable[..., Any]
    arguments: JsonObject = Field(default_factory=dict)
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
    arguments: JsonObject = Field(default_factory=dict)
    feedback: str | None = None
    response: str | None = None
    line_comments: tuple[LineComment, ...] = Field(default=(), exclude_if=lambda comments: not comments)

    @property
    def approved(self) -> bool:
        """Return whether it is to be called, as proposed or as edited."""
        return self.action in AS_SHOWN or self.action == "edit"


def ask_tool(card: ToolCall, answer: Any) -> Asking:
    """Return the question of a tool call."""
    if answer is not None:
        raise InvalidCall("ctx.ask(ToolCall(...)) takes no answer=: it gives a ToolDecision")
    wanted, arguments = AnswerType(_parameters(card)), _stored(card)
    shape = wanted.schema()
    shared = shape.pop("$defs", None)
    flaws = []
    if not set(AS_SHOWN).isdisjoint(card.allow):
        flaws = problems_of({**shape, "$defs": shared} if shared else shape, arguments)
    verbs: list[str] = [verb for verb in card.allow if verb not in AS_SHOWN or not flaws]
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


def _subject(name: str, arguments: JsonObject, secrets: frozenset[str]) -> str:
    """Return a headline that tells calls of one tool apart: its first plain values, without secrets, then its name.

    A bare word, number or yes is said with the name of its argument, a currency beside its amount: ``A-7, 163.95 EUR,
    items 3 · refund``.
    """
    said: list[str] = []
    for key, text in _plain({key: value for key, value in arguments.items() if key not in secrets}):
        if key == "currency" and said and said[-1][-1].isdigit():
            said[-1] += f" {text}"
        else:
            said.append(f"{one_line(key.replace('_', ' '), SHORT)} {text}" if BARE.fullmatch(text) else text)
    return f"{', '.join(said[:MOST_NAMED])} · {name}" if said else f"Call {name}?"


def _plain(arguments: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of plain arguments, secret ones left out."""
    for name, value in arguments.items():
        if type(value) in TYPES and value != HIDDEN:
            word = {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
            if text := one_line(word, SHORT):
                yield name, text


def distinguishing(arguments: Mapping[str, Json]) -> str:
    """Return the first plain arguments of a call for a headline: ``order 1042, reason “It broke”``.

    Empty if there is none. Secret ones are left out.
    """
    named = [
        f"{one_line(name.replace('_', ' '), SHORT)} {f'“{text}”' if set(text) & set(' ,') else text}".lstrip()
        for name, text in _plain(arguments)
    ]
    return ", ".join(named[:MOST_NAMED])


def _face(
    card: ToolCall, verbs: list[str], arguments: Json, flaws: list[JsonObject], secrets: frozenset[str]
) -> JsonObject:
    tool: JsonObject = {"name": card.name}
    doc = inspect.getdoc(card.tool) if not isinstance(card.tool, str) else None
    if doc:
        tool["description"] = doc.split("\n\n")[0]
    if flaws:
        tool["flaws"] = [f"{'.'.join(map(str, flaw['loc'])) or 'arguments'}: {flaw['msg']}" for flaw in flaws]
    outcome = {
        "approve": f"Runs {card.name} with these arguments",
        "approve_similar": f"Runs {card.name} with these arguments, and similar calls without asking",
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


def _fields(verbs: list[str], arguments: JsonObject) -> JsonObject:
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
    if value["action"] in AS_SHOWN or value["action"] == "edit":
        arguments = wanted.decode(arguments, "answer.arguments")
    words = {"reject": "feedback", "respond": "response"}
    fields = {name: value.get(name) for name in ("action", words.get(value["action"], "")) if name}
    given = arguments if isinstance(arguments, dict) else dict(arguments)
    return ToolDecision(arguments=given, line_comments=read_lines(value), **fields)


def _stored(card: ToolCall) -> JsonObject:
    """Return the arguments as JSON."""
    try:
        arguments: JsonObject = _ARGUMENTS.dump_python(card.arguments, mode="json")
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise InvalidCall(f"tool {card.name!r}: an argument cannot be stored: {error}") from error
    check_plain(arguments, f"arguments of {card.name!r}")
    return arguments


def _parameters(card: ToolCall) -> Any:
    if card.parameters is not None:
        return card.parameters
    return guessed(card.arguments) if isinstance(card.tool, str) else _signature(card.tool, frozenset(card.arguments))


def guessed(arguments: JsonObject) -> JsonObject:
    """Return a schema with the fields of the arguments: nothing else is known."""
    properties: JsonObject = {}
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
