"""Decisions as a data set: what was asked, proposed, decided and said, to evaluate prompts or to train with.

Secrets are masked, and people are named by their groups: a name is part of it only where it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from checkpoints.models import HumanRequest
from checkpoints.rules import rule_name
from wfdash.access.viewer import Viewer
from wfdash.contract import Message
from wfdash.domain import json_patch
from wfdash.domain.labels import escaped
from wfdash.queries.requests.decisions import read_decisions
from wfdash.queries.timemachine import secrets_in
from wfdash.queries.unreadable import document, is_readable, text
from wfdash.questions.tools import Masking, masked_card
from wfdash.records.requests import DecisionExample, DecisionRecord, Remark
from wfdash.values.schemas.secrets import masked

PORTION = 50
PEOPLE = ("answer__by__groups", "comments__by__groups", "replies")
PROPOSED, EDITED = ("proposal", "arguments"), ("edited", "arguments")
"""Where a card has what is proposed, and the answer of an edit what was decided."""


def read_examples(viewer: Viewer, text: str = "", *, names: bool = False) -> Iterator[list[DecisionExample]]:
    """Return the decisions that a filter finds as examples, the latest first, in portions; ``names``: of people.

    Only those of workflows whose values this person may read, and whose content can be decrypted. ``Invalid`` for an
    invalid filter, at once.
    """
    return _portions(viewer, text, read_decisions(viewer, text, limit=PORTION), names)


def as_lines(portions: Iterable[list[DecisionExample]]) -> Iterator[str]:
    """Give the examples as one JSON document a line, portion by portion."""
    for portion in portions:
        yield "".join(escaped(one.model_dump_json()) + "\n" for one in portion)


def _portions(viewer: Viewer, text: str, page: Any, names: bool) -> Iterator[list[DecisionExample]]:
    while True:
        wanted: dict[str, DecisionRecord] = {row.id: row for row in page.items if viewer.may("inspect", row.workflow)}
        rows = HumanRequest.objects.select_related("run", "answer__by").prefetch_related(*PEOPLE).in_bulk(list(wanted))
        yield [
            _example(known, rows[key], names)
            for key, known in wanted.items()
            if key in rows and is_readable(rows[key]) and hasattr(rows[key], "answer")
        ]
        if not page.next:
            return
        page = read_decisions(viewer, text, cursor=page.next, limit=PORTION)


def _example(known: DecisionRecord, row: HumanRequest, names: bool) -> DecisionExample:
    secrets, answer = secrets_in(row), row.answer
    card: dict[str, Any] = masked(masked_card(row.card, secrets), secrets)
    decided = document(answer, "value")
    value = masked(decided, secrets)
    given = value if isinstance(value, dict) else {}
    proposal, edited = edit_of(card, value)
    live = [reply for reply in row.replies.all() if reply.undone is None and reply.by_id == answer.by_id]
    said = next((text(reply, "reason") for reply in live), "")
    said = said or str(given.get("reason") or given.get("feedback") or "")
    remarks = sorted(row.comments.all(), key=lambda one: (one.at, one.pk))
    texts = [Message(role="user", text=one) for one in (said, *(text(one, "text") for one in remarks))]
    # What people wrote may repeat a secret of the card or the answer.
    reason, *written = Masking().masked(texts, secrets, [row.card, decided])
    facts = {name: getattr(known, name) for name in DecisionRecord.model_fields if name != "answered_by"}
    return DecisionExample.trusted(
        **facts,
        version=row.run.version,
        card=card,
        proposal=proposal,
        value=value,
        edit=None if edited is None else json_patch.make(proposal, edited),
        reason=reason.text,
        answered_by=rule_name(answer.rule) or _person(answer.by, names),
        comments=tuple(
            Remark.trusted(by=_person(one.by, names), kind=one.kind, text=message.text, at=one.at)
            for one, message in zip(remarks, written, strict=True)
        ),
    )


def edit_of(card: Mapping[str, Any], value: Any) -> tuple[Any, Any]:
    """Return what a card proposes, and what an edit of it decided; None for each that is not there."""
    given = value if isinstance(value, dict) and value.get("action") == "edit" else {}
    proposal = next((card[name] for name in PROPOSED if name in card), None)
    return proposal, next((given[name] for name in EDITED if name in given), None)


def _person(user: Any, names: bool) -> str:
    """Return who it was: the names of their groups, or their own; empty for a deadline."""
    if user is None:
        return ""
    return str(user.get_username()) if names else ", ".join(sorted(group.name for group in user.groups.all()))
