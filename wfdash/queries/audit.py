"""The record of human acts, as far as its reader may see: own acts, and those of workflows they may inspect."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

from django.db.models import Q, QuerySet

from checkpoints.models import AuditEntry, AuditHead, Run, Shown
from checkpoints.records import Json
from wfdash.access import Viewer
from wfdash.chain import CHAINED, PACK
from wfdash.errors import Invalid, NotFound
from wfdash.queries.paging import Page, parse_filter

KEYS = frozenset({"actor", "verb", "workflow", "run", "request", "after", "before"})
MOST_EXPORTED = 100_000


@dataclass(frozen=True, kw_only=True)
class AuditRow:
    """One act. ``facts``: what was decided, on what, why."""

    n: int
    at: datetime
    actor: str
    right: str
    verb: str
    workflow: str
    run: str
    request: str
    facts: dict[str, Json]
    prev: str
    hash: str

    @property
    def subject(self) -> str:
        """What it was about."""
        return str(self.facts.get("subject") or "")

    def told(self) -> dict[str, Any]:
        """Return it as it is exported: what the hash covers, and the hash."""
        at = self.at.isoformat(timespec="microseconds")
        return {**{name: getattr(self, name) for name in CHAINED}, "at": at, "hash": self.hash}


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a person was shown when they decided: the card with its form, and the page if a page was shown."""

    card: dict[str, Json] | None
    answer_schema: dict[str, Json] | None
    policy: dict[str, Json]
    page: str


def acts(viewer: Viewer, text: str = "", *, cursor: str = "", limit: int = 50) -> Page[AuditRow]:
    """Return one page of acts, newest first (one query). ``Invalid`` names the part of the filter that is none."""
    rows = _match(_seen(viewer), text)
    if cursor.isdigit() and len(cursor) < 19:
        rows = rows.filter(n__lt=int(cursor))
    found = [_row(entry) for entry in rows.order_by("-n")[: limit + 1]]
    more = str(found[limit - 1].n) if len(found) > limit else ""
    return Page(items=tuple(found[:limit]), next=more)


def act(viewer: Viewer, n: int) -> AuditRow:
    """Return one act (one query), or raise ``NotFound``."""
    entry = _seen(viewer).filter(n=n).first()
    if entry is None:
        raise NotFound("There is no such entry, or it is not yours to see")
    return _row(entry)


def evidence(row: AuditRow) -> Evidence | None:
    """Return what was shown at an act (one query), None if it was not about something shown."""
    return evidence_of([row]).get(row.n)


def evidence_of(rows: Sequence[AuditRow]) -> dict[int, Evidence]:
    """Return act -> what was shown then, for those that were about something shown (one query per 500 things)."""
    bodies = dict(_shown(rows))
    found = {}
    for row in rows:
        shown = {key.rsplit(":", 2)[1]: bodies[key] for key in _shown_keys(row) if key in bodies}
        if shown:
            found[row.n] = _evidence(shown)
    return found


def _evidence(bodies: Mapping[str, str]) -> Evidence:
    told = json.loads(bodies.get("card", "{}"))
    return Evidence(
        card=told.get("card"),
        answer_schema=told.get("answer_schema"),
        policy=told.get("policy") or {},
        page=bodies.get("page", ""),
    )


def acts_of_run(viewer: Viewer, run_id: str) -> tuple[AuditRow, ...]:
    """Return every act on a run, oldest first (two queries), or raise ``NotFound``."""
    if not Run.objects.filter(viewer.scope("see"), pk=run_id).exists():
        raise NotFound("There is no such run")
    return tuple(_row(entry) for entry in _seen(viewer).filter(run=run_id).order_by("n"))


def pack(viewer: Viewer, text: str = "", *, exported: datetime) -> dict[str, Json]:
    """Return the acts a filter finds, oldest first, with what was shown, as one document that proves itself.

    ``Invalid`` if there are too many for one.
    """
    rows = exported_rows(viewer, text)
    whole = bool(rows) and not text.strip() and rows[0].n == 1 and rows[-1].n == len(rows)
    head = AuditHead.objects.first()
    return {
        "format": PACK,
        "exported": exported.isoformat(),
        "by": viewer.name,
        "filter": text,
        "whole": whole,
        "head": {"n": head.n, "hash": head.hash} if head else None,
        "entries": [row.told() for row in rows],
        "shown": dict(_shown(rows)),
    }


def exported_rows(viewer: Viewer, text: str) -> list[AuditRow]:
    """Return the acts a filter finds, oldest first. ``Invalid`` if there are too many for one document."""
    rows = _match(_seen(viewer), text).order_by("n")
    found = [_row(entry) for entry in rows[: MOST_EXPORTED + 1].iterator(1000)]
    if len(found) > MOST_EXPORTED:
        words = f"More than {MOST_EXPORTED} entries: narrow the filter with after: and before:"
        raise Invalid([{"loc": ["q"], "msg": words}])
    return found


def _seen(viewer: Viewer) -> QuerySet[AuditEntry]:
    return AuditEntry.objects.filter(viewer.scope("inspect") | Q(actor=viewer.name))


def _match(rows: QuerySet[AuditEntry], text: str) -> QuerySet[AuditEntry]:
    wanted = parse_filter(text, KEYS)
    if wanted.unknown:
        known = ", ".join(sorted(KEYS))
        raise Invalid([{"loc": ["q"], "msg": f"{wanted.unknown[0]}: is no filter here. Known are {known}"}])
    for word in wanted.words:
        rows = rows.filter(Q(verb=word) | Q(actor=word) | Q(workflow__icontains=word) | Q(run=word) | Q(request=word))
    for key, values in wanted.terms.items():
        for value in values:
            rows = rows.filter(_term(key, value))
    return rows


def _term(key: str, value: str) -> Q:
    if key not in {"after", "before"}:
        return Q(**{key: value})
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise Invalid([{"loc": ["q"], "msg": f"{key}:{value} is no date: write 2026-01-31"}]) from None
    at = at if at.tzinfo else datetime.combine(at.date(), at.time() or time(), tzinfo=UTC)
    return Q(at__gte=at) if key == "after" else Q(at__lt=at)


def _row(entry: AuditEntry) -> AuditRow:
    names = ("n", "at", "actor", "right", "verb", "workflow", "run", "request", "facts", "prev", "hash")
    return AuditRow(**{name: getattr(entry, name) for name in names})


def _shown_keys(row: AuditRow) -> list[str]:
    kinds = {"card": row.facts.get("seen"), "page": row.facts.get("page")}
    return [f"{row.request}:{kind}:{digest}" for kind, digest in kinds.items() if row.request and digest]


def _shown(rows: Sequence[AuditRow]) -> Iterator[tuple[str, str]]:
    keys = sorted({key for row in rows for key in _shown_keys(row)})
    for at in range(0, len(keys), 500):
        for shown in Shown.objects.filter(pk__in=keys[at : at + 500]):
            yield shown.pk, shown.body
