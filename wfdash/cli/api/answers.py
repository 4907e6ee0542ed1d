"""Answers from a terminal: a card as text, and what is typed as the value that its schema wants."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wfdash.cli.api.inputs import json_or_text
from wfdash.cli.api.output import clean, plain

if TYPE_CHECKING:
    from wfdash.client import Client
    from wfdash.contract import Message
    from wfdash.records.requests import RequestDetail

MOST_MESSAGES = 20
"""Messages of a conversation that are printed, from its end."""
MOST_OF_A_LINE = 400
SHOWN = ("risk", "proposal", "current", "consequence", "undo", "context")


def actions_of(request: RequestDetail) -> list[str]:
    """Return the actions of a request's buttons; none where the answer is a value."""
    return [str(one["name"]) for one in request.card.get("actions", ())]


def value_of(request: RequestDetail, given: str, fields: Mapping[str, Any]) -> Any:
    """Return the answer that a word and fields mean: an action with its fields, JSON, or text."""
    if given in actions_of(request):
        return {"action": given, **fields}
    schema = request.answer_schema
    if fields:
        return {**fields, **({"action": given} if given else {})}
    return given if schema.get("type") == "string" else json_or_text(given)


def card_text(request: RequestDetail) -> str:
    """Return what a person should read before they answer."""
    card = request.card
    parts = [f"{card.get('subject', request.step)}", str(card.get("body", ""))]
    parts += [f"{name}: {_short(card[name])}" for name in SHOWN if name in card]
    parts += [f"{one.get('title') or one.get('kind')}: {_evidence(one)}" for one in card.get("evidence", ())]
    return clean("\n".join(part for part in parts if part))


def prompt_answer(client: Client, request: RequestDetail) -> None:
    """Show a card and send what is typed, until it is accepted. An empty line leaves it open."""
    from wfdash.client import Invalid

    sys.stdout.write(f"\n{card_text(request)}\n")
    while given := input(f"{_question(request)} (empty: later) ").strip():
        try:
            client.answer(request.id, value_of(request, given, _reason(request, given)), seen=request.seen)
        except Invalid as error:
            sys.stdout.write(f"{clean(str(error))}\n")
        else:
            sys.stdout.write("Answered\n")
            return


def _question(request: RequestDetail) -> str:
    actions = actions_of(request)
    return f"Answer [{'/'.join(actions)}]" if actions else "Answer"


def _reason(request: RequestDetail, given: str) -> dict[str, Any]:
    """Ask for the fields that an action needs."""
    action: dict[str, Any] = next((one for one in request.card.get("actions", ()) if one["name"] == given), {})
    return {name: json_or_text(input(f"{clean(name)}: ")) for name in action.get("required", ())}


def _evidence(piece: Mapping[str, Any]) -> str:
    """Return a piece of evidence as text; a conversation as a line per message and call, where it is one."""
    from wfdash.questions.transcript import unpack_transcript

    if piece.get("kind") != "transcript":
        return _short(piece.get("value"))
    try:
        messages = unpack_transcript(piece.get("value"))
    except ValueError:
        return _short(piece.get("value"))
    return "\n".join(["", *(f"  {line}" for line in _lines_of(messages))])


def _lines_of(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the last messages as lines: who said what, and each call with its result where there is one."""
    results = {one.call: one for one in messages if one.role == "tool" and one.call}
    called = {call.id for one in messages for call in one.calls if call.id}
    if len(messages) > MOST_MESSAGES:
        yield f"({len(messages) - MOST_MESSAGES} earlier messages)"
    for one in messages[-MOST_MESSAGES:]:
        if one.role == "tool" and one.call in called:
            continue
        if one.text or not one.calls:
            yield f"{one.name or one.role}: {_line(one.text)}"
        for call in one.calls:
            result = results.get(call.id)
            outcome = f" {'failed:' if result.failed else '->'} {_line(result.text)}" if result else ""
            yield f"{call.name}({_line(_arguments(call.arguments))}){outcome}"


def _arguments(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={json.dumps(given, ensure_ascii=False)}" for name, given in value.items())
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST_OF_A_LINE else f"{line[:MOST_OF_A_LINE]}... ({len(line)} characters)"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(plain(value), indent=2, ensure_ascii=False)
    return text if len(text) < 4000 else f"{text[:4000]}... ({len(text)} characters)"
