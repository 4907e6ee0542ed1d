"""Answers from a terminal: a card as text, and what is typed as the value that its schema wants."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wfdash.cli.api.inputs import json_or_text
from wfdash.cli.api.output import clean, plain

if TYPE_CHECKING:
    from wfdash.client import Client
    from wfdash.records import RequestDetail

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
    parts += [f"{one.get('title') or one.get('kind')}: {_short(one.get('value'))}" for one in card.get("evidence", ())]
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


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(plain(value), indent=2, ensure_ascii=False)
    return text if len(text) < 4000 else f"{text[:4000]}... ({len(text)} characters)"
