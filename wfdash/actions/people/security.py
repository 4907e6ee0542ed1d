"""What an admin does for someone else's sign-in and absence: end sessions, reset the second factor, name a delegate."""

from __future__ import annotations

from datetime import datetime

from checkpoints.limits import cleaned
from checkpoints.models import Absence
from wfdash.access.signin import second_factor
from wfdash.access.signin.links import revoke_links
from wfdash.access.signin.open_sessions import end_sessions
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions import audit
from wfdash.actions.account.preferences import facts_of, insert_absence, remove_absence
from wfdash.actions.people.authority import administering, find_other
from wfdash.domain.errors import Invalid, NotAllowed, WrongState

LONGEST_REASON = 300


def end_sessions_of(viewer: Viewer, name: str) -> int:
    """Sign another person out everywhere, and end their unused sign-in links. Return how many sessions there were."""
    with administering(viewer):
        user = find_other(viewer, name)
        count = end_sessions(user.pk)
        revoke_links(user)
        audit.record(viewer, "end sessions", right="admin", facts={"user": name, "sessions": count})
    return count


def reset_second_factor(viewer: Viewer, name: str) -> None:
    """Remove another person's second factor, because they lost it. ``WrongState`` if there is none."""
    with administering(viewer):
        if not second_factor.reset(find_other(viewer, name)):
            raise WrongState(f"{name} has no second factor")


def set_absence_of(
    viewer: Viewer, name: str, delegate: str, since: datetime, until: datetime, *, reason: str
) -> Absence:
    """Name a delegate for another person who is away and did not do it themselves.

    ``NotAllowed`` to name oneself: an admin would decide with someone else's vote. ``Invalid`` with errors per field.
    """
    with administering(viewer):
        person = viewer_for(find_other(viewer, name))
        if delegate == viewer.name:
            raise NotAllowed("You cannot make yourself someone's delegate. Choose someone else")
        absence = insert_absence(person, delegate, since, until)
        reason = " ".join(cleaned(reason.replace("\0", "")).split())
        if not reason:
            raise Invalid([{"loc": ["reason"], "msg": "Enter a reason"}])
        if len(reason) > LONGEST_REASON:
            raise Invalid([{"loc": ["reason"], "msg": f"At most {LONGEST_REASON} characters"}])
        facts = {"user": name, **facts_of(absence), "reason": reason}
        audit.record(viewer, "away", right="admin", facts=facts)
    return absence


def end_absence_of(viewer: Viewer, name: str, absence_id: int) -> None:
    """End another person's absence now, or delete one that has not started. ``NotFound``."""
    with administering(viewer):
        absence = remove_absence(find_other(viewer, name), absence_id)
        facts = {"user": name, "delegate": absence.delegate.get_username()}
        audit.record(viewer, "back", right="admin", facts=facts)
