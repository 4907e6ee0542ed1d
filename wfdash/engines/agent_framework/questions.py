"""Requests for information as questions to people, and answers as what the framework expects; so are tool calls.

An agent keeps its pending calls in its own state, and runs the call that is recorded there, whatever an answer holds.
So arguments that a person has edited are written there, and so are words for the model: in the checkpoint that the run
continues from, in memory.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterator, Mapping
from datetime import datetime
from typing import Any, get_origin

from checkpoints.limits import KEY
from checkpoints.records import Json, JsonObject, Request, frozen
from wfdash.domain.labels import label_of_step
from wfdash.engines.agent_framework.definitions import agents_of, is_kind, is_of, tools_of
from wfdash.engines.agent_framework.describing import chat_value, is_chat, schema_of
from wfdash.engines.agent_framework.transcripts import EXECUTORS, arguments_of, display
from wfdash.engines.serving import Served
from wfdash.questions.card import Asking, Card, headline_about, headline_field
from wfdash.questions.cards import Approval, Question, make_request, prepare
from wfdash.questions.choices import open_answer, text_in
from wfdash.questions.evidence import Evidence, Transcript
from wfdash.questions.policy import Policy
from wfdash.questions.tools import ToolCall, ToolDecision, Verb
from wfdash.values.errors import InvalidCall

BODIES = ("description", "body", "details", "instructions")
LONG = 140
"""Characters of a headline."""
REVIEWS = ("MagenticPlanReviewResponse", "AgentRequestInfoResponse")
"""Answers that approve with nothing, and ask for another attempt with messages."""


@frozen
class Asked:
    """A pending request of the framework. ``key``: the question's; ``step``: who asked; ``event``: the request."""

    key: str
    step: str
    event: Any

    @property
    def data(self) -> Any:
        """Return what the question is about."""
        return self.event.data

    @property
    def response_type(self) -> Any:
        """Return the type of its answer."""
        return self.event.response_type


UNTYPED: tuple[Any, ...] = (Any, object, dict, dict[str, Any])
"""Types that say nothing of the answer. ``serve(answers=)`` may."""


def key_of(request: str, *, taken: Container[str], n: int) -> str:
    """Return the key of a question: the id of its request, with a number where one of that id was just answered."""
    key = request if len(request) <= KEY - 20 else hashlib.sha256(request.encode()).hexdigest()
    return f"{key}#{n}" if key in taken else key


def ask(
    served: Served, workflow: Any, asked: Asked, state: Mapping[str, Any], evidence: list[Evidence], now: datetime
) -> Request:
    """Return a request as people see it. ``InvalidCall`` if its answer has no form. ``state``: the checkpoint's."""
    call = call_of(asked.data)
    names = [call.name] if call is not None and call.type == "function_call" else []
    policy = served.policy_of(*names, asked.step) or Policy()
    asking = _asking(served, workflow, asked, state, evidence)
    return make_request(asked.key, asked.step, asking, policy.resolved(asking.card.get("proposal")), due=None, now=now)


def _asking(served: Served, workflow: Any, asked: Asked, state: Mapping[str, Any], evidence: list[Evidence]) -> Asking:
    if call_of(asked.data) is not None:
        return ask_approval(workflow, asked.data, state, evidence)
    if is_kind(asked.response_type, *REVIEWS):
        return prepare(_review(asked, evidence), None)
    given = served.answer_schema(asked.step)
    untyped = asked.response_type in UNTYPED and given is not None
    card = _question(served, asked, evidence)
    return prepare(card, given if untyped else _answer_kind(asked, text_in(card.proposal, served.secrets)))


def _answer_kind(asked: Asked, text: str) -> Any:
    """Return the type of the form. ``InvalidCall`` for one that no form can be made from. ``text``: to be changed."""
    kind = asked.response_type
    if not is_chat(kind):
        if kind in UNTYPED[:2]:
            return open_answer(text=text)
        if schema_of(kind) is None:
            name = getattr(kind, "__name__", str(kind))
            raise InvalidCall(
                f"{asked.step} asks for {name}, which no form can be made from: use plain types, a dataclass or a "
                "pydantic model"
            )
        return kind
    reply: JsonObject = {"type": "string", "format": "textarea"}
    # An empty answer ends a conversation of which a list of messages is expected.
    return {"title": "Reply", **({"anyOf": [reply, {"type": "null"}]} if get_origin(kind) is list else reply)}


