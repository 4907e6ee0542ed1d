"""The audit: what people did, appended in the transaction of the action, each entry chained to the previous by its
hash.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import islice
from typing import Any

from django.db.models import Subquery, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from checkpoints.content.encryption import Locked
from checkpoints.content.pickles import Keyring
from checkpoints.database.alias import connection
from checkpoints.database.compiled import insert
from checkpoints.database.storage import write_last
from checkpoints.errors import Damaged
from checkpoints.models import AuditEntry, AuditHead, HumanRequest, Run, Shown
from checkpoints.models.fields import current_keyring
from checkpoints.models.user_model import User
from wfdash.access.viewer import Viewer
from wfdash.actions.audit.chain_end import ChainEnd, known_end, locked_end, move_end
from wfdash.domain.hash_chain import (
    BROKEN,
    CHAINED,
    Break,
    breaks,
    hash_of,
    masked_facts,
    shown_breaks,
    shown_flaw,
    shown_keys,
)
from wfdash.timemachine.restore_point import secrets_in

DEADLINE = "a deadline"
SCHEDULE = "a schedule"
MACHINE = "wfdash"
_logged_on: date | None = None

log = logging.getLogger(__name__)


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
) -> None:
    """Append an entry to the chain as the last thing that the caller's transaction does. ``viewer`` None: ``actor``
    did it.

    The end of the chain is one row: from its lock to the commit all other actions wait.
    """
    who, facts = (viewer.name, with_token(viewer.token, facts or {})) if viewer else (actor, dict(facts or {}))
    about = {"workflow": workflow, "run": run, "request": request, "right": right[:300]}
    write_last(connection(), _append_all, {"actor": who, "verb": verb, "facts": facts, **about})


def with_token(token: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry's facts with the name of the token that a program acted with; empty: a person did."""
    return {**facts, "token": token} if token else dict(facts)


def _append_all(wanted: Sequence[Mapping[str, Any]]) -> None:
    """Append the entries of one transaction."""
    keys = current_keyring()
    known = known_end(keys)
    if known is not None and _append(wanted, known, known.n, known.hash, keys):
        return
    end = locked_end()
    if flaw := end.flaw(keys):
        # A flaw at the end stays in the chain: appending to it silently would cover it up.
        n, digest, broken = _broken(end, flaw)
        _append([broken, *wanted], end, n, digest, keys)
    else:
        _append(wanted, end, end.n, end.hash, keys)


def _append(wanted: Sequence[Mapping[str, Any]], end: ChainEnd, n: int, digest: str, keys: Keyring) -> bool:
    """Append entries after the one with that number and hash. False, and nothing changed, if this is not the end as
    stored.
    """
    rows, now = list[AuditEntry](), timezone.now()
    for fields in wanted:
        entry = AuditEntry(n=n + 1, at=now, prev=digest, **fields)
        entry.hash = hash_of(as_json(entry))
        entry.signature = keys.sign("entry", str(entry.n), entry.hash)
        n, digest = entry.n, entry.hash
        rows.append(entry)
    if not move_end(end, n, digest, keys):
        return False
    insert(*rows)
    return True


def _broken(end: ChainEnd, flaw: str) -> tuple[int, str, dict[str, Any]]:
    """Return number and hash of the last entry, and the entry to come after it: it says what was found."""
    last = AuditEntry.objects.order_by("-n").only("n", "hash").first()
    facts = {"words": f"The end of the chain {flaw}", "head": {"n": end.n, "hash": end.hash}}
    log.error("The audit's end %s: see docs/audit.md", flaw)
    n, digest = (last.n, last.hash) if last else (0, "")
    return n, digest, {"actor": MACHINE, "verb": BROKEN, "facts": facts}


def record_run(viewer: Viewer, verb: str, run: Run, right: str = "operate", **facts: Any) -> None:
    """Append a person's action on a run. ``right``: the one they used."""
    record(viewer, verb, workflow=run.workflow, run=run.pk, right=right, facts=facts)


def record_request(
    viewer: Viewer | None, verb: str, request: HumanRequest, facts: Mapping[str, Any], *, right: str = ""
) -> None:
    """Append an action on a request, of a person or of a deadline. ``facts`` may contain a subject of their own.

    Secrets in them are hidden, because what is in the chain cannot be removed.
    """
    record(
        viewer,
        verb,
        workflow=request.workflow,
        run=request.run_id,
        request=request.pk,
        right=right,
        facts={"subject": str(request.card.get("subject") or ""), **masked_facts(facts, secrets_in(request))},
    )


