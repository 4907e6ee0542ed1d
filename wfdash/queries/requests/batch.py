"""Similar requests: one step, one form, a few differing values. Pure apart from the look-up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile, zip_longest
from typing import Any

from django.db.models import Q

from checkpoints.content.canonical_json import dumps
from checkpoints.models import HumanRequest
from checkpoints.records import Json
from checkpoints.rules import card_subject
from wfdash.access.viewer import Viewer
from wfdash.domain.fingerprint import fingerprint
from wfdash.domain.invisible import visible
from wfdash.queries.requests import audience
from wfdash.queries.requests.qualifiers import filter_requests
from wfdash.queries.requests.request import RequestView, request
from wfdash.queries.requests.tabs import tab_filter
from wfdash.queries.unreadable import UNREADABLE, document
from wfdash.questions.policy import alone_because

MOST = 200
DEEPEST = 3
"""Levels of a value that become columns; anything deeper stays one value."""
LINKING = frozenset({"a", "an", "by", "for", "from", "in", "of", "on", "the", "to", "with"})
COMPARED = ("subject", "body", "proposal", "current", "context", "evidence", "risk", "undo")

Path = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SimilarRequest:
    """One of several similar requests. ``values``: path -> differing value; ``refusal``: why it is decided alone."""

    id: str
    subject: str
    values: dict[Path, Json]
    seen: str
    created: datetime
    due: datetime | None
    asked: datetime | None
    refusal: str = ""


@dataclass(frozen=True, kw_only=True)
class SimilarRequests:
    """Requests similar to ``like``. ``columns``: differing paths, ``same``: shared values; ``left``: not shown."""

    like: RequestView
    rows: tuple[SimilarRequest, ...]
    columns: tuple[Path, ...]
    same: dict[Path, Json]
    left: int


def similar_requests(viewer: Viewer, request_id: str, tab: str = "mine", text: str = "") -> SimilarRequests:
    """Return the requests of a tab that are similar to one and that this person may answer. ``NotFound``, ``Invalid``.

    Three queries, and the request's own.
    """
    like = request(viewer, request_id)
    gate = Q(workflow=like.workflow, step=like.step, kind=like.kind)
    mine = audience.may_answer(viewer) & audience.not_voted_by(viewer)
    within = tab_filter(viewer, tab if tab != "answered" else "mine")
    ids = HumanRequest.objects.filter(gate, within, mine, filter_requests(viewer, text)).order_by("created", "id")
    found = HumanRequest.objects.filter(pk__in=list(ids.values_list("pk", flat=True)[: MOST + 1]))
    form = dumps(like.answer_schema)
    rows = [row for row in found.order_by("created", "id") if _is_similar(row, form)]
    cards = paired([flatten(row.card) for row in rows[:MOST]])
    flat = {row.id: card for row, card in zip(rows, cards, strict=False)}
    columns, same = compare(list(flat.values()))
    return SimilarRequests(
        like=like,
        rows=tuple(_similar(row, flat[row.id], columns) for row in rows[:MOST]),
        columns=columns,
        same=same,
        left=max(0, ids.count() - min(len(rows), MOST)),
    )


def _is_similar(row: HumanRequest, form: bytes) -> bool:
    """Return whether a request can be read and has that form."""
    return UNREADABLE not in document(row, "card") and dumps(document(row, "answer_schema")) == form


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


def paired(cards: list[dict[Path, Json]]) -> list[dict[Path, Json]]:
    """Return the cards with evidence under one title where each card has its own: by the words they begin with.

    A title that no other card has says whose evidence it is, and would be a column with one value.
    """
    titles = [list(dict.fromkeys(path[1] for path in card if path[0] == "evidence")) for card in cards]
    common = Counter(title for named in titles for title in named)
    own = [[title for title in named if common[title] == 1 and len(cards) > 1] for named in titles]
    shared: list[str] = []
    for number, group in enumerate(zip_longest(*own)):
        name = _opening(group)
        shared.append(name if name and name not in shared and common[name] < 2 else f"evidence {number + 1}")
    return [_renamed(card, dict(zip(mine, shared, strict=False))) for card, mine in zip(cards, own, strict=True)]


def _opening(titles: Iterable[str | None]) -> str:
    """Return the words that all titles begin with, without a preposition at their end; a single title is returned."""
    words = [title.split() for title in titles if title]
    same = [at[0] for at in takewhile(lambda at: len(set(at)) == 1, zip(*words, strict=False))]
    while same and len(words) > 1 and same[-1].lower() in LINKING:
        same.pop()
    return " ".join(same)


def _renamed(card: dict[Path, Json], names: Mapping[str, str]) -> dict[Path, Json]:
    return {
        ("evidence", names[path[1]], *path[2:]) if path[0] == "evidence" and path[1] in names else path: value
        for path, value in card.items()
    }


def compare(cards: list[dict[Path, Json]]) -> tuple[tuple[Path, ...], dict[Path, Json]]:
    """Return the paths whose values differ, in the order of the cards, and the values all cards share."""
    paths = list(dict.fromkeys(path for card in cards for path in card))
    texts = {path: {_sorted_json(card.get(path)) for card in cards} for path in paths}
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


def _sorted_json(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _similar(row: HumanRequest, flat: Mapping[Path, Json], columns: tuple[Path, ...]) -> SimilarRequest:
    return SimilarRequest(
        id=row.id,
        subject=visible(card_subject(row.card, row.step)),
        values={path: flat.get(path) for path in columns},
        seen=fingerprint(row.card, row.answer_schema),
        created=row.created,
        due=row.due,
        asked=row.asked,
        refusal=alone_because(row.risk, row.policy, row.card),
    )
