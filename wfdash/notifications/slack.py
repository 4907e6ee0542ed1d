"""Slack as a ``ChatService``: messages with buttons, modals, signed interactions. ``slack_sdk`` is imported when used.

Texts of agents and authors are ``plain_text``, which has no markup: no mention, link or formatting can come of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl

from django.conf import settings

from checkpoints.records import JsonObject
from wfdash.notifications.chat import ChatBusy, ChatButton, ChatEvent, ChatText
from wfdash.notifications.letters import Undeliverable

SECONDS = 5
MOST_TEXT, MOST_HEADER, MOST_LABEL, MOST_TITLE = 3_000, 150, 75, 24
"""Characters of a text, of a message's headline, of a button, and of a modal's title."""
SEARCHED = 100
"""Messages among which one is looked for that may have been sent."""
GONE = (
    "user_not_found user_disabled account_inactive cannot_dm_bot channel_not_found message_not_found is_archived "
    "messages_tab_disabled cant_update_message edit_window_closed"
)
"""What no other attempt changes."""
INPUT = "value"


class Slack:
    """The workspace of the settings."""

    name = "slack"

    def post(self, person: str, text: ChatText, *, again: bool) -> str:
        """Send a direct message."""
        if again:
            channel = call("conversations_open", users=person)["channel"]["id"]
            found = call("conversations_history", channel=channel, limit=SEARCHED, include_all_metadata=True)
            for one in found["messages"]:
                if _at(one, "metadata", "event_payload", "message") == text.name:
                    return f"{channel}:{one['ts']}"
        metadata = {"event_type": "wfdash", "event_payload": {"message": text.name}}
        sent = call("chat_postMessage", channel=person, metadata=metadata, unfurl_links=False, **_content(text))
        return f"{sent['channel']}:{sent['ts']}"

    def update(self, place: str, text: ChatText) -> None:
        """Replace a message."""
        channel, _, at = place.partition(":")
        call("chat_update", channel=channel, ts=at, **_content(text))

    def ask(self, event: ChatEvent, text: ChatText, button: ChatButton) -> None:
        """Open a modal."""
        given = {"private_metadata": _value(text, button), "submit": _plain(button.label, MOST_TITLE)}
        blocks = [_section(text.title)]
        for one in button.fields:
            element = {"type": "plain_text_input", "action_id": INPUT, "multiline": True, "max_length": MOST_TEXT}
            element |= {"initial_value": one.value} if one.value else {}
            named = {"type": "input", "block_id": one.name, "optional": not one.required, "label": _plain(one.label)}
            blocks.append({**named, "element": element})
        call("views_open", trigger_id=event.trigger, view=_modal(button.label, *blocks) | given)

    def event_of(self, payload: Mapping[str, Any]) -> ChatEvent | None:
        """Read a press, a submitted modal or the command."""
        if "command" in payload:
            code = _at(payload, "text").removeprefix("connect").strip()
            team, person = _at(payload, "team_id"), _at(payload, "user_id")
            return ChatEvent(kind="connect", team=team, person=person, code=code)
        pressed, view = payload.get("actions"), payload.get("view") or {}
        action = pressed[0] if isinstance(pressed, list) and pressed else {}
        about = _at(action, "value") or _at(view, "private_metadata")
        if not about or payload.get("type") not in ("block_actions", "view_submission"):
            return None  # A link: Slack tells of that, too.
        message, seen, name = json.loads(about)
        return ChatEvent(
            kind="press" if action else "submit",
            team=_at(payload, "team", "id"),
            person=_at(payload, "user", "id"),
            key=f"slack {_at(payload, 'trigger_id')} {_at(view, 'id')}{_at(action, 'action_ts')}",
            message=message,
            seen=seen,
            action=name,
            trigger=_at(payload, "trigger_id"),
            values={name: _at(one, INPUT, "value") for name, one in (_at(view, "state", "values") or {}).items()},
        )

    def reply_to(self, event: ChatEvent, words: str) -> JsonObject:
        """Return words in the modal, or to who gave the command."""
        if event.kind == "connect":
            return {"response_type": "ephemeral", "text": escaped(words)}
        if event.kind == "submit" and words:
            return {"response_action": "update", "view": _modal("wfdash", _section(words))}
        return {}


def payload_of(body: bytes, headers: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return what Slack posted; None unless Slack signed it, within five minutes."""
    if not settings.WFDASH_SLACK_SECRET:
        return None
    verifier = import_module("slack_sdk.signature").SignatureVerifier(settings.WFDASH_SLACK_SECRET)
    try:
        signed = verifier.is_valid_request(body, headers)
    except (ValueError, TypeError):  # A time that is none, a signature that is not ASCII.
        signed = False
    form: dict[str, Any] = dict(parse_qsl(body.decode())) if signed else {}
    return json.loads(form["payload"]) if "payload" in form else form or None


