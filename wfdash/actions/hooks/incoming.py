"""Incoming webhooks: addresses at which other systems start runs. Who may start them adds these; they act as their
owner.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db import IntegrityError
from django.utils import timezone

from checkpoints import ids
from checkpoints.content.canonical_json import dumps
from checkpoints.database.alias import atomic, connection
from checkpoints.database.storage import write
from checkpoints.limits import MOST_NODES
from checkpoints.models import IncomingDelivery, IncomingHook, Run, Webhook
from checkpoints.records import Json, frozen
from wfdash.access.directory import managed_by, refuse_narrow, service_account
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions import audit, pacing
from wfdash.actions.hooks.webhooks import open_feed
from wfdash.actions.pacing import idempotent
from wfdash.actions.runs.lifecycle import start_run
from wfdash.actions.runs.signals import send_signal
from wfdash.domain.errors import BadSignature, Invalid, KeyReused, NotAllowed, NotFound, WfdashError, status_for, wrong
from wfdash.domain.hooks import (
    MISSING,
    SCHEMES,
    Received,
    Unsigned,
    check_signature,
    mapped,
    new_secret,
    pointer_problem,
    secret_problem,
    template_problems,
    value_at,
)
from wfdash.domain.search_attributes import cleaned
from wfdash.engines import catalog
from wfdash.notifications.letters import Undeliverable, refuse_address
from wfdash.notifications.preferences import WEBHOOK_KINDS, type_of
from wfdash.notifications.webhook import newest, rotated
from wfdash.questions.choices import RULE, is_name
from wfdash.records.runs import Callback
from wfdash.values.schemas.validate import Problem, flaws_of
from wfdash.values.schemas.work import has_more_values

# Callbacks: a program starts a run and names the address that hears what becomes of it. Delivered as webhooks are.

USUAL = ("answered", "cancelled", "completed", "failed")
"""What a callback hears of, if nothing else is said."""
KIND_OF = {type_of(kind): kind for kind in WEBHOOK_KINDS}


def start_with_callback(
    viewer: Viewer, workflow: str, message: Json, callback: Callback, *, key: str | None = None
) -> Run:
    """Start a run as ``start_run`` does, with a callback: both or neither. The same ``key`` adds no second one.

    ``Invalid`` with errors at the callback's fields; ``NotAllowed`` if it is to carry values that the viewer may not
    inspect.
    """
    if problems := _problems(callback):
        raise Invalid(problems)
    if callback.values and not viewer.may("inspect", workflow):
        raise NotAllowed("You cannot inspect values of this workflow. Send callback.values: false")
    return start_run(viewer, workflow, message, key=key, begun=partial(_add, viewer, callback))


def _add(viewer: Viewer, callback: Callback, run: Run) -> None:
    open_feed()
    Webhook.objects.create(
        id=ids.new_token(),
        name=f"Callback of run {run.pk}"[:80],
        url=callback.url,
        secret=callback.secret,
        workflow=run.workflow,
        kinds=sorted(KIND_OF[name] for name in set(callback.events)) or list(USUAL),
        values=callback.values,
        owner=viewer.user,
        run=run,
        created_by=viewer.user,
        created=timezone.now(),
    )


def _problems(callback: Callback) -> list[Problem]:
    found: list[Problem] = []
    try:
        refuse_address(callback.url, inside=settings.WFDASH_HOOKS_HOSTS)
    except Undeliverable as error:
        found.append({"loc": ["callback", "url"], "msg": str(error)})
    if len(callback.url) > 500:
        found.append({"loc": ["callback", "url"], "msg": "At most 500 characters"})
    if why := secret_problem("standard", callback.secret):
        found.append({"loc": ["callback", "secret"], "msg": why})
    if unknown := sorted(set(callback.events) - KIND_OF.keys()):
        found.append({"loc": ["callback", "events"], "msg": f"Unknown event: {unknown[0]!r}"})
    return found


# What came to an incoming webhook: checked, mapped to a message, and acted upon as the webhook's owner, once.

log = logging.getLogger(__name__)

LARGEST_DELIVERY = 1_000_000
"""Bytes of a delivery."""
MAX_LOG = 8_000
"""Characters of a delivery that its log keeps."""
KEPT_DAYS = 90
DELIVERIES_REMOVED_AT_ONCE = 1_000
"""Deliveries forgotten at a time."""


@frozen
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


def forget_deliveries(limit: int = DELIVERIES_REMOVED_AT_ONCE) -> int:
    """Remove what came ``KEPT_DAYS`` ago. Returns how many."""
    old = IncomingDelivery.objects.filter(at__lt=timezone.now() - timedelta(days=KEPT_DAYS)).order_by("at")
    with write():
        return IncomingDelivery.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:limit])).delete()[0]


def _act(hook: IncomingHook, received: Received, signed_id: str) -> Done:
    with write():
        pacing.charge_hook(hook.pk, "accepted")
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
    authors = [*([hook.created_by.get_username()] if hook.created_by else ()), *(hook.authors or ())]
    if not hook.signal:
        return start_run(viewer, hook.workflow, message, key=key, requesters=authors).pk
    named = value_at(delivery, hook.run_at)
    known = isinstance(named, str) and not flaws_of(named)
    run = Run.objects.filter(pk=named, workflow=hook.workflow).first() if known else None
    if run is None:
        raise Invalid.at("run", f"The delivery names no run of {hook.workflow} at {hook.run_at}")
    send_signal(viewer, run.pk, hook.signal, message, key=sha256(key.encode()).hexdigest(), others=authors)
    return run.pk


def _parsed(body: bytes) -> Json:
    if has_more_values(body, MOST_NODES):
        raise Invalid.at("", f"The body holds more than {MOST_NODES:,} values")
    try:
        parsed: Json = json.loads(body)
    except (ValueError, RecursionError):
        raise Invalid.at("", "The body is not JSON") from None
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
            pacing.charge_hook(hook.pk, "refused")
    except WfdashError:
        raise error from None
    why = "; ".join(_words(one) for one in error.errors) if isinstance(error, Invalid) else str(error)
    # A reason may quote what was delivered, and not every database takes all of that.
    why = why[:2_000].encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    row = _row(hook, received, "refused", status=status_for(error), why=why)
    row.body = row.body if known else ""
    with write():
        row.save(force_insert=True)
    log.info("Incoming webhook %s refused a delivery: %d", hook.pk, row.status)
    raise error


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
    text = received.body[: 4 * MAX_LOG].decode("utf-8", "replace")[:MAX_LOG].replace("\0", "\N{REPLACEMENT CHARACTER}")
    known = {"id": ids.new_token(), "hook": hook, "at": timezone.now(), "size": len(received.body), "body": text}
    return IncomingDelivery(outcome=outcome, **known, **facts)


MAX_HOOKS_PER_PERSON = 50
"""Incoming webhooks that one person can add."""
HEADER = re.compile(r"[A-Za-z0-9-]{1,80}")
LARGEST_MAPPING = 20_000
"""Bytes of a mapping."""


@frozen
class IncomingPlan:
    """What an incoming webhook does with a delivery, and how it knows who sent it: see ``IncomingHook``."""

    name: str
    workflow: str
    mapping: Json
    scheme: str = "standard"
    header: str = ""
    key_at: str = ""
    signal: str = ""
    run_at: str = ""


def create_incoming(
    viewer: Viewer, plan: IncomingPlan, *, secret: str = "", owner: str = "", key: str | None = None
) -> tuple[IncomingHook, str]:
    """Create an incoming webhook. Returns it and its secret, a new one if none is given.

    It acts as the viewer, or as ``owner``, a service account, if an admin of everything says so. The same ``key``
    creates it once. ``Invalid`` with errors per field, ``NotAllowed``, ``NotFound``.
    """
    _refuse_who_cannot_start(viewer, plan.workflow)
    acting, command = _acting(viewer, owner or viewer.name), [asdict(plan), secret, owner]
    secret = secret.strip() or new_secret()
    if problems := [*plan_problems(plan), *_secret_problems(plan.scheme, secret), *_idle(acting, plan.workflow)]:
        raise Invalid(problems)
    with write(), idempotent(viewer, key, "add incoming webhook", command) as call:
        if call.previous_result is not None:
            hook = find_incoming(viewer, str(call.previous_result["id"]))
            return hook, newest(hook.secret)
        pacing.charge(viewer, "webhook")
        if IncomingHook.objects.filter(created_by=viewer.user).count() >= MAX_HOOKS_PER_PERSON:
            raise Invalid.at("name", f"At most {MAX_HOOKS_PER_PERSON} per person. Remove one first")
        made = {"id": ids.new_token(), "secret": secret, "owner": acting.user, "created_by": viewer.user}
        made["authors"] = sorted(viewer.names)
        hook = IncomingHook.objects.create(**made, **_columns(plan), created=timezone.now())
        call.record(id=hook.pk)
        audit.record(viewer, "add incoming webhook", **_about(hook), facts=_facts(hook))
    return hook, secret


def change_incoming(viewer: Viewer, hook_id: str, plan: IncomingPlan) -> None:
    """Change what an incoming webhook does; the workflow stays. It acts as its owner as before.

    The person counts as requester of its runs from now on: they have said what those start with.
    """
    hook = find_incoming(viewer, hook_id)
    _refuse_who_cannot_start(viewer, hook.workflow)
    if problems := plan_problems(plan):
        raise Invalid(problems)
    with write():
        pacing.charge(viewer, "webhook")
        hook = find_incoming(viewer, hook_id)
        changed = {**_columns(plan), "workflow": hook.workflow, "authors": _authors(hook, viewer)}
        IncomingHook.objects.filter(pk=hook.pk).update(**changed)
        hook.refresh_from_db()
        audit.record(viewer, "change incoming webhook", **_about(hook), facts=_facts(hook))


def switch_incoming(viewer: Viewer, hook_id: str, *, active: bool) -> None:
    """Enable or disable an incoming webhook: a disabled one answers as if it did not exist."""
    with write():
        pacing.charge(viewer, "webhook")
        hook = find_incoming(viewer, hook_id)
        IncomingHook.objects.filter(pk=hook.pk).update(active=active)
        audit.record(viewer, "switch incoming webhook", **_about(hook), facts={"hook": hook.name, "active": active})


def renew_incoming_secret(viewer: Viewer, hook_id: str, secret: str = "", *, key: str | None = None) -> str:
    """Return the new secret, the given one or a new one; the previous one is accepted until this is done again. The
    same ``key`` renews it once.

    The person counts as requester of its runs from now on: who knows the secret can sign a delivery.
    """
    command = [hook_id, secret]
    hook, secret = find_incoming(viewer, hook_id), secret.strip() or new_secret()
    if problems := _secret_problems(hook.scheme, secret):
        raise Invalid(problems)
    with write(), idempotent(viewer, key, "renew incoming secret", command) as call:
        hook = find_incoming(viewer, hook_id)
        if call.previous_result is not None:
            return newest(hook.secret)
        pacing.charge(viewer, "webhook")
        hook.secret, hook.authors = rotated(hook.secret, secret), _authors(hook, viewer)
        hook.save(update_fields=["secret", "authors"])
        audit.record(viewer, "renew incoming secret", **_about(hook), facts={"hook": hook.name})
    return secret


def retire_incoming_secret(viewer: Viewer, hook_id: str) -> None:
    """Accept the newest secret only."""
    with write():
        pacing.charge(viewer, "webhook")
        hook = find_incoming(viewer, hook_id)
        hook.secret = newest(hook.secret)
        hook.save(update_fields=["secret"])
        audit.record(viewer, "retire incoming secret", **_about(hook), facts={"hook": hook.name})


def remove_incoming(viewer: Viewer, hook_id: str) -> None:
    """Delete an incoming webhook and its log."""
    with write():
        pacing.charge(viewer, "webhook")
        hook = find_incoming(viewer, hook_id)
        audit.record(viewer, "remove incoming webhook", **_about(hook), facts={"hook": hook.name})
        IncomingHook.objects.filter(pk=hook.pk).delete()


def find_incoming(viewer: Viewer, hook_id: str) -> IncomingHook:
    """Return an incoming webhook through its viewer, locked inside a transaction. ``NotFound``."""
    refuse_narrow(viewer)
    rows = IncomingHook.objects.filter(managed_by(viewer), pk=hook_id).select_related("owner")
    if connection().in_atomic_block:
        rows = rows.select_for_update(of=("self",))
    hook = rows.first()
    if hook is None:
        raise NotFound("Incoming webhook not found")
    return hook


def _authors(hook: IncomingHook, viewer: Viewer) -> list[str]:
    return sorted({*(hook.authors or ()), *viewer.names})


def plan_problems(plan: IncomingPlan) -> list[Problem]:
    """Return what is wrong with a plan, per field."""
    found: list[Problem] = []
    if not 0 < len(cleaned(plan.name)) <= 80:
        found.append(wrong("name", "Enter a name of at most 80 characters"))
    if plan.scheme not in SCHEMES:
        found.append(wrong("scheme", "Choose how deliveries are signed"))
    if plan.header and not HEADER.fullmatch(plan.header):
        found.append(wrong("header", "A header's name has letters, digits and -"))
    if plan.signal and not is_name(plan.signal):
        found.append(wrong("signal", f"A signal's name is {RULE}"))
    if plan.signal and not plan.run_at:
        found.append(wrong("run_at", "Say where a delivery names the run"))
    return found + _pointer_problems(plan) + _mapping_problems(plan.mapping)


def _pointer_problems(plan: IncomingPlan) -> list[Problem]:
    given = {"run_at": plan.run_at, "key_at": plan.key_at}
    return [
        wrong(name, why)
        for name, text in given.items()
        if (why := (pointer_problem(text) if len(text) <= 300 else "At most 300 characters"))
    ]


def _mapping_problems(mapping: Json) -> list[Problem]:
    if flaws_of(mapping) or len(dumps(mapping)) > LARGEST_MAPPING:
        return [wrong("mapping", f"JSON of at most {LARGEST_MAPPING:,} bytes")]
    return [wrong("mapping", why) for why in template_problems(mapping)[:1]]


def _secret_problems(scheme: str, secret: str) -> list[Problem]:
    why = secret_problem(scheme, secret)
    return [wrong("secret", why)] if why else []


def _acting(viewer: Viewer, name: str) -> Viewer:
    refuse_narrow(viewer)
    if name == viewer.name:
        return viewer
    return viewer_for(service_account(viewer, name))


def _refuse_who_cannot_start(viewer: Viewer, workflow: str) -> None:
    catalog.get(workflow)
    if not viewer.may("start", workflow):
        raise NotAllowed("Only those who can start this workflow can let others start it")


def _idle(acting: Viewer, workflow: str) -> list[Problem]:
    if acting.may("start", workflow):
        return []
    return [wrong("owner", f"{acting.name} cannot start this workflow. Give it a role first")]


def _columns(plan: IncomingPlan) -> dict[str, Any]:
    return {
        "name": cleaned(plan.name),
        "workflow": plan.workflow,
        "mapping": plan.mapping,
        "scheme": plan.scheme,
        "header": plan.header.strip(),
        "key_at": plan.key_at,
        "signal": plan.signal,
        "run_at": plan.run_at if plan.signal else "",
    }


def _about(hook: IncomingHook) -> dict[str, str]:
    return {"workflow": hook.workflow, "right": "start"}


def _facts(hook: IncomingHook) -> dict[str, Any]:
    columns = ("name", "signal", "scheme", "mapping")
    return {"hook": hook.name, "acts_as": hook.owner.get_username()} | {name: getattr(hook, name) for name in columns}
