"""What came to an incoming webhook: checked, mapped to a message, and acted upon as the webhook's owner, once."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any

from django.db import IntegrityError
from django.utils import timezone

from checkpoints import ids
from checkpoints.database.alias import atomic
from checkpoints.database.storage import write
from checkpoints.models import IncomingDelivery, IncomingHook, Run
from checkpoints.records import Json
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions import rate_limit
from wfdash.actions.runs.lifecycle import start_run
from wfdash.actions.runs.signals import send_signal
from wfdash.domain.hooks.mapping import MISSING, mapped, value_at
from wfdash.domain.hooks.signatures import Received, Unsigned, check_signature
from wfdash.errors import BadSignature, Invalid, KeyReused, NotFound, WfdashError, status_for
from wfdash.schemas.validate import flaws_of
from wfdash.schemas.work import MOST_NODES, has_more_values

log = logging.getLogger(__name__)

LARGEST = 1_000_000
"""Bytes of a delivery."""
KEPT = 8_000
"""Characters of a delivery that its log keeps."""
KEPT_DAYS = 90
FORGOTTEN = 1_000
"""Deliveries forgotten at a time."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """What a delivery did: started, signalled, or duplicate, with the run it was about."""

    id: str
    outcome: str
    run: str


def receive(hook_id: str, headers: Mapping[str, str], body: bytes) -> Done:
    """Act on a delivery and log it. A second one with the same id does nothing and returns the first one's run.

    ``NotFound`` (also if disabled), ``BadSignature``, ``Invalid`` with errors per field, ``NotAllowed``, ``TooOften``.
    """
    hook = IncomingHook.objects.filter(pk=hook_id, active=True).select_related("owner", "created_by").first()
    if hook is None:
        raise NotFound("There is no webhook at this address")
    received = Received(headers={name.lower(): value for name, value in headers.items()}, body=body)
    try:
        signed_id = check_signature(hook.scheme, received, hook.secret.split(), hook.header, time.time())
    except Unsigned as error:
        return _refused(hook, received, BadSignature(str(error)), known=False)
    try:
        return _act(hook, received, signed_id)
    except WfdashError as error:
        return _refused(hook, received, error, known=True)


def preview(hook: IncomingHook, delivery: Json) -> tuple[Json, list[dict[str, Any]]]:
    """Return the message that a delivery would become, and what the delivery lacks."""
    return mapped(hook.mapping, delivery)


def forget_deliveries(limit: int = FORGOTTEN) -> int:
    """Remove what came ``KEPT_DAYS`` ago. Returns how many."""
    old = IncomingDelivery.objects.filter(at__lt=timezone.now() - timedelta(days=KEPT_DAYS)).order_by("at")
    with write():
        return IncomingDelivery.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:limit])).delete()[0]


def _act(hook: IncomingHook, received: Received, signed_id: str) -> Done:
    with write():
        rate_limit.charge_hook(hook.pk, "accepted")
    delivery = _parsed(received.body)
    key = _key(hook, delivery, signed_id, received.body)
    known = IncomingDelivery.objects.filter(hook=hook, key=key).first()
    if known is not None:
        return _log(hook, received, "duplicate", known.run)
    message, lacking = preview(hook, delivery)
    if lacking:
        raise Invalid(lacking)
    try:
        run = _perform(viewer_for(hook.owner), hook, delivery, message, f"hook:{hook.pk}:{key}")
    except KeyReused:
        raise KeyReused("A delivery with this id came before, with other content") from None
    return _log(hook, received, "signalled" if hook.signal else "started", run, key)


def _perform(viewer: Viewer, hook: IncomingHook, delivery: Json, message: Json, key: str) -> str:
    """Start the run or send the signal; returns the run's id."""
    if not hook.signal:
        made_by = [hook.created_by.get_username()] if hook.created_by else []
        return start_run(viewer, hook.workflow, message, key=key, requesters=[*made_by, *(hook.authors or ())]).pk
    named = value_at(delivery, hook.run_at)
    known = isinstance(named, str) and not flaws_of(named)
    run = Run.objects.filter(pk=named, workflow=hook.workflow).first() if known else None
    if run is None:
        raise Invalid([{"loc": ["run"], "msg": f"The delivery names no run of {hook.workflow} at {hook.run_at}"}])
    send_signal(viewer, run.pk, hook.signal, message, key=sha256(key.encode()).hexdigest())
    return run.pk


def _parsed(body: bytes) -> Json:
    if has_more_values(body, MOST_NODES):
        raise Invalid([{"loc": [], "msg": f"The body holds more than {MOST_NODES:,} values"}])
    try:
        parsed: Json = json.loads(body)
    except (ValueError, RecursionError):
        raise Invalid([{"loc": [], "msg": "The body is not JSON"}]) from None
    return parsed


def _key(hook: IncomingHook, delivery: Json, signed_id: str, body: bytes) -> str:
    """Return what a delivery is known by: the signed id, the id in its body, or the body itself.

    A header that is not signed does not count: who repeats a delivery could change it.
    """
    own = value_at(delivery, hook.key_at) if hook.key_at else MISSING
    if isinstance(own, (str, int)) and own != "":
        signed_id = str(own)
    return sha256(signed_id.encode("utf-8", "surrogatepass") if signed_id else body).hexdigest()


def _refused(hook: IncomingHook, received: Received, error: WfdashError, *, known: bool) -> Done:
    """Log why a delivery was refused, unless there were too many, and raise it."""
    try:
        with write():
            rate_limit.charge_hook(hook.pk, "refused")
    except WfdashError:
        raise error from None
    why = "; ".join(_words(one) for one in error.errors) if isinstance(error, Invalid) else str(error)
    row = _row(hook, received, "refused", status=status_for(error), why=_storable(why[:2_000]))
    row.body = row.body if known else ""
    with write():
        row.save(force_insert=True)
    log.info("Incoming webhook %s refused a delivery: %d", hook.pk, row.status)
    raise error


def _storable(text: str) -> str:
    """Return a text that every database takes: a reason may quote what was delivered."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _words(problem: Mapping[str, Any]) -> str:
    place = "/".join(str(part) for part in problem.get("loc", ()))
    return f"{place}: {problem['msg']}" if place else str(problem["msg"])


def _log(hook: IncomingHook, received: Received, outcome: str, run: str, key: str | None = None) -> Done:
    row = _row(hook, received, outcome, status=200 if outcome == "duplicate" else 202, run=run, key=key)
    try:
        with write(), atomic():
            row.save(force_insert=True)
    except IntegrityError:
        # The same delivery twice at once: the run was started once, by its key.
        return _log(hook, received, "duplicate", run)
    return Done(id=row.pk, outcome=outcome, run=run)


def _row(hook: IncomingHook, received: Received, outcome: str, **facts: Any) -> IncomingDelivery:
    text = received.body[: 4 * KEPT].decode("utf-8", "replace")[:KEPT].replace("\0", "\N{REPLACEMENT CHARACTER}")
    known = {"id": ids.new_token(), "hook": hook, "at": timezone.now(), "size": len(received.body), "body": text}
    return IncomingDelivery(outcome=outcome, **known, **facts)
