"""Counting votes: pure decisions over what people said to one request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.records import Json

REJECTIONS = frozenset({"reject"})
"""Verdicts that decide alone where the policy gives a veto; a card's ``danger`` actions do, too."""
WORDS = frozenset({"reason", "feedback"})
"""Fields that say why, not what."""
EDITED = ("edited", "arguments")
"""Fields in which an answer gives the edited proposal."""


@dataclass(frozen=True, kw_only=True)
class Vote:
    """What one person said. ``by``: whose vote it is, not who wrote it down."""

    by: str
    verdict: str
    value: Json


@dataclass(frozen=True, kw_only=True)
class Count:
    """How many people say the same. ``verdict``: the action that they chose."""

    verdict: str
    people: int


def decides(votes: Sequence[Vote], latest: Vote, *, need: int, vetoes: frozenset[str], proposal: Json = None) -> bool:
    """Say whether the latest of these votes (it is among them) settles the matter.

    Votes count together if they say the same, reasons apart: who approved the proposal has not approved what another
    made of it. An edit that leaves the ``proposal`` as it is says the same as an approval.
    """
    if latest.verdict in vetoes:
        return True
    return len({vote.by for vote in votes if said(vote, proposal) == said(latest, proposal)}) >= need


def counts(votes: Sequence[Vote], proposal: Json = None) -> tuple[Count, ...]:
    """Return how many say the same, the most first."""
    alike: dict[str, list[Vote]] = {}
    for vote in votes:
        alike.setdefault(said(vote, proposal), []).append(vote)
    found = [Count(verdict=same[0].verdict, people=len({vote.by for vote in same})) for same in alike.values()]
    return tuple(sorted(found, key=lambda count: -count.people))


def is_split(found: Sequence[Count], *, need: int, left: int, vetoes: frozenset[str]) -> bool:
    """Say whether these votes can no longer be decided, if ``left`` more people may vote."""
    most = max((count.people for count in found), default=0)
    return bool(found) and most + left < need and not (left and vetoes)


def said(vote: Vote, proposal: Json = None) -> str:
    """Return what a vote says, without why."""
    value = vote.value
    if isinstance(value, dict) and "action" in value:
        value = {name: item for name, item in value.items() if name not in WORDS and item is not None}
        if value["action"] == "edit" and any(_same(value.get(name), proposal) for name in EDITED):
            value = {"action": "approve"}
    return json.dumps(value, sort_keys=True)


def _same(one: Json, other: Json) -> bool:
    return one is not None and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def vetoes(card: Mapping[str, Any], *, veto: bool) -> frozenset[str]:
    """Return the verdicts of a card that decide alone."""
    if not veto:
        return frozenset()
    actions = [action for action in card.get("actions") or [] if isinstance(action, dict)]
    return REJECTIONS | {str(action.get("name")) for action in actions if action.get("style") == "danger"}


def stands_as(verdict: str, card: Mapping[str, Any], *, override: bool) -> str:
    """Say how an answer stands in the record: approved, modified, rejected, overrode or answered."""
    if override:
        return "overrode"
    if verdict in vetoes(card, veto=True):
        return "rejected"
    return {"approve": "approved", "edit": "modified"}.get(verdict, "answered")
