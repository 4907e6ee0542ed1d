"""Similar requests: one step, one form, a few differing values. Pure apart from the look-up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import takewhile, zip_longest
from typing import Any

from django.db.models import Case, Q, QuerySet, When

from checkpoints.content.canonical_json import dumps
from checkpoints.limits import count_nodes
from checkpoints.models import HumanRequest
from checkpoints.models.fields import StoredSize
from checkpoints.records import Json, frozen
from checkpoints.rules import card_subject
from wfdash.access.viewer import Viewer
from wfdash.domain.hash_chain import fingerprint
from wfdash.domain.labels import visible
from wfdash.queries.requests import request
from wfdash.queries.requests.inbox import filter_requests, tab_filter
from wfdash.queries.requests.request import RequestView, read_request
from wfdash.queries.unreadable import is_readable
from wfdash.questions.policy import alone_because

MAX_SIMILAR_REQUESTS = 200
MOST_BYTES = 4_000_000
"""Stored bytes of the cards and forms in one table."""
MOST_VALUES = 100_000
"""Values that the cards in one table hold."""
MOST_COLUMNS = 200
MAX_COLUMN_DEPTH = 3
"""Levels of a value that become columns; anything deeper stays one value."""
LINKING = frozenset({"a", "an", "by", "for", "from", "in", "of", "on", "the", "to", "with"})
COMPARED = ("subject", "body", "proposal", "current", "context", "evidence", "risk", "undo")

Path = tuple[str, ...]


@frozen
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


@frozen
class SimilarRequests:
    """Requests similar to ``like``. ``columns``: differing paths, ``same``: shared values; ``left``: not shown."""

    like: RequestView
    rows: tuple[SimilarRequest, ...]
    columns: tuple[Path, ...]
    same: dict[Path, Json]
    left: int


def read_similar_requests(viewer: Viewer, request_id: str, tab: str = "mine", text: str = "") -> SimilarRequests:
    """Return the requests of a tab that are similar to one and that this person may answer. ``NotFound``, ``Invalid``.

    Three queries, and the request's own.
    """
    like = read_request(viewer, request_id)
    gate = Q(workflow=like.workflow, step=like.step, kind=like.kind)
    mine = request.may_answer(viewer) & request.not_voted_by(viewer)
    within = tab_filter(viewer, tab if tab != "answered" else "mine")
    ids = HumanRequest.objects.filter(gate, within, mine, filter_requests(viewer, text)).order_by("created", "id")
    sizes = ids.annotate(size=StoredSize("card", "answer_schema")).values_list("pk", "size")[:MAX_SIMILAR_REQUESTS]
    found = HumanRequest.objects.filter(pk__in=_fitting(request_id, list(sizes)))
    first = Case(When(pk=request_id, then=0), default=1)
    rows = _readable(found.order_by(first, "created", "id"), dumps(like.answer_schema))
    cards = flattened([row.card for row in rows])
    columns, same = compare(cards)
    return SimilarRequests(
        like=like,
        rows=tuple(
            SimilarRequest(
                id=row.id,
                subject=visible(card_subject(row.card, row.step)),
                values={path: card.get(path) for path in columns},
                seen=fingerprint(row.card, row.answer_schema),
                created=row.created,
                due=row.due,
                asked=row.asked,
                refusal=alone_because(row.risk, row.policy, row.card),
            )
            for row, card in zip(rows, cards, strict=True)
        ),
        columns=columns,
        same=same,
        left=max(0, ids.count() - len(rows)),
    )


def _fitting(like: str, sizes: list[tuple[str, int]]) -> list[str]:
    """Return the requests whose cards fit into one table, the one they are similar to before all others."""
    room, chosen = MOST_BYTES, []
    for pk, size in sorted(sizes, key=lambda row: row[0] != like):
        if pk == like or size <= room:
            chosen.append(pk)
            room -= size
    return chosen


def _readable(found: QuerySet[HumanRequest], form: bytes) -> list[HumanRequest]:
    """Return the requests that can be read and have that form, until their cards hold too much for one table."""
    rows: list[HumanRequest] = []
    room = MOST_VALUES
    for row in found.iterator(chunk_size=8):
        if is_readable(row) and dumps(row.answer_schema) == form:
            rows.append(row)
            room -= count_nodes(row.card)
        if room < 0:
            break
    return sorted(rows, key=lambda row: (row.created, row.id))


def flattened(cards: Sequence[Mapping[str, Any]]) -> list[dict[Path, Json]]:
    """Return the facts of cards by path: mappings become columns, a list stays one value.

    Where that would be more than ``MOST_COLUMNS``, all cards are taken apart less deep: what differs stays in sight.
    """
    for deepest in range(MAX_COLUMN_DEPTH, 0, -1):
        flat = paired([flatten(card, deepest) for card in cards])
        if len({path for card in flat for path in card}) <= MOST_COLUMNS:
            return flat
    return [{(name,): card[name] for name in COMPARED if card.get(name) is not None} for card in cards]


def flatten(card: Mapping[str, Any], deepest: int = MAX_COLUMN_DEPTH) -> dict[Path, Json]:
    """Return a card's facts by path; not all of them once there are more than may be columns."""
    found: dict[Path, Json] = {}
    for name in COMPARED:
        value = card.get(name)
        if value is None:
            continue
        if name == "evidence" and isinstance(value, list):
            for number, item in enumerate(value[: MOST_COLUMNS + 1]):
                if isinstance(item, Mapping):
                    title = str(item.get("title") or f"evidence {number + 1}")
                    _spread(found, ("evidence", title), item.get("value"), deepest)
        else:
            _spread(found, (name,), value, deepest)
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
    names = [dict(zip(mine, shared, strict=False)) for mine in own]
    return [
        {
            ("evidence", new[path[1]], *path[2:]) if path[0] == "evidence" and path[1] in new else path: value
            for path, value in card.items()
        }
        for card, new in zip(cards, names, strict=True)
    ]


def _opening(titles: Iterable[str | None]) -> str:
    """Return the words that all titles begin with, without a preposition at their end; a single title is returned."""
    words = [title.split() for title in titles if title]
    same = [at[0] for at in takewhile(lambda at: len(set(at)) == 1, zip(*words, strict=False))]
    while same and len(words) > 1 and same[-1].lower() in LINKING:
        same.pop()
    return " ".join(same)


def compare(cards: list[dict[Path, Json]]) -> tuple[tuple[Path, ...], dict[Path, Json]]:
    """Return the paths whose values differ, in the order of the cards, and the values all cards share."""
    paths = list(dict.fromkeys(path for card in cards for path in card))
    texts = {path: {json.dumps(card.get(path), sort_keys=True) for card in cards} for path in paths}
    columns = tuple(path for path in paths if len(texts[path]) > 1)
    return columns, {path: cards[0][path] for path in paths if len(texts[path]) == 1}


def _spread(found: dict[Path, Json], path: Path, value: Json, deepest: int) -> None:
    """Add a value, or the parts of it."""
    if not (isinstance(value, Mapping) and value and len(path) < deepest):
        found[path] = value
        return
    for name, item in value.items():
        if len(found) > MOST_COLUMNS:
            return
        _spread(found, (*path, str(name)), item, deepest)
