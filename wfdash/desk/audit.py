"""The record of human acts: appended in the act's own transaction, each entry chained to the one before by its hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from checkpoints.canonical import dumps
from checkpoints.models import AuditEntry, AuditHead, Run, Shown
from wfdash.access import Viewer

CHAINED = ("n", "at", "actor", "right", "verb", "workflow", "run", "request", "facts", "prev")
"""What an entry's hash covers, in this order."""
DEADLINE = "a deadline"


@dataclass(frozen=True)
class Break:
    """Where a chain does not hold: the entry's number, and what is wrong with it."""

    n: int
    words: str


def record(
    viewer: Viewer | None,
    verb: str,
    *,
    workflow: str = "",
    run: str = "",
    request: str = "",
    right: str = "",
    facts: Mapping[str, Any] | None = None,
) -> AuditEntry:
    """Append an act to the chain, inside the caller's transaction. ``viewer`` None: a deadline acted."""
    head = _locked_head()
    entry = AuditEntry(
        n=head.n + 1,
        at=timezone.now(),
        actor=viewer.name if viewer else DEADLINE,
        right=right[:300],
        verb=verb,
        workflow=workflow,
        run=run,
        request=request,
        facts=dict(facts or {}),
        prev=head.hash,
    )
    entry.hash = hash_of(as_json(entry))
    entry.save(force_insert=True)
    AuditHead.objects.filter(pk=head.pk).update(n=entry.n, hash=entry.hash)
    return entry


def record_run(viewer: Viewer, verb: str, run: Run, right: str = "operate", **facts: Any) -> None:
    """Append a person's act on a run. ``right``: the one it took."""
    record(viewer, verb, workflow=run.workflow, run=run.pk, right=right, facts=facts)


def keep_shown(request: str, kind: str, seen: str, body: str) -> None:
    """Keep what a person was shown, once per content. ``kind``: card (JSON) or page (HTML)."""
    key = f"{request}:{kind}:{seen[:64]}"
    if not Shown.objects.filter(pk=key).exists():
        Shown.objects.create(id=key, request=request, kind=kind, body=body, at=timezone.now())


def as_json(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as it is exported."""
    told = {name: getattr(entry, name) for name in CHAINED}
    return {**told, "at": entry.at.isoformat(timespec="microseconds")}


def hash_of(told: Mapping[str, Any]) -> str:
    """Return the hash of an entry as it is exported."""
    return sha256(dumps([told[name] for name in CHAINED])).hexdigest()


def breaks(entries: Iterable[Mapping[str, Any]], *, whole: bool = True) -> Iterator[Break]:
    """Yield what does not hold in a chain of exported entries (with their ``hash``), in order.

    ``whole``: it must begin with the first entry and have no gap; else it is a selection, each entry proven by itself.
    """
    before: Mapping[str, Any] | None = None
    for entry in entries:
        n = entry["n"]
        if hash_of(entry) != entry["hash"]:
            yield Break(n, "the entry was changed after it was written")
        follows = before is not None and n == before["n"] + 1
        if whole and not (follows or (before is None and n == 1)):
            yield Break(n, f"entries before it are missing (the one before is {before['n'] if before else 'none'})")
        elif follows and before is not None and entry["prev"] != before["hash"]:
            yield Break(n, "it does not follow from the entry before it")
        before = entry


def check_chain() -> tuple[int, list[Break]]:
    """Check the whole chain in the database; returns how many entries there are, and every break."""
    count = 0

    def told() -> Iterator[dict[str, Any]]:
        nonlocal count
        for entry in AuditEntry.objects.order_by("n").iterator(500):
            count += 1
            yield {**as_json(entry), "hash": entry.hash}

    found = list(breaks(told()))
    head, last = AuditHead.objects.first(), AuditEntry.objects.order_by("-n").first()
    if head and (last is None or (head.n, head.hash) != (last.n, last.hash)):
        found.append(Break(head.n, "the end of the chain is missing"))
    return count, found


def _locked_head() -> AuditHead:
    head = AuditHead.objects.select_for_update().filter(pk=1).first()
    if head is not None:
        return head
    try:
        with transaction.atomic():
            return AuditHead.objects.create(pk=1)
    except IntegrityError:
        return AuditHead.objects.select_for_update().get(pk=1)
