"""Audit entries a viewer may see: their own, and those of workflows they may inspect."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from django.db.models import Q

from checkpoints.content.encryption import Locked
from checkpoints.errors import Damaged
from checkpoints.models import AuditEntry, HumanRequest, Run, Shown
from checkpoints.records import Json
from wfdash.access.viewer import EVERY, Viewer
from wfdash.catalog import secrets_of
from wfdash.domain.hash_chain import CONTENT, masked_facts
from wfdash.errors import NotAllowed, NotFound
from wfdash.queries.audit.qualifiers import filter_entries, visible_entries
from wfdash.queries.search.conditions import edge_of
from wfdash.queries.search.keyset import KeysetOrder
from wfdash.queries.unreadable import document
from wfdash.records.audit import AuditRecord
from wfdash.records.base import ScannedPage
from wfdash.schemas.secrets import secret_names

NEWEST = KeysetOrder(columns=("-n",))
REACH = 50_000
"""Entries looked through for one page, where no index leads to those that a filter finds."""
FAR_REACH = 500_000
"""Entries looked through when a person asks to look further."""
NONE = frozenset[str]()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The content shown at a decision: the card with its form, and the page's HTML if there was one."""

    card: dict[str, Json] | None
    answer_schema: dict[str, Json] | None
    policy: dict[str, Json]
    page: str


def read_entries(
    viewer: Viewer, text: str = "", *, cursor: str = "", limit: int = 50, far: bool = False
) -> ScannedPage[AuditRecord]:
    """Return one page of entries, newest first (at most three queries). ``Invalid`` for an invalid filter.

    No filter looks through more than ``REACH`` entries, ``FAR_REACH`` with ``far``: a page that found too few by then
    says how far it came, and may be empty.
    """
    wanted, place = filter_entries(viewer, text), NEWEST.place(cursor)
    after = NEWEST.after(place) if place else Q()
    edge = _edge(wanted.along & after, FAR_REACH if far else REACH) if wanted.rest else None
    rows = visible_entries(viewer).filter(wanted.whole, after, Q() if edge is None else Q(n__gte=edge))
    found = without_secrets([row_of(entry) for entry in rows.order_by(*NEWEST.columns)[: limit + 1]])
    if edge is not None and len(found) <= limit:
        reached = AuditEntry.objects.values_list("at", flat=True).get(n=edge)
        return ScannedPage.trusted(items=tuple(found), next=NEWEST.cursor({"n": edge}), reached=reached)
    more = NEWEST.cursor(vars(found[limit - 1])) if len(found) > limit else ""
    return ScannedPage.trusted(items=tuple(found[:limit]), next=more)


def _edge(along: Q, reach: int) -> int | None:
    """Return the number of the last entry that is looked through, None if all are."""
    found: int | None = edge_of(AuditEntry.objects.filter(along).order_by(*NEWEST.columns), "n", reach)
    return found


def read_entry(viewer: Viewer, n: int) -> AuditRecord:
    """Return one entry (one query). ``NotFound``."""
    found = visible_entries(viewer).filter(n=n).first()
    if found is None:
        raise NotFound("Entry not found, or you do not have access")
    return without_secrets([row_of(found)])[0]


def audit_head(viewer: Viewer) -> AuditRecord:
    """Return the newest entry (one query). ``NotAllowed`` for all but admins of every workflow; ``NotFound``."""
    if not viewer.may("admin", EVERY):
        raise NotAllowed("Only admins of every workflow can read the head of the audit log")
    newest = AuditEntry.objects.order_by("-n").first()
    if newest is None:
        raise NotFound("The audit log is empty")
    return row_of(newest)


def without_secrets(rows: Iterable[AuditRecord]) -> list[AuditRecord]:
    """Return entries with secrets masked: old entries may hold some (one query per 500 requests)."""
    found = list(rows)
    names = _secrets_of({row.request for row in found if CONTENT & row.facts.keys()} - {""})
    return [
        row.model_copy(
            update={"facts": masked_facts(row.facts, secrets_of(row.workflow) | names.get(row.request, NONE))}
        )
        for row in found
    ]


def _secrets_of(requests: Collection[str]) -> dict[str, frozenset[str]]:
    wanted, found = sorted(requests), dict[str, frozenset[str]]()
    for at in range(0, len(wanted), 500):
        for row in HumanRequest.objects.filter(pk__in=wanted[at : at + 500]).only("id", "answer_schema"):
            found[row.pk] = secret_names(document(row, "answer_schema"))
    return found


def read_evidence(row: AuditRecord) -> Evidence | None:
    """Return the content shown at an entry's decision (one query), None if nothing was shown."""
    return evidence_of([row]).get(row.n)


def evidence_of(rows: Sequence[AuditRecord]) -> dict[int, Evidence]:
    """Return entry number -> content shown, for entries that have some (one query per 500 contents)."""
    bodies = dict(_shown_content(rows))
    found = {}
    for row in rows:
        shown = {key.rsplit(":", 2)[1]: bodies[key] for key in _shown_keys(row) if key in bodies}
        if shown:
            found[row.n] = _evidence(shown)
    return found


def _evidence(bodies: Mapping[str, str]) -> Evidence:
    card = json.loads(bodies.get("card", "{}"))
    return Evidence(
        card=card.get("card"),
        answer_schema=card.get("answer_schema"),
        policy=card.get("policy") or {},
        page=bodies.get("page", ""),
    )


def entries_of_run(viewer: Viewer, run_id: str) -> tuple[AuditRecord, ...]:
    """Return every entry about a run, oldest first (two queries), or raise ``NotFound``."""
    if not Run.objects.filter(viewer.scope("see"), pk=run_id).exists():
        raise NotFound("Run not found")
    return tuple(without_secrets(row_of(entry) for entry in visible_entries(viewer).filter(run=run_id).order_by("n")))


def row_of(entry: AuditEntry) -> AuditRecord:
    """Return the view of a stored entry."""
    names = ("n", "at", "actor", "right", "verb", "workflow", "run", "request", "prev", "hash", "signature")
    return AuditRecord.trusted(**{name: getattr(entry, name) for name in names}, facts=document(entry, "facts"))


def _shown_keys(row: AuditRecord) -> list[str]:
    kinds = {"card": row.facts.get("seen"), "page": row.facts.get("page")}
    return [f"{row.request}:{kind}:{digest}" for kind, digest in kinds.items() if row.request and digest]


def _shown_content(rows: Sequence[AuditRecord]) -> Iterator[tuple[str, str]]:
    keys = sorted({key for row in rows for key in _shown_keys(row)})
    for at in range(0, len(keys), 500):
        for shown in Shown.objects.filter(pk__in=keys[at : at + 500]):
            # Content that cannot be decrypted is left out; verification of the pack then fails.
            with suppress(Damaged, Locked):
                yield shown.pk, shown.body