def _review(asked: Asked, evidence: list[Evidence]) -> Card:
    data = asked.data
    if is_of(data, "MagenticPlanReviewRequest"):
        stalled = "The agents made no progress with the plan before. " if data.is_stalled else ""
        return Approval(
            subject="Approve the plan?",
            body=f"{stalled}{display(data.plan)}",
            evidence=evidence,
            labels={"reject": "Revise"},
            require_reason=True,
            consequence={
                "approve": "The agents work by this plan",
                "reject": "The plan is made again from what you say",
            },
        )
    who = str(getattr(data, "executor_id", "") or asked.step)
    return Approval(
        subject=f"Approve what {who} wrote?",
        body=str(display(data) or ""),
        evidence=evidence,
        labels={"reject": "Ask for changes"},
        require_reason=True,
        consequence={"approve": "It is passed on", "reject": f"{who} writes again from what you say"},
    )


def _question(served: Served, asked: Asked, evidence: list[Evidence]) -> Card:
    if is_of(asked.data, "HandoffAgentUserRequest"):
        said = str(asked.data.agent_response.text or "").strip()
        return Question(subject=f"{label_of_step(asked.step)} asks", body=said, evidence=_before(said, evidence))
    shown = display(asked.data)
    if isinstance(shown, str) and shown.strip():
        subject, body = headline(shown)
        return Question(subject=subject, body=body, evidence=evidence)
    fields = dict(shown) if isinstance(shown, dict) else {}
    head = headline_field(fields, _is_text)
    subject = str(fields.pop(head)) if head else ""
    body = next((str(fields.pop(name)) for name in BODIES if _is_text(fields.get(name))), "")
    rest = fields if isinstance(shown, dict) else shown
    if not subject:
        subject = headline_about(_named(type(asked.data), asked.step), rest, served.secrets)
    first, more = headline(subject)
    return Question(
        subject=first, body="\n\n".join(one for one in (more, body) if one), proposal=rest, evidence=evidence
    )


def _is_text(value: Json) -> bool:
    return isinstance(value, str) and bool(value.strip())


def headline(text: str) -> tuple[str, str]:
    """Return the first line of a text as a headline, and the text as the body if it has more."""
    first = text.strip().splitlines()[0]
    if len(first) > LONG:
        return f"{first[: LONG - 1]}…", text.strip()
    return first, "" if first == text.strip() else text.strip()


def _named(kind: type, step: str) -> str:
    """Return the words of a class of questions, or the step's title where its class says nothing."""
    plain = kind.__module__ == "builtins"
    words = "" if plain else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", kind.__name__.removesuffix("Request")).strip()
    return words.capitalize() if words else label_of_step(step)


def _before(said: str, evidence: list[Evidence]) -> list[Evidence]:
    """Return the conversation without what the card says above it."""
    last = evidence[-1] if evidence else None
    if not isinstance(last, Transcript) or not last.messages or last.messages[-1].text.strip() != said:
        return evidence
    rest = last.messages[:-1]
    return [*evidence[:-1], *([last.model_copy(update={"messages": rest})] if rest else [])]


def read(asked: Asked, value: Json, state: Any) -> Any:
    """Return an answer as the response the framework expects. ``WrongType`` if it does not fit.

    ``state``: that of the checkpoint the run continues from, as the framework will restore it; see ``answer``.
    """
    data, kind = asked.data, asked.response_type
    if (call := call_of(data)) is not None:
        given = value.get("arguments") if value["action"] == "edit" else arguments_of(call)
        decision = ToolDecision(
            action=value["action"],
            arguments=given if isinstance(given, dict) else {},
            feedback=value.get("feedback"),
            response=value.get("response"),
        )
        return answer(data, decision, state)
    if is_kind(kind, *REVIEWS):
        from agent_framework import Message

        words = value.get("reason") if value["action"] == "reject" else None
        said = [Message(role="user", contents=[words])] if words else []
        return kind(**{next(iter(kind.__dataclass_fields__)): said})
    if is_chat(kind):
        if value is None or not str(value).strip():
            return [] if get_origin(kind) is list else chat_value("", kind)
        return chat_value(str(value), kind)
    return value if kind in UNTYPED else prepare(Question(subject="."), kind).read(value, None)


ALL: tuple[Verb, ...] = ("approve", "edit", "reject", "respond")
PLAIN: tuple[Verb, ...] = ("approve", "reject")
REJECTED = "The call of {tool} was rejected by a person, who said: {words}"
ANSWERED = "The call of {tool} was not made. A person answered in its place: {words}"


def is_approval(value: Any) -> bool:
    """Return whether a request is one to approve a tool call."""
    return is_of(value, "Content") and value.type == "function_approval_request" and value.function_call is not None


def call_of(value: Any) -> Any:
    """Return the tool call that a request is about: to approve, or to answer because its tool has no function."""
    if is_approval(value):
        return value.function_call
    return value if is_of(value, "Content") and value.type == "function_call" else None


def ask_approval(workflow: Any, request: Any, state: Mapping[str, Any], evidence: list[Evidence]) -> Asking:
    """Return the question about a tool call. ``state``: that of the checkpoint in which it is pending."""
    call = call_of(request)
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


def _parameters(tool: Any) -> JsonObject | None:
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
