"""Reads of the audit: entries and exports."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.db.models import Model, Q, QuerySet, TextField
from django.db.models.functions import Cast, Length

from checkpoints.errors import Unreadable
from checkpoints.models import AuditEntry, AuditHead, HumanRequest, Run, Shown
from checkpoints.models.fields import current_keyring
from checkpoints.records import JsonObject, frozen
from wfdash.access.viewer import EVERY, Viewer
from wfdash.domain.errors import Invalid, NotAllowed, NotFound
from wfdash.domain.hash_chain import ACCOUNTS, CHAINED, CONTENT, PACK, masked_facts, shown_keys, write_pack
from wfdash.domain.search_attributes import moment_in
from wfdash.engines.catalog import secrets_of
from wfdash.queries.search import (
    SIGNS,
    WORKFLOW,
    FilterContext,
    KeysetOrder,
    ListedValues,
    ListFilter,
    Qualifier,
    SplitCondition,
    Term,
    ToQ,
    edge_of,
    equals,
    equals_or_begins,
    is_time,
    lies_in,
    listed,
    split_condition,
)
from wfdash.queries.unreadable import document
from wfdash.records.audit import AuditRecord
from wfdash.records.base import ScannedPage
from wfdash.values.schemas.secrets import secret_names

NEWEST = KeysetOrder(columns=("-n",))
MAX_SCANNED_ENTRIES = 50_000
"""Entries looked through for one page, where no index leads to those that a filter finds."""
FAR_REACH = 500_000
"""Entries looked through when a person asks to look further."""
NONE = frozenset[str]()


@frozen
class Evidence:
    """The content shown at a decision: the card with its form, and the page's HTML if there was one."""

    card: JsonObject | None
    answer_schema: JsonObject | None
    policy: JsonObject
    page: str


def read_entries(
    viewer: Viewer, text: str = "", *, cursor: str = "", limit: int = 50, far: bool = False
) -> ScannedPage[AuditRecord]:
    """Return one page of entries, newest first (at most three queries). ``Invalid`` for an invalid filter.

    No filter looks through more than ``MAX_SCANNED_ENTRIES``, ``FAR_REACH`` with ``far``: a page that found too few by
    then says how far it came, and may be empty.
    """
    wanted, after = filter_entries(viewer, text), NEWEST.after(NEWEST.place(cursor))
    edge = _edge(wanted.along & after, FAR_REACH if far else MAX_SCANNED_ENTRIES) if wanted.rest else None
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
    """Return entry number -> content shown, for entries that have some (one query)."""
    bodies: dict[str, str] = {}
    for one in Shown.objects.filter(pk__in={key for row in rows for key in shown_keys(vars(row))}):
        # Content that cannot be decrypted is left out; verification of the pack then fails.
        with suppress(Unreadable):
            bodies[one.pk] = one.body
    found = {}
    for row in rows:
        shown = {key.rsplit(":", 2)[1]: bodies[key] for key in shown_keys(vars(row)) if key in bodies}
        if shown:
            card = json.loads(shown.get("card", "{}"))
            found[row.n] = Evidence(
                card=card.get("card"),
                answer_schema=card.get("answer_schema"),
                policy=card.get("policy") or {},
                page=shown.get("page", ""),
            )
    return found


def entries_of_run(viewer: Viewer, run_id: str, begin: int = 0, *, end: int, after: int = 0) -> tuple[AuditRecord, ...]:
    """Return the entries about a run, numbered above ``after``, oldest first (two queries), or raise ``NotFound``."""
    if not Run.objects.filter(viewer.scope("see"), pk=run_id).exists():
        raise NotFound("Run not found")
    rows = visible_entries(viewer).filter(run=run_id, n__gt=after).order_by("n")[begin:end]
    return tuple(without_secrets(map(row_of, rows)))


def row_of(entry: AuditEntry) -> AuditRecord:
    """Return the view of a stored entry."""
    names = ("n", "at", "actor", "right", "verb", "workflow", "run", "request", "prev", "hash", "signature")
    return AuditRecord.trusted(**{name: getattr(entry, name) for name in names}, facts=document(entry, "facts"))


