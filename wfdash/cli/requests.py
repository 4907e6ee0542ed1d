"""``wfdash requests``: read and answer what people are asked, and ask them."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wfdash.cli.commands import (
    CALLBACK,
    REJECTED,
    argument,
    call,
    callback_of,
    command,
    family,
    field,
    flag,
    in_words,
    json_or_text,
    json_value,
    limit,
    listed,
    moment,
    one_of,
    rows,
    says,
    seconds,
    several,
    words,
)
from wfdash.cli.output import Output, clean, plain

if TYPE_CHECKING:
    from wfdash.client import Client
    from wfdash.contract import Message
    from wfdash.records.requests import RequestDetail

TABS = ("mine", "groups", "unassigned", "asked", "snoozed", "all", "answered")
"""``Tab`` of the records, which no command imports before it runs."""
MOST_MESSAGES = 20
"""Messages of a conversation that are printed, from its end."""
MOST_OF_A_LINE, MOST_OF_A_VALUE = 400, 4000
SHOWN = ("risk", "proposal", "current", "consequence", "undo", "context")
REQUEST = argument("request_id", metavar="REQUEST")


def _show(output: Output, request: RequestDetail, given: Namespace) -> None:
    output.line(card_text(request) + "\n")
    output.fields(request, "id run workflow step state by assignee due need unanswerable")
    output.line(f"\nanswer with: {', '.join(actions_of(request)) or 'a value for its schema (--json shows it)'}")


def card_text(request: RequestDetail) -> str:
    """Return what a person should read before they answer."""
    card = request.card
    parts = [f"{card.get('subject', request.step)}", str(card.get("body", ""))]
    parts += [f"{name}: {_short(card[name])}" for name in SHOWN if name in card]
    parts += [f"{one.get('title') or one.get('kind')}: {_evidence(one)}" for one in card.get("evidence", ())]
    return clean("\n".join(part for part in parts if part))


def _evidence(piece: Mapping[str, Any]) -> str:
    """Return a piece of evidence as text; a conversation as a line per message and call, where it is one."""
    from wfdash.contract import unpack_transcript

    value = piece.get("value")
    try:
        messages = unpack_transcript(value) if piece.get("kind") == "transcript" else None
    except ValueError:
        messages = None
    return _short(value) if messages is None else "\n".join(["", *(f"  {line}" for line in _lines_of(messages))])


def _lines_of(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the last messages as lines: who said what, and each call with its result where there is one."""
    results = {one.call: one for one in messages if one.role == "tool" and one.call}
    called = {use.id for one in messages for use in one.calls if use.id}
    if len(messages) > MOST_MESSAGES:
        yield f"({len(messages) - MOST_MESSAGES} earlier messages)"
    for one in messages[-MOST_MESSAGES:]:
        if one.role == "tool" and one.call in called:
            continue
        if one.text or not one.calls:
            yield f"{one.name or one.role}: {_line(one.text)}"
        for use in one.calls:
            result = results.get(use.id)
            outcome = f" {'failed:' if result.failed else '->'} {_line(result.text)}" if result else ""
            yield f"{use.name}({_line(_arguments(use.arguments))}){outcome}"