def socket_client(hear: Any) -> Any:
    """Return a client of Socket Mode that is not connected yet; ``hear(payload)`` returns what to say and what to do
    then.
    """
    client = import_module("slack_sdk.socket_mode").SocketModeClient(settings.WFDASH_SLACK_APP_TOKEN, web_client=_web())

    def listen(_: Any, request: Any) -> None:
        said, then = hear(request.payload)
        client.send_socket_mode_response({"envelope_id": request.envelope_id, "payload": said})
        then()

    client.socket_mode_request_listeners.append(listen)
    return client


def _web() -> Any:
    # No handlers: a message whose reply was lost would be sent again.
    client = import_module("slack_sdk").WebClient
    return client(settings.WFDASH_SLACK_TOKEN, base_url=settings.WFDASH_SLACK_API, timeout=SECONDS, retry_handlers=[])


def call(method: str, **given: Any) -> Any:
    """Call Slack. ``ChatBusy``, ``Undeliverable``, ``OSError``."""
    try:
        return getattr(_web(), method)(**given)
    except import_module("slack_sdk.errors").SlackApiError as error:
        if error.response.status_code == 429:
            raise ChatBusy(float(error.response.headers.get("Retry-After", 30))) from None
        code = str(error.response.get("error"))[:80]
        raise (Undeliverable if code in GONE.split() else OSError)(f"Slack refuses {method}: {code}") from None


def escaped(text: str) -> str:
    """Return a text that says the same where Slack reads markup: no mention or link comes of it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _content(text: ChatText) -> dict[str, Any]:
    link = {"type": "button", "action_id": "open", "text": _plain("Open in wfdash"), "url": text.url}
    buttons = [
        {"type": "button", "action_id": one.name, "text": _plain(one.label), "value": _value(text, one)}
        | ({"style": one.style} if one.style in ("primary", "danger") else {})
        for one in text.buttons
    ]
    blocks = [
        {"type": "header", "text": _plain(text.title, MOST_HEADER)},
        *[_section(part) for part in (*text.parts, text.state) if part],
        {"type": "actions", "elements": [*buttons, link]},
    ]
    return {"text": escaped(text.title), "blocks": blocks}


def _value(text: ChatText, button: ChatButton) -> str:
    return json.dumps([text.name, text.seen, button.name])


def _modal(title: str, *blocks: JsonObject) -> JsonObject:
    named = {"title": _plain(title, MOST_TITLE), "close": _plain("Close")}
    return {"type": "modal", **named, "blocks": [*blocks]}


def _section(words: str) -> JsonObject:
    return {"type": "section", "text": _plain(words, MOST_TEXT)}


def _plain(words: str, most: int = MOST_LABEL) -> JsonObject:
    return {"type": "plain_text", "text": words if len(words) <= most else f"{words[: most - 1]}…", "emoji": False}


def _at(value: Any, *names: str) -> Any:
    """Return what is at a path; an empty text where nothing is."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value or ""
