"""Publishes changes of accounts and rights, so that open sockets check theirs at once and not only every minute.

What bypasses model instances (``QuerySet.update``, SQL) is found by the check every minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Group
from django.db.models.signals import m2m_changed, post_delete, post_save

from checkpoints.database.alias import on_commit
from checkpoints.models import Grant
from checkpoints.models.user_model import User
from wfdash import pubsub


def connect() -> None:
    """Connect the signal handlers, once."""
    post_save.connect(_user_saved, sender=User, dispatch_uid="wfdash.live.rights_changes")
    for signal, sender in (
        (post_delete, User),
        (post_save, Grant),
        (post_delete, Grant),
        (post_delete, Group),
        (m2m_changed, User.groups.through),
    ):
        signal.connect(_rights_changed, sender=sender, dispatch_uid="wfdash.live.rights_changes")


def _user_saved(sender: Any, instance: User, update_fields: Iterable[str] | None, **_: Any) -> None:
    if update_fields is None or set(update_fields) - {"last_login"}:
        _publish(instance.pk)


def _rights_changed(sender: Any, instance: Any, **_: Any) -> None:
    # A change of a group concerns anyone: its members are not looked up.
    _publish(instance.pk if isinstance(instance, User) else getattr(instance, "user_id", None))


def _publish(user: int | None) -> None:
    on_commit(lambda: pubsub.rights_changed.publish(user))
