"""Grant and revoke roles. An admin of one workflow does so for that workflow only."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.auth.models import Group

from checkpoints.database.storage import write
from checkpoints.limits import NAME, is_storable
from checkpoints.models import Grant
from checkpoints.models.user_model import User
from wfdash.access.directory import find_group, find_person
from wfdash.access.viewer import EVERY, RIGHTS, Viewer, named_in
from wfdash.actions import pacing
from wfdash.actions.audit import acting
from wfdash.actions.people.authority import keep_an_admin
from wfdash.domain.errors import Invalid, NotAllowed, NotFound
from wfdash.values.schemas.validate import Problem


def grant_role(viewer: Viewer, role: str, *, workflow: str = EVERY, person: str = "", group: str = "") -> Grant:
    """Give a person or a group (one of them, by name) a role for a workflow, or for every one (``*``).

    ``Invalid`` with errors per field, also where they have it already; ``NotAllowed`` for a workflow that the viewer is
    not an admin of.
    """
    workflow = workflow.strip()
    refuse_unless_admin_of(viewer, workflow)
    with write(), acting(viewer, "admin"):
        pacing.charge(viewer, "grant")
        return give(viewer, role, workflow, person=person, group=group)


def revoke_role(viewer: Viewer, grant_id: int) -> None:
    """Take a grant away. ``NotFound``, ``NotAllowed``; ``WrongState`` for the last admin of every workflow."""
    with write(), acting(viewer, "admin"):
        pacing.charge(viewer, "grant")
        grant = Grant.objects.select_for_update().filter(pk=grant_id).first()
        if grant is None or not (
            viewer.may("admin", grant.workflow) or (grant.workflow == EVERY and viewer.may_anywhere("admin"))
        ):
            raise NotFound("Grant not found, or already revoked")
        refuse_unless_admin_of(viewer, grant.workflow)
        everywhere = grant.workflow == EVERY
        grant.delete()
        if everywhere:
            keep_an_admin()


def refuse_unless_admin_of(viewer: Viewer, workflow: str) -> None:
    """Raise ``NotAllowed`` for someone who does not administer this workflow (``*``: every one)."""
    if not viewer.may("admin", workflow):
        which = "every workflow" if workflow == EVERY else f"workflow {workflow[:80]}"
        raise NotAllowed(f"Only admins of {which} can grant or revoke its roles")


def give(viewer: Viewer, role: str, workflow: str, *, person: str = "", group: str = "") -> Grant:
    """Insert a grant in the caller's transaction, who has checked the right. ``Invalid`` with errors per field."""
    problems = _problems(role, workflow, person, group)
    user, team = _taker(viewer, workflow, person, group)
    if user is None and team is None:
        field, words = ("group", "Group not found") if group else ("person", "No active user has this name")
        problems.append({"loc": [field], "msg": words})
    if problems:
        raise Invalid(problems)
    holder: Mapping[str, User | Group | None] = {"user": user, "group": team}
    if Grant.objects.filter(**holder, workflow=workflow, role=role).exists():
        raise Invalid([{"loc": ["role"], "msg": f"{person or group} already has this role"}])
    return Grant.objects.create(**holder, workflow=workflow, role=role)


def _problems(role: str, workflow: str, person: str, group: str) -> list[Problem]:
    found: list[Problem] = []
    if role not in RIGHTS:
        found.append({"loc": ["role"], "msg": f"Choose one of {', '.join(RIGHTS)}"})
    if not workflow or len(workflow) > NAME or not is_storable(workflow):
        found.append({"loc": ["workflow"], "msg": "Enter the name of a workflow, or * for every one"})
    if person and group:
        found.append({"loc": ["group"], "msg": "Choose a person or a group, not both"})
    return found


def _taker(viewer: Viewer, workflow: str, person: str, group: str) -> tuple[User | None, Group | None]:
    """Return the active person or the group of this name, as far as the viewer may know of it."""
    if not group:
        user = find_person(person)
        return (user if user is not None and user.is_active else None), None
    team = find_group(group)
    return None, team if team is not None and _knows(viewer, team, workflow) else None


def _knows(viewer: Viewer, group: Group, workflow: str) -> bool:
    """Return whether the viewer may learn who is in a group, which a grant shows to admins of its workflow."""
    if viewer.may("admin", EVERY) or group.name in viewer.groups:
        return True
    granted = Grant.objects.filter(group=group, workflow__in=[EVERY, workflow]).exists()
    return granted or group.name in named_in([workflow])
