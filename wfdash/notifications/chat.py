"""The port of a chat service: what is sent to a person there, and what comes back. A service is one ``ChatService``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol

from checkpoints.records import JsonObject, frozen


class ChatBusy(OSError):
    """The service wants to be left alone for so many ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The chat service asks to wait for {seconds:.0f} s")
        self.seconds = seconds


@frozen
class ChatField:
    """A text to be entered in a form."""

    name: str
    label: str
    value: str = ""
    required: bool = False


@frozen
class ChatButton:
    """A button. One with fields opens a form first."""

    name: str
    label: str
    style: str = ""
    fields: tuple[ChatField, ...] = ()


@frozen
class ChatText:
    """What a person is shown. ``name``: the same at every attempt. ``seen``: the fingerprint of the card in it.

    No text in it is markup. ``state``: what became of it.
    """

    name: str
    title: str
    url: str
    seen: str = ""
    parts: tuple[str, ...] = ()
    state: str = ""
    buttons: tuple[ChatButton, ...] = ()


@frozen
class ChatEvent:
    """What someone did at the service, as the service itself says: ``press``, ``submit`` or ``connect`` (a ``code``).

    ``message``, ``seen`` and ``action``: of the button. ``key``: the same where the service says it twice.
    """

    kind: str
    team: str
    person: str
    key: str = ""
    message: str = ""
    seen: str = ""
    action: str = ""
    code: str = ""
    trigger: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


class ChatService(Protocol):
    """A chat service. Raises ``Undeliverable`` if another attempt is of no use, ``ChatBusy``, or ``OSError``."""

    name: str

    def post(self, person: str, text: ChatText, *, again: bool) -> str:
        """Send it to this person and return its place. ``again``: it may have been sent; then that place."""

    def update(self, place: str, text: ChatText) -> None:
        """Replace what is shown at a place."""

    def ask(self, event: ChatEvent, text: ChatText, button: ChatButton) -> None:
        """Open the form of a button."""

    def event_of(self, payload: Mapping[str, Any]) -> ChatEvent | None:
        """Return what the service says that happened; None for what is not for us."""

    def reply_to(self, event: ChatEvent, words: str) -> JsonObject:
        """Return what the service wants to hear at once; ``words``: what was refused, empty where nothing was."""