def _arguments(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={json.dumps(given, ensure_ascii=False)}" for name, given in value.items())
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _line(text: str) -> str:
    return _cut(" ".join(text.split()), MOST_OF_A_LINE)


def _short(value: Any) -> str:
    return _cut(
        value if isinstance(value, str) else json.dumps(plain(value), indent=2, ensure_ascii=False), MOST_OF_A_VALUE
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def _answer(client: Client, given: Namespace, output: Output) -> None:
    request = client.request(given.request_id)
    takes_reason = given.reason and "reason" in request.answer_schema.get("properties", {})
    fields = dict(given.set) | ({"reason": given.reason} if takes_reason else {})
    if given.whole is None and given.value is None and not fields:
        if not sys.stdin.isatty():
            raise ValueError(f"Give an answer: {', '.join(actions_of(request)) or 'text, JSON or --value'}")
        return prompt_answer(client, request)
    value = given.whole if given.whole is not None else value_of(request, given.value or "", fields)
    terms = {name: getattr(given, name) for name in ("reason", "override", "on_behalf_of", "as_text")}
    done = client.answer(request.id, value, **terms)
    return output.result(done, "Answered" if done.decided else f"Answered ({done.votes} of {done.need} votes)")


def actions_of(request: RequestDetail) -> list[str]:
    """Return the actions of a request's buttons; none where the answer is a value."""
    return [str(one["name"]) for one in request.card.get("actions", ())]


def value_of(request: RequestDetail, given: str, fields: Mapping[str, Any]) -> Any:
    """Return the answer that a word and fields mean: an action with its fields, JSON, or text."""
    if given in actions_of(request):
        return {"action": given, **fields}
    if fields:
        return {**fields, **({"action": given} if given else {})}
    return given if request.answer_schema.get("type") == "string" else json_or_text(given)


def prompt_answer(client: Client, request: RequestDetail) -> None:
    """Show a card and send what is typed, until it is accepted. An empty line leaves it open."""
    from wfdash.client import Invalid

    actions = {str(one["name"]): one for one in request.card.get("actions", ())}
    question = f"Answer [{'/'.join(actions)}]" if actions else "Answer"
    sys.stdout.write(f"\n{card_text(request)}\n")
    while given := input(f"{question} (empty: later) ").strip():
        required = actions.get(given, {}).get("required", ())
        fields = {name: json_or_text(input(f"{clean(name)}: ")) for name in required}
        try:
            client.answer(request.id, value_of(request, given, fields), seen=request.seen)
        except Invalid as error:
            sys.stdout.write(f"{clean(str(error))}\n")
        else:
            sys.stdout.write("Answered\n")
            return


def _ask(client: Client, given: Namespace, output: Output) -> int:
    from wfdash.client import Decision, ask_sync

    card, schema = _card(given)
    terms: dict[str, Any] = {name: getattr(given, name) for name in ("by", "due", "ref")}
    terms["callback"] = callback_of(given)
    if given.no_wait:
        run = client.open_question(card, schema, **terms)
        output.result(run, run.id)
        return 0
    answer: Any = ask_sync(card, schema, client=client, timeout=given.timeout, **terms)
    if isinstance(answer, Decision):
        output.result({**answer.model_dump(mode="json"), "by": answer.by, "lapsed": answer.lapsed}, answer.action)
        return 0 if answer.approved else REJECTED
    output.result(answer, str(answer))
    return 0


def _card(given: Namespace) -> tuple[Any, Any]:
    from wfdash.client import Approval, Choice, Form, Question

    shared: dict[str, Any] = {"subject": given.subject, "body": given.body, "risk": given.risk}
    shared |= {} if given.proposal is None else {"proposal": given.proposal}
    if given.choice:
        return Choice(**shared, options=given.choice), None
    if given.text:
        return Question(**shared), None
    if given.schema is not None:
        return Form(**shared), given.schema
    return Approval(**shared), None


REQUESTS = family(
    "requests",
    "read and answer requests, and ask people",
    command(
        "list",
        "list requests",
        listed("all_requests", "id workflow risk due by subject"),
        words("filter", "same syntax as in the inbox: workflow:refund risk:high text ..."),
        argument("--tab", "of the inbox (default: all)", choices=TABS, default="all"),
        limit(50),
    ),
    command("show", "show a request, what may be answered and who may", call("request", in_words(_show)), REQUEST),
    command(
        "answer",
        "answer a request; asks for what is not given",
        _answer,
        REQUEST,
        argument("value", "an action such as approve, text, or JSON", nargs="?"),
        argument("--value", "the whole answer: JSON, @FILE, @-", dest="whole", type=json_value),
        several("--set", "a field of the answer", type=field, metavar="NAME=VALUE"),
        argument("--reason", "why", default=""),
        flag("--override", "as an operator, instead of those who are asked"),
        flag("--as-text", "a text that reads like yes or no is meant as text"),
        argument("--on-behalf-of", "as an operator, what this person decided", default="", metavar="NAME"),
    ),
    command(
        "undo",
        "undo one's own answer while it has not taken effect",
        call("undo", says("Undone", undone=True)),
        REQUEST,
    ),
    command(
        "comments",
        "list the comments on a request, oldest first",
        call("comments", rows("at by kind text")),
        REQUEST,
    ),
    command("comment", "comment on a request", call("comment", says("Commented")), REQUEST, argument("text")),
    command(
        "assign",
        "assign a request",
        call("assign", says(lambda found, _: f"Assigned to {found.assignee or 'no one'}")),
        REQUEST,
        argument("to", "user name (default: no one)", nargs="?"),
    ),
    command(
        "remind",
        "keep a request out of your own queue until a time",
        call("snooze", says(lambda found, _: f"Snoozed until {found.until}" if found.until else "Back in your queue")),
        REQUEST,
        argument("until", "4h, 2d, or 2026-12-01T09:00 (default: no longer)", nargs="?", type=moment, metavar="TIME"),
    ),
    command(
        "ask",
        "ask people and print their answer",
        _ask,
        argument("subject", "in one line, what is to be decided"),
        one_of(
            several("--choice", "an option; give several", metavar="NAME"),
            flag("--text", "the answer is text, instead of approve or reject"),
            argument("--schema", "JSON Schema of the answer: JSON, @FILE, @-", type=json_value),
        ),
        argument("--body", "Markdown", default=""),
        argument("--proposal", "the value to decide on: JSON, @FILE, @-", type=json_value),
        argument("--risk", choices=["low", "medium", "high"]),
        several("--by", "user or group that may answer", metavar="NAME"),
        argument("--due", "deadline: 4h, 2d", metavar="TIME"),
        argument("--ref", "your name for the question: the same ref waits for the same question again"),
        CALLBACK,
        flag("--no-wait", "print the run that waits for the answer, and end"),
        argument("--timeout", "wait at most so long; it stays open", type=seconds, metavar="TIME"),
    ),
)
