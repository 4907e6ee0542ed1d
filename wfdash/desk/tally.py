"""Counting votes: pure decisions over what people said to one request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.records import Json

REJECTIONS = frozenset({"reject"})
"""Verdicts that decide alone where the policy gives a veto; a card's ``danger`` actions do, too."""
WORDS = frozenset({"reason", "feedback"})
"""Fields that say why, not what."""


@dataclass(frozen=True, kw_only=True)
class Vote:
    """What one person said."""

    by: str
    verdict: str
    value: Json


def decides(votes: Sequence[Vote], latest: Vote, *, need: int, vetoes: frozenset[str]) -> bool:
    """Say whether the latest of these votes (it is among them) settles the matter.

    Votes count together if they say the same, reasons apart: who approved the proposal has not approved what another
    made of it.
    """
    if latest.verdict in vetoes:
        return True
    return Counter(said(vote) for vote in votes)[said(latest)] >= need


def said(vote: Vote) -> str:
    """Return what a vote says, without why."""
    value = vote.value
    if isinstance(value, dict) and "action" in value:
        value = {name: item for name, item in value.items() if name not in WORDS and item is not None}
    return json.dumps(value, sort_keys=True)


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
