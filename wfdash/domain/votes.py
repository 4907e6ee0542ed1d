"""Counting the votes on a request. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from checkpoints.records import Json, frozen
from wfdash.domain import json_patch

REJECTIONS = frozenset({"reject"})
"""Verdicts that decide alone where the policy gives a veto; so do a card's ``danger`` actions."""
WORDS = frozenset({"reason", "feedback", json_patch.FIELD})
"""Fields that say why, not what."""
EDITED = ("edited", "arguments")
"""Fields in which an answer contains the edited proposal."""


@frozen
class Vote:
    """One person's vote. ``by``: whose vote it is, not who recorded it."""

    by: str
    verdict: str
    value: Json


@frozen
class Count:
    """How many people voted the same. ``verdict``: the action they chose."""

    verdict: str
    people: int


def decides(votes: Sequence[Vote], latest: Vote, *, need: int, vetoes: frozenset[str], proposal: Json = None) -> bool:
    """Return whether the latest of these votes (it is one of them) decides the request.

    Votes count together if they say the same, regardless of reasons: approving the proposal is not approving an edited
    one. An edit that leaves the ``proposal`` unchanged counts as an approval.
    """
    if latest.verdict in vetoes:
        return True
    return len({vote.by for vote in votes if choice_of(vote, proposal) == choice_of(latest, proposal)}) >= need


def counts(votes: Sequence[Vote], proposal: Json = None) -> tuple[Count, ...]:
    """Return how many voted the same, the most first."""
    by_choice: dict[str, list[Vote]] = {}
    for vote in votes:
        by_choice.setdefault(choice_of(vote, proposal), []).append(vote)
    found = [Count(verdict=same[0].verdict, people=len({vote.by for vote in same})) for same in by_choice.values()]
    return tuple(sorted(found, key=lambda count: -count.people))


def is_split(found: Sequence[Count], *, need: int, left: int, vetoes: frozenset[str]) -> bool:
    """Return whether these votes can no longer lead to a decision, if ``left`` more people may vote."""
    most = max((count.people for count in found), default=0)
    return bool(found) and most + left < need and not (left and vetoes)


def choice_of(vote: Vote, proposal: Json = None) -> str:
    """Return what a vote says, without its reason."""
    value = vote.value
    if isinstance(value, dict) and "action" in value:
        value = {name: item for name, item in value.items() if name not in WORDS and item is not None}
        edited = [json.dumps(value[name], sort_keys=True) for name in EDITED if name in value]
        if value["action"] == "edit" and json.dumps(proposal, sort_keys=True) in edited:
            value = {"action": "approve"}
    return json.dumps(value, sort_keys=True)


def vetoes(card: Mapping[str, Any], *, veto: bool) -> frozenset[str]:
    """Return the verdicts of a card that decide alone."""
    if not veto:
        return frozenset()
    actions = [action for action in card.get("actions") or [] if isinstance(action, dict)]
    return REJECTIONS | {str(action.get("name")) for action in actions if action.get("style") == "danger"}


def outcome_of(verdict: str, card: Mapping[str, Any], *, override: bool) -> str:
    """Return how an answer is recorded: approved, modified, rejected, overrode or answered."""
    if override:
        return "overrode"
    if verdict in vetoes(card, veto=True):
        return "rejected"
    return {"approve": "approved", "approve_similar": "approved", "edit": "modified"}.get(verdict, "answered")
