"""``Idempotency-Key`` for actions that have none of their own."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest

from checkpoints.database.storage import write
from wfdash.actions.idempotency import idempotent
from wfdash.api.auth import key_of, viewer_of
from wfdash.records import Body


def once(request: HttpRequest, verb: str, given: Body, act: Callable[[], str], *where: str) -> str:
    """Return the id that ``act`` returns. With the header's key it is done once and the same id returned again.

    ``where``: what else belongs to the command. 409 if the key came with another command.
    """
    command = [*where, given.model_dump(mode="json")]
    with write(), idempotent(viewer_of(request), key_of(request), verb, command) as call:
        if call.previous_result is not None:
            return str(call.previous_result.get("id", ""))
        made = act()
        call.record(id=made)
    return made
