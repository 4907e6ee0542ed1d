"""Interrupts as questions to people, and their answers as what a graph expects. Pure: JSON in, JSON out.

An interrupt's value says by its shape who made it: LangChain's middleware for approvals, which asks about several calls
at once (``action_requests``) or about one (``type: tool_approval``); an agent for Agent Inbox (``action_request`` with
``config``); or any graph with a value of its own. Each call is a question of its own, with its own card and answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.records import Json
from wfdash.domain.labels import humanize
from wfdash.engines.langgraph.stored.values import shown
from wfdash.questions.card import KINDS, Asking, headline_field
from wfdash.questions.cards import Question, prepare
from wfdash.questions.choices import open_answer, options_in, text_in
from wfdash.questions.evidence import Evidence
from wfdash.questions.tools import ToolCall, Verb

VERBS: tuple[Verb, ...] = ("approve", "edit", "reject", "respond")
INBOX: dict[str, Verb] = {
    "allow_accept": "approve",
    "allow_edit": "edit",
    "allow_ignore": "reject",
    "allow_respond": "respond",
}
BODIES = ("description", "body", "message", "details", "instructions")
CHOICES = ("options", "choices")
"""The keys of an interrupt's value that offer answers: others may be given as well."""
LONGEST = 200
"""Characters of a headline."""
STOCK = re.compile(r"\A[^\n]*\n\nTool: .*\nArgs: ", re.DOTALL)
"""How the middleware describes a call where its author does not: the card shows tool and arguments already."""


@dataclass(frozen=True, kw_only=True)
class QuestionPart:
    """One question of an interrupt. ``names``: what policies of it may be given for, best first."""

    asking: Asking
    names: tuple[str, ...] = ()
    proposal: Json = None


@dataclass(frozen=True, kw_only=True)
class QuestionsAsked:
    """The questions of an interrupt, and how their answers, by number of the part, become what the graph gets."""

    parts: tuple[QuestionPart, ...]
    join: Callable[[Mapping[int, Json]], Json]
    numbered: bool = False
    """Whether each part has a key of its own."""


def asked_by(
    value: Any,
    schema: Any,
    evidence: Sequence[Evidence],
    about: Callable[[Json, str], str],
    secrets: Collection[str] = (),
) -> QuestionsAsked:
    """Return the questions of an interrupt. ``schema``: the JSON Schema of the answer, None without one.

    ``about``: makes the headline of a value that has none, whose kind may be known. ``secrets``: fields that no form
    shows.
    """
    if isinstance(value, dict) and isinstance(value.get("action_requests"), list) and value["action_requests"]:
        return _batched(value, evidence)
    if isinstance(value, dict) and value.get("type") == "tool_approval" and isinstance(value.get("name"), str):
        return _single(value, schema, evidence)
    several = value if isinstance(value, list) and value else [value]
    objects = [one for one in several if isinstance(one, dict) and "config" in one]
    if len(objects) == len(several) and all(isinstance(one.get("action_request"), dict) for one in objects):
        return _for_inbox(several, evidence)
    part = QuestionPart(asking=_free(value, schema, evidence, about, secrets), proposal=shown(value))
    return QuestionsAsked(parts=(part,), join=lambda answers: answers[0])


# -- approvals by LangChain's middleware


def _batched(value: dict[str, Any], evidence: Sequence[Evidence]) -> QuestionsAsked:
    calls = [one if isinstance(one, dict) else {} for one in value["action_requests"]]
    allowed = {
        one.get("action_name"): one.get("allowed_decisions")
        for one in value.get("review_configs") or ()
        if isinstance(one, dict)
    }
    parts = []
    for call in calls:
        name, args = str(call.get("name", "")), _arguments(call.get("args"))
        allow = _verbs(allowed.get(name))
        parts.append(_tool(name, args, _described(call.get("description")), allow, None, evidence))
    join = _joined([_decision(str(call.get("name", ""))) for call in calls])
    return QuestionsAsked(parts=tuple(parts), join=lambda answers: {"decisions": join(answers)}, numbered=True)


def _single(value: dict[str, Any], schema: Any, evidence: Sequence[Evidence]) -> QuestionsAsked:
    name, args = value["name"], _arguments(value.get("args"))
    kinds, parameters = _decisions_in(schema)
    part = _tool(name, args, _described(value.get("description")), _verbs(kinds), parameters, evidence)
    decide = _decision(name)
    return QuestionsAsked(parts=(part,), join=lambda answers: decide(answers[0]))


def _decision(name: str) -> Callable[[Json], Json]:
    def decide(answer: Json) -> Json:
        verb = answer["action"]
        if verb == "edit":
            return {"type": "edit", "edited_action": {"name": name, "args": answer["arguments"]}}
        if verb == "reject":
            return {"type": "reject"} | ({"message": answer["feedback"]} if answer.get("feedback") else {})
        return {"type": verb} | ({"message": answer["response"]} if verb == "respond" else {})

    return decide


