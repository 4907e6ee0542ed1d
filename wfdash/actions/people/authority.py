"""Who may administer whom. Every action on people asks here, so that no one gets more rights than they had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.contrib.auth.models import Group

from checkpoints.database.alias import connection
from checkpoints.database.storage import write, write_last
from checkpoints.limits import findable
from checkpoints.models.user_model import User, has_name, new_user
from wfdash.access.administration import obstacle
from wfdash.access.directory import people_who
from wfdash.access.viewer import EVERY, RIGHTS, Viewer
from wfdash.actions import pacing
from wfdash.actions.audit import COMMAND_LINE, acting, locked_end
from wfdash.domain.errors import NotAllowed, NotFound, WrongState


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