def name_of(person: User | None) -> str:
    """Return who did something; None is a deadline."""
    return person.get_username() if person else DEADLINE


def keep_shown(request: str, *shown: tuple[str, str, str]) -> None:
    """Store what a person was shown, once per content: its kind (card, JSON, or page, HTML), fingerprint and text."""
    now = timezone.now()
    rows = [
        Shown(id=f"{request}:{kind}:{seen[:64]}", request=request, kind=kind, body=body, at=now)
        for kind, seen, body in shown
    ]
    insert(*rows, ignore_conflicts=True)


def as_json(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry in the form in which it is exported."""
    fields = {name: getattr(entry, name) for name in CHAINED}
    return {**fields, "at": entry.at.isoformat(timespec="microseconds")}


def log_head(limit: int = 1) -> int:
    """Log the end of the chain, once per day and process, so that anyone who keeps the log can prove what it was.

    Returns how many lines were written.
    """
    global _logged_on
    today = timezone.now().date()
    if _logged_on != today and (head := AuditHead.objects.filter(pk=1).first()):
        count = f"{head.n} entr{'y' if head.n == 1 else 'ies'}"
        log.info("The audit has %s and ends with %s", count, head.hash or "nothing")
        _logged_on = today
        return 1
    return 0


def check_chain() -> tuple[int, list[Break]]:
    """Verify the chain in the database and the stored content. Returns how many entries there are, and all breaks."""
    count, found = 0, list[Break]()

    def exported() -> Iterator[dict[str, Any]]:
        nonlocal count
        for entry in AuditEntry.objects.order_by("n").iterator(500):
            count += 1
            fields: dict[str, Any] = {"n": entry.n, "verb": entry.verb, "prev": entry.prev}
            try:
                fields = as_json(entry)
            except Locked as error:
                found.append(Break(entry.n, str(error), locked=True))
            except Damaged as error:
                found.append(Break(entry.n, str(error)))
            yield {**fields, "hash": entry.hash, "signature": entry.signature}

    def looked_at(entries: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        while some := list(islice(entries, 500)):
            yield from some
            readable = [entry for entry in some if "facts" in entry]
            found.extend(shown_breaks(readable, _kept(readable, found)))

    found += breaks(looked_at(exported()), keys=current_keyring())
    return count, sorted([*found, *_head_breaks()], key=lambda broken: broken.n)


def check_head(n: int, digest: str) -> list[Break]:
    """Return the breaks found at one entry: whether the chain still has it as a log or an evidence pack recorded it."""
    found = AuditEntry.objects.filter(pk=n, hash=digest).exists() if n else True
    return [] if found else [Break(n, "missing, or not the entry recorded elsewhere")]


def _head_breaks() -> Iterator[Break]:
    """Yield what is wrong with the end of the chain. One statement reads it: others act in the meantime."""
    last = AuditEntry.objects.order_by("-n")[:1]
    ends = {
        "last_n": Coalesce(Subquery(last.values("n")), 0),
        "last_hash": Coalesce(Subquery(last.values("hash")), Value("")),
    }
    head: Any = AuditHead.objects.filter(pk=1).annotate(**ends).first()
    if head is None:
        entry = last.first()
        yield Break(entry.n if entry else 0, "the chain head was removed")
    elif (head.n, head.hash) != (head.last_n, head.last_hash):
        yield Break(head.n, "the end of the chain is missing")
    elif flaw := current_keyring().flaw(head.signature, "head", str(head.n), head.hash):
        yield Break(head.n, f"the end of the chain {flaw}", locked=current_keyring().lacks(head.signature))


def _kept(entries: list[dict[str, Any]], found: list[Break]) -> dict[str, str]:
    """Return, by hash, what is wrong with the stored content these entries refer to. What only a missing key keeps from
    being read is added to ``found``; what is damaged is missing.
    """
    of = {name: entry["n"] for entry in entries for name in shown_keys(entry)}
    kept = {}
    for row in Shown.objects.filter(pk__in=of).iterator(10):
        try:
            kept[row.pk] = shown_flaw(row.pk, row.body)
        except Locked as error:
            kept[row.pk] = ""
            found.append(Break(of[row.pk], str(error), locked=True))
        except Damaged:
            continue
    return kept
