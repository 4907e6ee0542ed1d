"""Callbacks: a program starts a run and names the address that hears what becomes of it. Delivered as webhooks are."""

from __future__ import annotations

from functools import partial

from django.conf import settings
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Run, Webhook
from checkpoints.records import Json
from wfdash.access.viewer import Viewer
from wfdash.actions.hooks.feed import open_feed
from wfdash.actions.runs.lifecycle import start_run
from wfdash.domain.hooks.signatures import secret_problem
from wfdash.errors import Invalid, NotAllowed
from wfdash.notifications.kinds import WEBHOOK_KINDS, type_of
from wfdash.notifications.letters import Undeliverable
from wfdash.notifications.outside import refuse_address
from wfdash.records.runs import Callback
from wfdash.schemas.validate import Problem

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
