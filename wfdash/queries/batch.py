"""Requests that are alike: one gate, one form, differing in a few values. Pure apart from the look-up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from checkpoints.canonical import dumps
from checkpoints.models import HumanRequest
from checkpoints.records import Json
from wfdash.access import Viewer
from wfdash.queries import audience
from wfdash.queries.inbox import tab_filter
from wfdash.queries.matching import matching
from wfdash.queries.requests import RequestView, request
from wfdash.seen import fingerprint
from wfdash.workflow.policy import alone_because

MOST = 200
DEEPEST = 3
"""Levels of a value that become columns; what is deeper stays one value."""
COMPARED = ("subject", "body", "proposal", "current", "context", "evidence", "risk", "undo")

Path = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Alike:
    """One of them. ``values``: path -> value of what differs; ``refusal``: why it cannot be decided with others."""

    id: str
    subject: str
    values: dict[Path, Json]
    seen: str
    created: datetime
    due: datetime | None
    asked: datetime | None
    refusal: str = ""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Requests alike to ``like``. ``columns``: what differs, ``same``: what does not; ``left``: not shown here."""

    like: RequestView
    rows: tuple[Alike, ...]
    columns: tuple[Path, ...]
    same: dict[Path, Json]
    left: int


def batch(viewer: Viewer, request_id: str, tab: str = "mine", text: str = "") -> Batch:
    """Return what is alike to a request among those of a tab that this person may answer. ``NotFound``, ``Invalid``.

    Three queries, and the request's own.
    """
    like = request(viewer, request_id)
    gate = Q(workflow=like.workflow, step=like.step, kind=like.kind)
    mine = audience.may_answer(viewer) & audience.unspoken_by(viewer)
    within = tab_filter(viewer, tab if tab != "answered" else "mine")
    ids = HumanRequest.objects.filter(gate, within, mine, matching(viewer, text)).order_by("created", "id")
    found = HumanRequest.objects.filter(pk__in=list(ids.values_list("pk", flat=True)[: MOST + 1]))
    form = dumps(like.answer_schema)
    rows = [row for row in found.order_by("created", "id") if dumps(row.answer_schema) == form]
    flat = {row.id: flatten(row.card) for row in rows[:MOST]}
    columns, same = compare(list(flat.values()))
    return Batch(
        like=like,
        rows=tuple(_alike(row, flat[row.id], columns) for row in rows[:MOST]),
        columns=columns,
        same=same,
        left=max(0, ids.count() - min(len(rows), MOST)),
    )


def flatten(card: Mapping[str, Any]) -> dict[Path, Json]:
    """Return a card's facts by path: mappings become columns, a list stays one value."""
    found: dict[Path, Json] = {}
    for name in COMPARED:
        value = card.get(name)
        if value is None:
            continue
        if name == "evidence" and isinstance(value, list):
            found |= _evidence(value)
        else:
            found |= _spread((name,), value)
    return found


def compare(cards: list[dict[Path, Json]]) -> tuple[tuple[Path, ...], dict[Path, Json]]:
    """Return what differs among them, in the order of the cards, and what all have alike."""
    paths = list(dict.fromkeys(path for card in cards for path in card))
    texts = {path: {_text(card.get(path)) for card in cards} for path in paths}
    columns = tuple(path for path in paths if len(texts[path]) > 1)
    return columns, {path: cards[0][path] for path in paths if len(texts[path]) == 1}


def _evidence(items: Iterable[Any]) -> dict[Path, Json]:
    found: dict[Path, Json] = {}
    for number, item in enumerate(items):
        if isinstance(item, Mapping):
            title = str(item.get("title") or f"evidence {number + 1}")
            found |= _spread(("evidence", title), item.get("value"))
    return found


def _spread(path: Path, value: Json) -> dict[Path, Json]:
    if isinstance(value, Mapping) and value and len(path) < DEEPEST:
        found: dict[Path, Json] = {}
        for name, item in value.items():
            found |= _spread((*path, str(name)), item)
        return found
    return {path: value}


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _alike(row: HumanRequest, flat: Mapping[Path, Json], columns: tuple[Path, ...]) -> Alike:
    return Alike(
        id=row.id,
        subject=str(row.card.get("subject") or row.step),
        values={path: flat.get(path) for path in columns},
        seen=fingerprint(row.card, row.answer_schema),
        created=row.created,
        due=row.due,
        asked=row.asked,
        refusal=alone_because(row.risk, row.policy),
    )
