"""Audit exports, streamed in portions of bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.db.models import Model, QuerySet, TextField
from django.db.models.functions import Cast, Length

from checkpoints.content.encryption import Locked
from checkpoints.errors import Damaged
from checkpoints.models import AuditEntry, AuditHead, Shown
from checkpoints.models.fields import current_keyring
from wfdash.access.viewer import EVERY, Viewer
from wfdash.domain.audit_packs import PACK, write_pack
from wfdash.domain.hash_chain import CHAINED
from wfdash.errors import Invalid
from wfdash.queries.audit.entries import row_of, without_secrets
from wfdash.queries.audit.qualifiers import filter_entries, visible_entries
from wfdash.records.audit import AuditRecord

MOST_EXPORTED = 100_000
PORTION = 500_000
"""Characters of content read at a time; more where a single row has more."""
ROWS = 500
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
    about: dict[str, Any] = {
        "format": PACK,
        "exported": exported.isoformat(),
        "by": viewer.name,
        "filter": text,
        "scope": "all" if viewer.may("admin", EVERY) else f"what {viewer.name} can see",
        "whole": _checked_count(rows) == (head.n if head else 0) and not text.strip(),
        "head": {"n": head.n, "hash": head.hash} if head else None,
    }
    entries = (exported_form(row) for portion in _portions(rows) for row in portion)
    return write_pack(about, entries, _shown_content, current_keyring())


def exported_form(row: AuditRecord) -> dict[str, Any]:
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
        raise Invalid([{"loc": ["q"], "msg": words}])
    return count


def _portions(rows: QuerySet[AuditEntry]) -> Iterator[list[AuditRecord]]:
    ordered, last = rows.order_by("n"), 0
    while some := _sizes(ordered.filter(n__gt=last)[:ROWS], "facts"):
        for numbers in in_portions(some):
            yield [row_of(entry) for entry in AuditEntry.objects.filter(pk__in=numbers).order_by("n")]
        last = some[-1][0]


def _shown_content(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at in range(0, len(names), ROWS):
        some = sorted(_sizes(Shown.objects.filter(pk__in=names[at : at + ROWS]), "body"))
        for portion in in_portions(some):
            rows = Shown.objects.in_bulk(portion)
            for name in portion:
                # Content that cannot be decrypted is left out; verification of the pack then fails.
                with suppress(Damaged, Locked, KeyError):
                    yield name, rows[name].body


def _sizes(rows: QuerySet[Any, Model], column: str) -> list[tuple[Any, int]]:
    sized = rows.annotate(size=Length(Cast(column, TextField())))
    return [(key, size or 0) for key, size in sized.values_list("pk", "size")]


def in_portions(sizes: Iterable[tuple[Any, int]], most: int = PORTION) -> Iterator[list[Any]]:
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
