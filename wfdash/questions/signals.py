"""The request of a step that receives a signal: it waits for a message to the run, not for people."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from checkpoints.records import SIGNAL, Json
from wfdash.questions.card import Asking, typed
from wfdash.questions.durations import Duration
from wfdash.values.errors import InvalidCall

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
SOON = timedelta(milliseconds=1)
RULE = "1 to 100 letters, digits, dots, dashes and underscores"


def is_name(name: object) -> bool:
    """Return whether this is a valid name of a signal."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def waiting_for(name: str, kind: Any) -> Asking:
    """Return the request of a step that receives this signal. ``InvalidCall`` for an invalid name."""
    if not is_name(name):
        raise InvalidCall(f"ctx.receive needs a name of {RULE}, not {name!r}")
    face: dict[str, Json] = {"subject": f"Waits for the signal {name!r}", "context": {"signal": name}}
    return typed(SIGNAL, face, Any if kind is None else kind)


def fails_after(due: datetime | Duration | None, now: datetime) -> dict[str, Any]:
    """Return the policy of a wait that fails when it is due; empty without a deadline."""
    if isinstance(due, datetime):
        if due.tzinfo is None:
            raise InvalidCall("ctx.receive(due=...) needs an aware datetime")
        due = max(due - now, SOON)
    return {"due": due, "on_timeout": "fail"} if due else {}


def key_prefix(name: str) -> str:
    """Return the prefix of the keys of requests that wait for this signal."""
    return f"{SIGNAL}:{name}:"


def name_in(key: str) -> str:
    """Return the name of the signal that a request with this key waits for."""
    return key.split(":", 2)[1] if key.startswith(f"{SIGNAL}:") else ""
