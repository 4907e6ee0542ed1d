"""``wfdash requests``: read and answer what people are asked, and ask them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from wfdash.cli.api import inputs
from wfdash.cli.api.answers import actions_of, card_text, prompt_answer, value_of
from wfdash.cli.api.commands import REJECTED, command, family
from wfdash.cli.api.output import Output

if TYPE_CHECKING:
    from wfdash.client import Client

TABS = ("mine", "groups", "unassigned", "asked", "all", "answered")
COLUMNS = ("id", "workflow", "risk", "due", "by", "subject")


def add(commands: Any) -> None:
    """Add the family."""
    requests = family(commands, "requests", "read and answer requests, and ask people")
    listing = command(requests, "list", _list, "list requests")
    listing.add_argument("filter", nargs="*", help="same syntax as in the inbox: workflow:refund risk:high text ...")
    listing.add_argument("--tab", choices=TABS, default="all", help="of the inbox (default: all)")
    listing.add_argument("--limit", type=inputs.limit, default=50, help="maximum number (default: 50)")
    _of_request(command(requests, "show", _show, "show a request, what may be answered and who may"))
    _add_answer(_of_request(command(requests, "answer", _answer, "answer a request; asks for what is not given")))
    _of_request(command(requests, "undo", _undo, "undo one's own answer while it has not taken effect"))
    _of_request(command(requests, "comments", _comments, "list the comments on a request, oldest first"))
    comment = _of_request(command(requests, "comment", _comment, "comment on a request"))
    comment.add_argument("text")
    assign = _of_request(command(requests, "assign", _assign, "assign a request"))
    assign.add_argument("to", nargs="?", help="user name (default: no one)")
    _add_ask(command(requests, "ask", _ask, "ask people and print their answer"))


def _add_answer(answer: argparse.ArgumentParser) -> None:
    answer.add_argument("value", nargs="?", help="an action such as approve, text, or JSON")
    answer.add_argument("--value", dest="whole", type=inputs.json_value, help="the whole answer: JSON, @FILE, @-")
    answer.add_argument(
        "--set", type=inputs.field, action="append", default=[], metavar="NAME=VALUE", help="a field of the answer"
    )
    answer.add_argument("--reason", default="", help="why")
    answer.add_argument("--override", action="store_true", help="as an operator, instead of those who are asked")
    answer.add_argument("--as-text", action="store_true", help="a text that reads like yes or no is meant as text")
    answer.add_argument("--on-behalf-of", default="", metavar="NAME", help="as an operator, what this person decided")


def _add_ask(ask: argparse.ArgumentParser) -> None:
    ask.add_argument("subject", help="in one line, what is to be decided")
    kind = ask.add_mutually_exclusive_group()
    kind.add_argument("--choice", action="append", metavar="NAME", help="an option; give several")
    kind.add_argument("--text", action="store_true", help="the answer is text, instead of approve or reject")
    kind.add_argument("--schema", type=inputs.json_value, help="JSON Schema of the answer: JSON, @FILE, @-")
    ask.add_argument("--body", default="", help="Markdown")
    ask.add_argument("--proposal", type=inputs.json_value, help="the value to decide on: JSON, @FILE, @-")
    ask.add_argument("--risk", choices=["low", "medium", "high"])
    ask.add_argument("--by", action="append", default=[], metavar="NAME", help="user or group that may answer")
    ask.add_argument("--due", metavar="TIME", help="deadline: 4h, 2d")
    ask.add_argument("--ref", help="your name for the question: the same ref waits for the same question again")
    inputs.add_callback(ask)
    ask.add_argument("--no-wait", action="store_true", help="print the run that waits for the answer, and end")
    ask.add_argument("--timeout", type=inputs.seconds, metavar="TIME", help="wait at most so long; it stays open")


def _of_request(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("id", metavar="REQUEST")
    return parser


def _list(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = client.requests(" ".join(options.filter), tab=options.tab, limit=options.limit)
    output.page(found.items, COLUMNS, options.limit, more=bool(found.next))


def _show(client: Client, options: argparse.Namespace, output: Output) -> None:
    request = client.request(options.id)
    if output.as_json:
        return output.data(request)
    output.line(card_text(request) + "\n")
    output.fields(request, ("id", "run", "workflow", "step", "state", "by", "assignee", "due", "need", "unanswerable"))
    output.line(f"\nanswer with: {', '.join(actions_of(request)) or 'a value for its schema (--json shows it)'}")
    return None


def _answer(client: Client, options: argparse.Namespace, output: Output) -> None:
    request = client.request(options.id)
    fields = dict(options.set) | ({"reason": options.reason} if _takes_reason(request.answer_schema, options) else {})
    if options.whole is None and options.value is None and not fields:
        if not sys.stdin.isatty():
            raise ValueError(f"Give an answer: {', '.join(actions_of(request)) or 'text, JSON or --value'}")
        return prompt_answer(client, request)
    value = options.whole if options.whole is not None else value_of(request, options.value or "", fields)
    given = client.answer(
        *(request.id, value),
        reason=options.reason,
        override=options.override,
        on_behalf_of=options.on_behalf_of,
        as_text=options.as_text,
    )
    left = "" if given.decided else f" ({given.votes} of {given.need} votes)"
    output.result(given, f"Answered{left}")
    return None


def _takes_reason(schema: dict[str, Any], options: argparse.Namespace) -> bool:
    return bool(options.reason) and "reason" in schema.get("properties", {})


def _undo(client: Client, options: argparse.Namespace, output: Output) -> None:
    client.undo(options.id)
    output.result({"id": options.id, "undone": True}, "Undone")


def _comments(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.rows(client.comments(options.id), ("at", "by", "kind", "text"))


def _comment(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.result(client.comment(options.id, options.text), "Commented")


def _assign(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = client.assign(options.id, options.to)
    output.result(found, f"Assigned to {found.assignee}" if found.assignee else "Assigned to no one")


def _ask(client: Client, options: argparse.Namespace, output: Output) -> int:
    from wfdash.client import Decision, ask_sync

    card, answer = _card(options)
    terms: dict[str, Any] = {name: getattr(options, name) for name in ("by", "due", "ref")}
    terms["callback"] = inputs.callback_of(options)
    if options.no_wait:
        run = client.open_question(card, answer, **terms)
        output.result(run, run.id)
        return 0
    given: Any = ask_sync(card, answer, client=client, timeout=options.timeout, **terms)
    if isinstance(given, Decision):
        output.result({**given.model_dump(mode="json"), "by": given.by, "lapsed": given.lapsed}, given.action)
        return 0 if given.approved else REJECTED
    output.result(given, given if isinstance(given, str) else str(given))
    return 0


def _card(options: argparse.Namespace) -> tuple[Any, Any]:
    from wfdash.client import Approval, Choice, Form, Question

    shared: dict[str, Any] = {"subject": options.subject, "body": options.body, "risk": options.risk}
    shared |= {} if options.proposal is None else {"proposal": options.proposal}
    if options.choice:
        return Choice(**shared, options=options.choice), None
    if options.text:
        return Question(**shared), None
    if options.schema is not None:
        return Form(**shared), options.schema
    return Approval(**shared), None
