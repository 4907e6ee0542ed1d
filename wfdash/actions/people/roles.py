"""Groups and roles: who may administer whom, grants, and who is in which group.

Every action on people asks here, so that no one gets more rights than they had: an admin of one workflow grants roles
for that workflow only. Policies name groups, so a name that one needs stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from django.contrib.auth.models import Group

from checkpoints.database.alias import connection
from checkpoints.database.storage import write, write_last
from checkpoints.limits import NAME, findable, is_storable
from checkpoints.models import Grant
from checkpoints.models.user_model import User, has_name, new_user
from wfdash.access.directory import find_group, find_person, obstacle, people_who, problem_of_group
from wfdash.access.viewer import EVERY, RIGHTS, AddressedQuestion, Viewer, named_in, naming
from wfdash.actions import pacing
from wfdash.actions.audit import COMMAND_LINE, acting, locked_end
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState, wrong
from wfdash.values.schemas.validate import Problem


def command_line() -> Viewer:
    """Return who acts by a command on the server: no account, every right. The audit names the command line."""
    user = new_user(COMMAND_LINE)
    user.is_superuser = True
    return Viewer(user=user, name=COMMAND_LINE, rights={EVERY: RIGHTS["admin"]})


@contextmanager
def administering(viewer: Viewer) -> Iterator[None]:
    """Open the transaction of an action of an admin of every workflow. ``NotAllowed`` for everyone else.

    Changes of accounts, groups and grants inside it are audited as this person's. ``WrongState`` if at its end no one
    is left who could administer: nothing is changed then.
    """
    if not viewer.may("admin", EVERY):
        raise NotAllowed("Only admins of every workflow can manage people")
    with write(), acting(viewer, "admin"):
        pacing.charge(viewer, "people")
        yield
        keep_an_admin()


def keep_an_admin() -> None:
    """Raise ``WrongState`` at the end of the caller's transaction if no active person is admin of every workflow then
    (four queries). A service account is none.

    The end of the audit is locked before it is looked: of two admins who remove each other at the same moment one
    finds that the other is gone already.
    """
    write_last(connection(), _refuse_without_admin, None)


def _refuse_without_admin(_: Sequence[None]) -> None:
    locked_end()
    if not people_who("admin", EVERY, limit=1, programs=False):
        raise WrongState("This would leave no admin of every workflow. Make someone else admin first")


def find_other(viewer: Viewer, name: str) -> User:
    """Return another person, their row locked. ``NotFound``; ``NotAllowed`` for oneself, and for an account with more
    power than the viewer's: what is done to it could otherwise be used to get that power.
    """
    user = lock_person(name)
    if words := obstacle(viewer, user):
        raise NotAllowed(words)
    return user


def lock_person(name: str) -> User:
    """Return a person, their row locked until the transaction ends. ``NotFound``."""
    user = User.objects.select_for_update(no_key=True).filter(has_name(findable(name))).first()
    if user is None:
        raise NotFound("Person not found")
    return user


def lock_group(viewer: Viewer, name: str) -> Group:
    """Return a group, its row locked. ``NotFound``; ``NotAllowed`` if it has Django permissions and the viewer is no
    superuser: who joins such a group gets them.
    """
    group = Group.objects.select_for_update(no_key=True).filter(name=findable(name)).first()
    if group is None:
        raise NotFound("Group not found")
    if not viewer.user.is_superuser and group.permissions.exists():
        raise NotAllowed(f"Group {name} has Django permissions. Only a superuser can change it")
    return group


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
        problems.append(wrong(field, words))
    if problems:
        raise Invalid(problems)
    holder: Mapping[str, User | Group | None] = {"user": user, "group": team}
    if Grant.objects.filter(**holder, workflow=workflow, role=role).exists():
        raise Invalid.at("role", f"{person or group} already has this role")
    return Grant.objects.create(**holder, workflow=workflow, role=role)


def _problems(role: str, workflow: str, person: str, group: str) -> list[Problem]:
    found: list[Problem] = []
    if role not in RIGHTS:
        found.append(wrong("role", f"Choose one of {', '.join(RIGHTS)}"))
    if not workflow or len(workflow) > NAME or not is_storable(workflow):
        found.append(wrong("workflow", "Enter the name of a workflow, or * for every one"))
    if person and group:
        found.append(wrong("group", "Choose a person or a group, not both"))
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


MOST_NAMED = 3


def make_group(viewer: Viewer, name: str, *, members: Sequence[str] = ()) -> Group:
    """Make a group with these active people in it. ``Invalid`` at ``name`` or ``members``."""
    name = name.strip()
    with administering(viewer):
        _check_name(name)
        group = Group.objects.create(name=name)
        for member in dict.fromkeys(members):
            _add(group, member)
    return group


def rename_group(viewer: Viewer, name: str, to: str) -> Group:
    """Give a group another name. ``WrongState`` if policies name it: they would then mean no one. ``Invalid``."""
    to = to.strip()
    with administering(viewer):
        group = lock_group(viewer, name)
        if to == group.name:
            return group
        _check_name(to, now=group.name)
        _refuse_needed(group, "renamed")
        group.name = to
        group.save(update_fields=["name"])
    return group


def delete_group(viewer: Viewer, name: str) -> None:
    """Delete a group with its grants. ``WrongState`` if policies name it, or if no admin would be left."""
    with administering(viewer):
        group = lock_group(viewer, name)
        _refuse_needed(group, "deleted")
        # One by one, so that the audit has what each member and grant lost.
        group.user_set.clear()
        for grant in group.grants.all():
            grant.delete()
        group.delete()


def add_member(viewer: Viewer, group: str, person: str) -> None:
    """Add an active person to a group. ``Invalid`` at ``person``, also for one who is in it already."""
    with administering(viewer):
        found = lock_group(viewer, group)
        if found.user_set.filter(has_name(findable(person))).exists():
            raise Invalid.at("person", f"{person} is already in this group")
        _add(found, person, field="person")


def remove_member(viewer: Viewer, group: str, person: str) -> None:
    """Remove a person from a group. ``NotFound``; ``WrongState`` if no admin would be left.

    ``NotAllowed`` to leave a group that a policy keeps from answering: an admin would then answer what it excludes.
    """
    with administering(viewer):
        found = lock_group(viewer, group)
        user = find_person(person)
        if user is None or not found.user_set.filter(pk=user.pk).exists():
            raise NotFound(f"{person} is not in this group")
        if user.pk == viewer.user.pk and any(group in question.not_by for question in naming(group)):
            raise NotAllowed(f"Members of {group} must not answer some requests. Ask another admin to remove you")
        found.user_set.remove(user)


def _add(group: Group, name: str, *, field: str = "members") -> None:
    user = find_person(name)
    if user is None or not user.is_active:
        raise Invalid.at(field, f"No active user named {name[:80]}")
    group.user_set.add(user)


def _check_name(name: str, *, now: str = "") -> None:
    problem = problem_of_group(name, now=now) if name else "Enter a name"
    if problem:
        raise Invalid.at("name", problem)


def _refuse_needed(group: Group, done: str) -> None:
    needed = naming(group.name)
    if needed:
        places = ", ".join(dict.fromkeys(_place(question) for question in needed[:MOST_NAMED]))
        more = " and others" if len(needed) > MOST_NAMED else ""
        words = f"Group {group.name} cannot be {done}: it is named by {places}{more}"
        raise WrongState(f"{words}. Change the workflow and decide its open requests first", names=len(needed))


def _place(question: AddressedQuestion) -> str:
    opened = f" ({question.open} open)" if question.open else ""
    return f"{question.workflow} / {question.step}{opened}"