def _decisions_in(schema: Any) -> tuple[list[str] | None, dict[str, Any] | None]:
    """Return which decisions an answer's schema allows, and the schema of the arguments of an edited call."""
    if not isinstance(schema, dict):
        return None, None
    definitions = schema.get("$defs", {})
    kinds: list[str] = []
    parameters = None
    for branch in _resolved(schema.get("oneOf") or schema.get("anyOf") or [schema], definitions):
        kind = branch.get("properties", {}).get("type", {})
        kinds += [kind["const"]] if "const" in kind else kind.get("enum", [])
        for action in _resolved([branch.get("properties", {}).get("edited_action", {})], definitions):
            for found in _resolved([action.get("properties", {}).get("args", {})], definitions):
                parameters = {**found, "$defs": definitions} if definitions and "$ref" in str(found) else found
    return kinds or None, parameters if parameters and parameters.get("properties") else None


def _resolved(branches: Sequence[Any], definitions: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for branch in branches:
        name = branch.get("$ref", "").rpartition("/")[2] if isinstance(branch, dict) else ""
        yield definitions.get(name, branch) if isinstance(branch, dict) else {}


# -- Agent Inbox


def _for_inbox(requests: list[dict[str, Any]], evidence: Sequence[Evidence]) -> QuestionsAsked:
    parts, readers = [], []
    for request in requests:
        config = request["config"] if isinstance(request["config"], dict) else {}
        name, args = str(request["action_request"].get("action", "")), request["action_request"].get("args")
        allow = tuple(verb for key, verb in INBOX.items() if config.get(key)) or VERBS
        labels = {"reject": "Ignore"} if "reject" in allow else {}
        parts.append(
            _tool(name, _arguments(args), str(request.get("description") or ""), allow, None, evidence, labels)
        )
        readers.append(_inbox_answer(name))
    return QuestionsAsked(parts=tuple(parts), join=_joined(readers), numbered=True)


def _inbox_answer(name: str) -> Callable[[Json], Json]:
    def answer(given: Json) -> Json:
        if given["action"] == "edit":
            return {"type": "edit", "args": {"action": name, "args": given["arguments"]}}
        if given["action"] == "respond":
            return {"type": "response", "args": given["response"]}
        return {"type": "accept" if given["action"] == "approve" else "ignore", "args": None}

    return answer


# -- shared


def _tool(
    name: str,
    arguments: dict[str, Any],
    body: str,
    allow: Sequence[Verb],
    parameters: dict[str, Any] | None,
    evidence: Sequence[Evidence],
    labels: dict[str, str] | None = None,
) -> QuestionPart:
    card = ToolCall(
        tool=name or "tool",
        arguments=arguments,
        parameters=parameters,
        body=body,
        allow=tuple(allow),
        labels=labels or {},
        evidence=list(evidence),
    )
    return QuestionPart(asking=prepare(card, None), names=(name,), proposal=arguments)


def _joined(readers: Sequence[Callable[[Json], Json]]) -> Callable[[Mapping[int, Json]], Json]:
    return lambda answers: [read(answers[number]) for number, read in enumerate(readers)]


def _verbs(given: Any) -> tuple[Verb, ...]:
    allowed = [verb for verb in VERBS if isinstance(given, (list, tuple)) and verb in given]
    return tuple(allowed) or VERBS


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, dict):
        found: dict[str, Any] = shown(given)
        return found
    return {} if given is None else {"value": shown(given)}


def _described(text: Any) -> str:
    return "" if not isinstance(text, str) or STOCK.match(text) else text


# -- values of a graph's own


def _free(
    value: Any,
    schema: Any,
    evidence: Sequence[Evidence],
    about: Callable[[Json, str], str],
    secrets: Collection[str],
) -> Asking:
    """Return the question of any other value: a text is the question, of an object its well-known keys are."""
    subject, body, rest = _worded(value, about)
    wanted = schema if isinstance(schema, dict) else {}
    if not wanted:
        offered, rest = _offered(rest)
        wanted = open_answer(offered, text="" if offered else text_in(rest, secrets))
    shape = wanted if wanted.get("title") else {"title": "Answer", **wanted}
    return prepare(Question(subject=subject, body=body, proposal=rest, evidence=list(evidence)), shape)


def _worded(value: Any, about: Callable[[Json, str], str]) -> tuple[str, str, Json]:
    """Return the headline of a value, its text, and what else there is to see."""
    face = shown(value)
    if isinstance(face, str) and face.strip():
        line, _, more = face.strip().partition("\n")
        return (line, more.strip(), None) if len(line) <= LONGEST else (about(face, ""), face, None)
    if not isinstance(face, dict):
        return about(face, ""), "", face
    head = headline_field(face, _is_line)
    body = next((key for key in BODIES if key != head and isinstance(face.get(key), str)), "")
    rest = {key: part for key, part in face.items() if key not in (head, body)}
    kind = next((face[key] for key in KINDS if isinstance(face.get(key), str)), "").strip()
    subject = face[head].strip() if head else about(face[body] if body else rest, humanize(kind) if kind else "")
    return subject, face[body] if body else "", rest or None


def _offered(rest: Json) -> tuple[list[Json], Json]:
    """Return the answers that a value offers, and what else there is to see: the form shows the answers."""
    given = rest if isinstance(rest, dict) else {}
    for key in CHOICES:
        if found := options_in(given.get(key)):
            return found, {name: part for name, part in given.items() if name != key} or None
    return [], rest


def _is_line(text: Json) -> bool:
    return isinstance(text, str) and 0 < len(text.strip()) <= LONGEST and "\n" not in text.strip()