# Audit exports, streamed in portions of bounded memory.

MOST_EXPORTED = 100_000
PORTION_CHARACTERS = 500_000
"""Characters of content read at a time; more where a single row has more."""
PORTION_ROWS = 500
"""The most rows read at a time."""


def check_export(viewer: Viewer, text: str) -> None:
    """Raise ``Invalid`` for an export with a wrong filter, or with more entries than one document may hold."""
    _checked_count(_matching(viewer, text))


def pack(viewer: Viewer, text: str = "", *, exported: datetime) -> Iterator[bytes]:
    """Return the entries a filter finds, oldest first, with the content shown, as chunks of one verifiable document.

    ``scope``: all, or the name of the viewer whose part it is. Raises ``Invalid`` at once if there are too many.
    """
    # The upper bound is read first: entries written during the export are not part of it.
    head = AuditHead.objects.first()
    rows = _matching(viewer, text).filter(n__lte=head.n if head else 0)
    about: JsonObject = {
        "format": PACK,
        "exported": exported.isoformat(),
        "by": viewer.name,
        "filter": text,
        "scope": "all" if viewer.may("admin", EVERY) else f"what {viewer.name} can see",
        "whole": _checked_count(rows) == (head.n if head else 0) and not text.strip(),
        "head": {"n": head.n, "hash": head.hash} if head else None,
    }
    entries = (exported_form(row) for portion in _portions(rows) for row in portion)
    return write_pack(about, entries, _bodies_of, current_keyring())


def exported_form(row: AuditRecord | AuditEntry) -> JsonObject:
    """Return an entry's exported form: the hashed fields, and the hash."""
    at = row.at.isoformat(timespec="microseconds")
    fields = {name: getattr(row, name) for name in CHAINED}
    return {**fields, "at": at, "hash": row.hash, "signature": row.signature}


def exported_rows(viewer: Viewer, text: str) -> Iterator[list[AuditRecord]]:
    """Return the entries a filter finds, oldest first, in portions, secrets masked. Raises ``Invalid`` at once."""
    rows = _matching(viewer, text)
    _checked_count(rows)
    return (without_secrets(portion) for portion in _portions(rows))


def _matching(viewer: Viewer, text: str) -> QuerySet[AuditEntry]:
    return visible_entries(viewer).filter(filter_entries(viewer, text).whole)


def _checked_count(rows: QuerySet[AuditEntry]) -> int:
    count = rows.order_by()[: MOST_EXPORTED + 1].count()
    if count > MOST_EXPORTED:
        words = f"More than {MOST_EXPORTED:,} entries. Narrow the filter with after: and before:"
        raise Invalid.at("q", words)
    return count


def _portions(rows: QuerySet[AuditEntry]) -> Iterator[list[AuditRecord]]:
    ordered, last = rows.order_by("n"), 0
    while some := _sizes(ordered.filter(n__gt=last)[:PORTION_ROWS], "facts"):
        for numbers in in_portions(some):
            yield [row_of(entry) for entry in AuditEntry.objects.filter(pk__in=numbers).order_by("n")]
        last = some[-1][0]


