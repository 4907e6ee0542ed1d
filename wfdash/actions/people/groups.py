"""Groups: make, rename, delete, and who is in them. Policies name groups, so a name that one needs stays."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.auth.models import Group

from checkpoints.limits import findable
from checkpoints.models.user_model import has_name
from wfdash.access.directory import find_person, problem_of_group
from wfdash.access.viewer import AddressedQuestion, Viewer, naming
from wfdash.actions.people.authority import administering, lock_group
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState

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
            raise Invalid([{"loc": ["person"], "msg": f"{person} is already in this group"}])
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
        raise Invalid([{"loc": [field], "msg": f"No active user named {name[:80]}"}])
    group.user_set.add(user)


def _check_name(name: str, *, now: str = "") -> None:
    problem = problem_of_group(name, now=now) if name else "Enter a name"
    if problem:
        raise Invalid([{"loc": ["name"], "msg": problem}])


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
