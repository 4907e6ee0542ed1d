"""Incoming webhooks: addresses at which other systems start runs. Who may start them adds these; they act as their
owner.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from django.utils import timezone

from checkpoints import ids
from checkpoints.content.canonical_json import dumps
from checkpoints.database.alias import connection
from checkpoints.database.storage import write
from checkpoints.models import IncomingHook
from checkpoints.records import Json
from wfdash import catalog
from wfdash.access.administration import managed_by, refuse_narrow, service_account
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions import rate_limit
from wfdash.actions.audit import entries
from wfdash.actions.idempotency import idempotent
from wfdash.domain.hooks.mapping import pointer_problem, template_problems
from wfdash.domain.hooks.signatures import SCHEMES, new_secret, secret_problem
from wfdash.errors import Invalid, NotAllowed, NotFound
from wfdash.notifications.signing import newest, rotated
from wfdash.questions.signals import RULE, is_name
from wfdash.schemas.validate import Problem, flaws_of

MOST = 50
"""Incoming webhooks that one person can add."""
HEADER = re.compile(r"[A-Za-z0-9-]{1,80}")
LARGEST = 20_000
"""Bytes of a mapping."""


@dataclass(frozen=True, kw_only=True)
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
        rate_limit.charge(viewer, "webhook")
        if IncomingHook.objects.filter(created_by=viewer.user).count() >= MOST:
            raise Invalid([{"loc": ["name"], "msg": f"At most {MOST} per person. Remove one first"}])
        made = {"id": ids.new_token(), "secret": secret, "owner": acting.user, "created_by": viewer.user}
        made["authors"] = sorted(viewer.names)
        hook = IncomingHook.objects.create(**made, **_columns(plan), created=timezone.now())
        call.record(id=hook.pk)
        entries.record(viewer, "add incoming webhook", **_about(hook), facts=_facts(hook))
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
        rate_limit.charge(viewer, "webhook")
        hook = find_incoming(viewer, hook_id)
        changed = {**_columns(plan), "workflow": hook.workflow, "authors": _authors(hook, viewer)}
        IncomingHook.objects.filter(pk=hook.pk).update(**changed)
        hook.refresh_from_db()
        entries.record(viewer, "change incoming webhook", **_about(hook), facts=_facts(hook))


def switch_incoming(viewer: Viewer, hook_id: str, *, active: bool) -> None:
    """Enable or disable an incoming webhook: a disabled one answers as if it did not exist."""
    with write():
        rate_limit.charge(viewer, "webhook")
        hook = find_incoming(viewer, hook_id)
        IncomingHook.objects.filter(pk=hook.pk).update(active=active)
        entries.record(viewer, "switch incoming webhook", **_about(hook), facts={"hook": hook.name, "active": active})


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
        rate_limit.charge(viewer, "webhook")
        hook.secret, hook.authors = rotated(hook.secret, secret), _authors(hook, viewer)
        hook.save(update_fields=["secret", "authors"])
        entries.record(viewer, "renew incoming secret", **_about(hook), facts={"hook": hook.name})
    return secret


def retire_incoming_secret(viewer: Viewer, hook_id: str) -> None:
    """Accept the newest secret only."""
    with write():
        rate_limit.charge(viewer, "webhook")
        hook = find_incoming(viewer, hook_id)
        hook.secret = newest(hook.secret)
        hook.save(update_fields=["secret"])
        entries.record(viewer, "retire incoming secret", **_about(hook), facts={"hook": hook.name})


def remove_incoming(viewer: Viewer, hook_id: str) -> None:
    """Delete an incoming webhook and its log."""
    with write():
        rate_limit.charge(viewer, "webhook")
        hook = find_incoming(viewer, hook_id)
        entries.record(viewer, "remove incoming webhook", **_about(hook), facts={"hook": hook.name})
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
    if not 0 < len(plan.name.strip()) <= 80:
        found.append({"loc": ["name"], "msg": "Enter a name of at most 80 characters"})
    if plan.scheme not in SCHEMES:
        found.append({"loc": ["scheme"], "msg": "Choose how deliveries are signed"})
    if plan.header and not HEADER.fullmatch(plan.header):
        found.append({"loc": ["header"], "msg": "A header's name has letters, digits and -"})
    if plan.signal and not is_name(plan.signal):
        found.append({"loc": ["signal"], "msg": f"A signal's name is {RULE}"})
    if plan.signal and not plan.run_at:
        found.append({"loc": ["run_at"], "msg": "Say where a delivery names the run"})
    return found + _pointer_problems(plan) + _mapping_problems(plan.mapping)


def _pointer_problems(plan: IncomingPlan) -> list[Problem]:
    given = {"run_at": plan.run_at, "key_at": plan.key_at}
    return [{"loc": [name], "msg": why} for name, text in given.items() if (why := _pointer_flaw(text))]


def _pointer_flaw(text: str) -> str:
    return pointer_problem(text) if len(text) <= 300 else "At most 300 characters"


def _mapping_problems(mapping: Json) -> list[Problem]:
    if flaws_of(mapping) or len(dumps(mapping)) > LARGEST:
        return [{"loc": ["mapping"], "msg": f"JSON of at most {LARGEST:,} bytes"}]
    return [{"loc": ["mapping"], "msg": why} for why in template_problems(mapping)[:1]]


def _secret_problems(scheme: str, secret: str) -> list[Problem]:
    why = secret_problem(scheme, secret)
    return [{"loc": ["secret"], "msg": why}] if why else []


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
    return [{"loc": ["owner"], "msg": f"{acting.name} cannot start this workflow. Give it a role first"}]


def _columns(plan: IncomingPlan) -> dict[str, Any]:
    return {
        "name": plan.name.strip(),
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
