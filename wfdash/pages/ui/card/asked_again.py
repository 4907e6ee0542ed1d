"""Why a card is asked again: what of it changed since it was answered, or since it was first asked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wfdash.pages.ui.diff import ValueChange, diff_values
from wfdash.values.fingerprints import note_of

NAMES = {
    "body": "the text",
    "consequence": "what happens next",
    "undo": "how to undo",
    "current": "the current value",
    "form": "the form",
    "actions": "the actions",
    "options": "the options",
}


@dataclass(frozen=True, kw_only=True)
class CardChanges:
    """What changed, as text; the difference where both cards are known."""

    parts: str
    answered: bool
    changes: tuple[ValueChange, ...] = ()
    problem: str = ""
    """What is wrong with the earlier answer, where that is the reason."""

    @property
    def reason(self) -> str:
        """Return why it is asked again."""
        if self.problem:
            return f"the step can no longer use the earlier answer ({self.problem})"
        return f"{self.parts} changed {self.since}"

    @property
    def since(self) -> str:
        """Return since when it has changed."""
        return "after it was answered" if self.answered else "while it waited for an answer"

    @property
    def counts(self) -> str:
        """Return what became of earlier votes and answers."""
        if self.answered:
            return "The earlier answer no longer applies. Decide on the current version."
        return "Decide on the current version."


def asked_again(card: Mapping[str, Any], before: Mapping[str, Any] | None) -> CardChanges | None:
    """Return why a card is asked again; None where it is not. ``before``: the card that was shown then."""
    note = note_of(card)
    if not note:
        return None
    names = [str(name)[:40] for name in note["parts"]]
    words = [NAMES.get(name, f"the {name}") for name in names] or ["something"]
    listed = " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    changes: tuple[ValueChange, ...] = ()
    if before is not None:
        shown = [{name: one[name] for name in names if name in one} for one in (before, card)]
        changes = diff_values(shown[0], shown[1])
    problem = str(note.get("problem") or "")[:300]
    return CardChanges(parts=listed, answered=bool(note.get("answered")), changes=changes, problem=problem)
