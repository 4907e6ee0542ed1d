"""Fingerprints of a question's parts: they decide whether it is the same when its step runs again. Pure."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from checkpoints.ids import RequestKey
from checkpoints.records import Json, JsonObject, Request
from wfdash.values.errors import InvalidCall

AGAIN = "asked_again"
"""The part of a card that says why it is asked again: ``{"parts": [names], "was": key, "answered": bool}``."""
SUBSTANCE = ("subject", "body", "proposal", "consequence", "undo")
"""Parts that say what is decided."""
PARTS = (*SUBSTANCE, "current", "evidence", "risk", "context")
ALWAYS = ("form", "actions", "options", "tool")
"""Parts that define an answer's meaning: they must be the same whatever ``same=`` names."""
MOST_AGAIN = 3
"""How many times an answered question is asked again in one step before that counts as an error of its code."""
NOTES = frozenset({"title", "description", "examples", "deprecated"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A question's fingerprints by part, and which of them must be what was recorded."""

    prints: dict[str, str]
    same: tuple[str, ...]

    def moved(self, recorded: Mapping[str, str] | None) -> tuple[str, ...]:
        """Return the parts that must be the same and are not; empty where no fingerprint was recorded."""
        return self._differing(recorded, self.same)

    def drifted(self, recorded: Mapping[str, str] | None) -> tuple[str, ...]:
        """Return the other parts that differ."""
        return self._differing(recorded, [name for name in PARTS if name not in self.same])

    def _differing(self, recorded: Mapping[str, str] | None, names: Sequence[str]) -> tuple[str, ...]:
        if recorded is None or recorded == self.prints:
            return ()
        return tuple(name for name in names if recorded.get(name) != self.prints.get(name))


def identify(card: Mapping[str, Json], form: Json, same: Sequence[str]) -> Identity:
    """Return a question's identity. ``form``: the required answer; ``same``: parts of its card that must stay."""
    parts: JsonObject = {name: card[name] for name in PARTS if name in card}
    parts["form"] = _bare(form)
    for name in ("actions", "options"):
        if name in card:
            listed = card[name] if isinstance(card[name], list) else ()
            # Without what else is said of them.
            parts[name] = [[one.get(key) for key in ("name", "label", "description")] for one in listed]
    if isinstance(card.get("tool"), Mapping):
        # The actions of a tool call depend on its arguments, and those are recorded.
        parts = {name: part for name, part in parts.items() if name != "actions"} | {"tool": card["tool"].get("name")}
    return Identity(prints={name: digest(part) for name, part in parts.items()}, same=(*ALWAYS, *same))


def parts_to_keep(
    card: Mapping[str, Json], same: str | Sequence[str] | None, default: Sequence[str] | None
) -> list[str]:
    """Return which parts of a card must stay; ``InvalidCall`` for an unknown name.

    By default those that say what is decided; where nothing is proposed also the evidence.
    """
    if same is None:
        chosen = SUBSTANCE if default is None else default
        return [*chosen, *(["evidence"] if default is None and "proposal" not in card else [])]
    names = [same] if isinstance(same, str) else list(same)
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        raise InvalidCall(f"ctx.ask(same=...) names {', '.join(unknown)}: the parts of a card are {', '.join(PARTS)}")
    return names


def asked_again(
    request: Request, number: int, parts: Sequence[str], was: Json, *, answered: bool, problem: str = ""
) -> Request:
    """Return a question that replaces the earlier one, with the reason on its card.

    ``problem``: what is wrong with the answer, where that is the reason.
    """
    note: Json = {"parts": list(parts), "was": was, "answered": answered} | ({"problem": problem} if problem else {})
    key = RequestKey(f"{request.key}~{number}")
    return request.model_copy(update={"key": key, "card": {**request.card, AGAIN: note}})


def renewed(key: str) -> str:
    """Return the key of a question that is asked again in place of this one."""
    base, _, number = key.rpartition("~")
    return f"{base}~{int(number) + 1}" if base and number.isascii() and number.isdigit() else f"{key}~1"


def note_of(card: Mapping[str, Any]) -> JsonObject:
    """Return the note why a card is asked again; empty without one."""
    note = card.get(AGAIN)
    return dict(note) if isinstance(note, Mapping) and isinstance(note.get("parts"), list) else {}


def digest(value: Json) -> str:
    """Return 16 characters (96 bits) that change with the value; the order of an object's names does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return urlsafe_b64encode(sha256(text.encode()).digest()[:12]).decode()


def _bare(schema: Json, *, names: bool = False) -> Json:
    """Return a schema without descriptions: a changed docstring is not another form.

    ``names``: the keys are names of fields, not of rules.
    """
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _bare(one, names=not names and key in {"properties", "$defs"}) if isinstance(one, (dict, list)) else one
        for key, one in schema.items()
        if names or (key not in NOTES and key[:2] != "x-")
    }