def _bodies_of(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at in range(0, len(names), PORTION_ROWS):
        some = sorted(_sizes(Shown.objects.filter(pk__in=names[at : at + PORTION_ROWS]), "body"))
        for portion in in_portions(some):
            rows = Shown.objects.in_bulk(portion)
            for name in portion:
                # Content that cannot be decrypted is left out; verification of the pack then fails.
                with suppress(Unreadable, KeyError):
                    yield name, rows[name].body


def _sizes(rows: QuerySet[Any, Model], column: str) -> list[tuple[Any, int]]:
    sized = rows.annotate(size=Length(Cast(column, TextField())))
    return [(key, size or 0) for key, size in sized.values_list("pk", "size")]


def in_portions(sizes: Iterable[tuple[Any, int]], most: int = PORTION_CHARACTERS) -> Iterator[list[Any]]:
    """Yield lists of keys whose sizes add up to at most ``most``; a larger item gets a list of its own."""
    portion, total = list[Any](), 0
    for key, size in sizes:
        if portion and total + size > most:
            yield portion
            portion, total = [], 0
        portion.append(key)
        total += size
    if portion:
        yield portion


# What the audit log can be filtered by: one row for each key, with its condition and what is suggested for it.

SUGGESTING_ENTRIES = 5000
"""The newest entries, of which those that a person may read give suggestions."""
COLUMNS = ("actor", "verb", "workflow")
LED = frozenset({"actor", "workflow", "run", "request"})
"""Keys for a value of which an index has the entries, by their numbers."""


def _actor(context: FilterContext, term: Term, value: str) -> Q:
    return Q(actor=context.viewer.name if value.lower() == "me" else value)


def _is_moment(value: str, sign: str) -> bool:
    return moment_in(value) is not None


QUALIFIERS: tuple[Qualifier[ToQ, ListedValues], ...] = (
    Qualifier(
        "actor", "actor:ana", "done by this person, or by me", values=("me",), suggest=listed("actor"), condition=_actor
    ),
    Qualifier(
        "verb",
        "verb:answer",
        "what was done: start, answer, restore …",
        suggest=listed("verb"),
        condition=equals("verb"),
    ),
    WORKFLOW,
    Qualifier("run", "run:0198*", "ID of a run; 0198* for prefix", condition=equals_or_begins("run")),
    Qualifier("request", "request:0198", "ID of a request", condition=equals("request")),
    Qualifier(
        "at",
        "at:<2d",
        "<2d: within two days, >2d: longer ago, today, 2026-01-31, <2026-01-31",
        accepts=is_time,
        signs=SIGNS,
        values=("<1h", "<1d", "<7d", ">7d", "today"),
        condition=lies_in("at"),
    ),
    Qualifier(
        "after",
        "after:2026-01-31",
        "from this day or time on",
        accepts=_is_moment,
        condition=lambda context, term, value: Q(at__gte=moment_in(value)),
    ),
    Qualifier(
        "before",
        "before:2026-01-31",
        "before this day or time",
        accepts=_is_moment,
        condition=lambda context, term, value: Q(at__lt=moment_in(value)),
    ),
)
FILTER = ListFilter(
    qualifiers=QUALIFIERS, words="a word in the workflow name; or the exact actor, verb, run ID or request ID"
)


def visible_entries(viewer: Viewer) -> QuerySet[AuditEntry]:
    """Return the entries that a person may read."""
    accounts = Q(verb__in=ACCOUNTS)
    theirs = (viewer.scope("inspect") & ~accounts) | (viewer.scope("admin") & accounts)
    return AuditEntry.objects.filter(theirs | (_own(viewer) & ~accounts) | (_own(viewer, whole=True) & accounts))


def _own(viewer: Viewer, *, whole: bool = False) -> Q:
    """Return the filter of what this person did; with a token, as far as it may read values there."""
    own = Q(actor=viewer.name)
    if viewer.whole:
        return own
    reads = viewer.within is not None and "inspect" in viewer.within.rights and not whole
    return own & viewer.reach() & ~Q(workflow="") if reads else Q(pk__in=[])


def filter_entries(viewer: Viewer, text: str) -> SplitCondition:
    """Return the condition of a filter text; ``Invalid`` names each part that cannot be understood, and its remedy."""
    return split_condition(FILTER, viewer, text, _word, LED)


def audit_suggestions(viewer: Viewer) -> dict[str, Any]:
    """Return what the filter of the audit log suggests (two queries)."""
    last = AuditEntry.objects.order_by("-n").values_list("n", flat=True).first() or 0
    # By number: for a person who may read few entries, the whole log would be read to find them.
    newest = visible_entries(viewer).filter(n__gt=last - SUGGESTING_ENTRIES).values_list(*COLUMNS).distinct()
    return FILTER.suggestions(ListedValues(columns=COLUMNS, rows=tuple(newest)))


def _word(word: str) -> Q:
    return Q(verb=word) | Q(actor=word) | Q(workflow__icontains=word) | Q(run=word) | Q(request=word)
