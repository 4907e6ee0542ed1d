"""The record of human acts: appended in the act's own transaction, each entry chained to the one before by its hash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from checkpoints.models import AuditEntry, AuditHead, HumanRequest, Run, Shown
from wfdash.access import Viewer
from wfdash.chain import CHAINED, Break, breaks, hash_of

DEADLINE = "a deadline"
SCHEDULE = "a schedule"


def record(
    viewer: Viewer | None,
    verb: str,
    *,
    workflow: str = "",
    run: str = "",
    request: str = "",
    right: str = "",
    facts: Mapping[str, Any] | None = None,
    actor: str = DEADLINE,
) -> AuditEntry:
    """Append an act to the chain, inside the caller's transaction. ``viewer`` None: ``actor`` did it, by itself."""
    head = _locked_head()
    entry = AuditEntry(
        n=head.n + 1,
        at=timezone.now(),
        actor=viewer.name if viewer else actor,
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


def record_request(
    viewer: Viewer | None, verb: str, request: HumanRequest, facts: Mapping[str, Any], *, right: str = ""
) -> None:
    """Append an act on a request: of a person, or of a deadline. The facts may name a subject of their own."""
    record(
        viewer,
        verb,
        workflow=request.workflow,
        run=request.run_id,
        request=request.pk,
        right=right,
        facts={"subject": str(request.card.get("subject") or ""), **facts},
    )


def name_of(person: User | None) -> str:
    """Return who did something; nobody means a deadline."""
    return person.get_username() if person else DEADLINE


def keep_shown(request: str, kind: str, seen: str, body: str) -> None:
    """Keep what a person was shown, once per content. ``kind``: card (JSON) or page (HTML)."""
    row = Shown(id=f"{request}:{kind}:{seen[:64]}", request=request, kind=kind, body=body, at=timezone.now())
    Shown.objects.bulk_create([row], ignore_conflicts=True)


def as_json(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as it is exported."""
    told = {name: getattr(entry, name) for name in CHAINED}
    return {**told, "at": entry.at.isoformat(timespec="microseconds")}


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
