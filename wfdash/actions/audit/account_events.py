"""Audit entries for changes of accounts and rights, sign-ins and sign-outs, wherever they are made.

They come from Django's signals, so ``/admin/`` and management commands are covered. What bypasses model instances
(``QuerySet.update``, ``bulk_create``, SQL) sends no signal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.contrib.auth.models import Group, Permission
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save
from django.http import HttpRequest

from checkpoints.database.alias import alias
from checkpoints.database.storage import write
from checkpoints.models import Grant, SecondFactor, SignInLink
from checkpoints.models.user_model import EMAIL, USERNAME, User, fields_of
from wfdash.access.viewer import Viewer
from wfdash.actions.audit import entries
from wfdash.signin import second_factor
from wfdash.signin.client_address import address_of

COMMAND_LINE = "command line"
STRANGER = "not signed in"
AUDITED_FIELDS = fields_of(USERNAME, EMAIL, "first_name", "last_name", "is_active", "is_staff", "is_superuser")
"""The fields of a user that an entry contains."""
BEFORE = "_before_this_save"
_asked_by: ContextVar[HttpRequest | None] = ContextVar("asked_by", default=None)
_acting: ContextVar[tuple[str, str, str] | None] = ContextVar("acting", default=None)


@contextmanager
def asked_by(request: HttpRequest) -> Iterator[None]:
    """Attribute the changes made in this block to the user of this request."""
    token = _asked_by.set(request)
    try:
        yield
    finally:
        _asked_by.reset(token)


@contextmanager
def acting(viewer: Viewer, right: str) -> Iterator[None]:
    """Attribute the changes made in this block to a person who uses this right, whichever door they come through."""
    token = _acting.set((viewer.name, right, viewer.token))
    try:
        yield
    finally:
        _acting.reset(token)


def connect() -> None:
    """Connect the signal handlers, once."""
    for signal, handler, sender in _wiring():
        signal.connect(handler, sender=sender, dispatch_uid=f"wfdash {handler.__name__} {sender and sender.__name__}")


def _wiring() -> Iterator[tuple[Any, Callable[..., None], Any]]:
    yield user_logged_in, _signed_in, None
    yield user_logged_out, _signed_out, None
    yield second_factor.changed, _factor_changed, None
    yield pre_delete, _factor_removed, SecondFactor
    for model, saved in ((User, _user_saved), (Group, _group_saved), (Grant, _grant_saved)):
        yield pre_save, _before_save, model
        yield post_save, saved, model
        yield pre_delete, _deleted, model
    yield post_save, _link_made, SignInLink
    for relation in (User.groups, User.user_permissions, Group.permissions):
        yield m2m_changed, _relation_changed, relation.through


def _actor() -> str:
    if by := _acting.get():
        return by[0]
    request = _asked_by.get()
    if request is None:
        return COMMAND_LINE
    user = getattr(request, "user", None)
    return user.get_username() if user is not None and user.is_authenticated else STRANGER


def _record(verb: str, facts: dict[str, Any], *, actor: str = "", workflow: str = "") -> None:
    _, right, token = _acting.get() or ("", "", "")
    facts = entries.with_token(token, facts)
    with write():
        entries.record(None, verb, actor=actor or _actor(), facts=facts, workflow=workflow, right=right)


def _signed_in(sender: Any, request: HttpRequest | None, user: User, **_: Any) -> None:
    how = getattr(request, "signed_in_by", "password")
    _record("sign in", {"how": how, "address": address_of(getattr(request, "META", {}))}, actor=user.get_username())


def _signed_out(sender: Any, request: HttpRequest | None, user: User | None, **_: Any) -> None:
    if user is not None:
        _record("sign out", {"address": address_of(getattr(request, "META", {}))}, actor=user.get_username())


def _factor_changed(sender: Any, user: User, act: str, passkey: str = "", **_: Any) -> None:
    _record(f"second factor: {act}", {"user": user.get_username()} | ({"passkey": passkey} if passkey else {}))


def _factor_removed(sender: Any, instance: SecondFactor, using: str, **_: Any) -> None:
    if instance.confirmed is not None and using == alias():
        _record("second factor: remove", {"user": instance.user.get_username()})


def _ignored(raw: bool, using: str) -> bool:
    """Return whether a save is not a person's: a fixture is loaded, or another database is written."""
    return raw or using != alias()


def _before_save(
    sender: type[Model], instance: Any, raw: bool, using: str, update_fields: Iterable[str] | None, **_: Any
) -> None:
    """Remember the stored values, to find out later what changed."""
    setattr(instance, BEFORE, None)
    unimportant = update_fields is not None and set(update_fields) <= {"last_login"}
    if not _ignored(raw, using) and instance.pk is not None and not unimportant:
        setattr(instance, BEFORE, sender._default_manager.filter(pk=instance.pk).first())


def _user_saved(
    sender: Any, instance: User, created: bool, raw: bool, using: str, update_fields: Any, **_: Any
) -> None:
    before: User | None = getattr(instance, BEFORE, None)
    if _ignored(raw, using) or (before is None and not created):
        return
    if before is None:
        _record("create user", {"user": instance.get_username(), **_field_values(instance, AUDITED_FIELDS[1:])})
        return
    saved = AUDITED_FIELDS if update_fields is None else [name for name in AUDITED_FIELDS if name in update_fields]
    changed = [name for name in saved if getattr(before, name) != getattr(instance, name)]
    if changed:
        facts = {
            "user": before.get_username(),
            "before": _field_values(before, changed),
            "after": _field_values(instance, changed),
        }
        _record("change user", facts)
    if before.password != instance.password and (update_fields is None or "password" in update_fields):
        # Django stores a password again when its hash algorithm is out of date; that is not a new password.
        renewed = getattr(instance, "_password", None) is None and set(update_fields or ()) == {"password"}
        _record("renew password hash" if renewed else "change password", {"user": instance.get_username()})


def _group_saved(sender: Any, instance: Group, created: bool, raw: bool, using: str, **_: Any) -> None:
    before: Group | None = getattr(instance, BEFORE, None)
    if _ignored(raw, using):
        return
    if created:
        _record("create group", {"group": instance.name})
    elif before is not None and before.name != instance.name:
        _record("rename group", {"group": before.name, "to": instance.name})


def _grant_saved(sender: Any, instance: Grant, created: bool, raw: bool, using: str, **_: Any) -> None:
    before: Grant | None = getattr(instance, BEFORE, None)
    if _ignored(raw, using):
        return
    now = _granted(instance)
    if created:
        _record("grant", now, workflow=instance.workflow)
    elif before is not None and _granted(before) != now:
        _record("change grant", {"before": _granted(before), "after": now}, workflow=instance.workflow)


def _deleted(sender: type[Model], instance: Any, using: str, **_: Any) -> None:
    if using != alias():
        return
    if isinstance(instance, Grant):
        _record("revoke", _granted(instance), workflow=instance.workflow)
    else:
        kind = sender._meta.model_name or ""
        _record(f"delete {kind}", {kind: str(instance)})


def _link_made(sender: Any, instance: SignInLink, created: bool, raw: bool, using: str, **_: Any) -> None:
    if created and not _ignored(raw, using):
        _record("make sign-in link", {"user": instance.user.get_username(), "expires": instance.expires.isoformat()})


VERBS = {"post_add": "add to", "post_remove": "remove from", "pre_clear": "remove from"}


def _relation_changed(
    sender: Any, instance: Any, action: str, reverse: bool, model: Any, pk_set: set[Any] | None, using: str, **_: Any
) -> None:
    """Record who joined or left a group, and which of Django's permissions were granted or revoked."""
    if action not in VERBS or using != alias():
        return
    field = next(f for owner in (User, Group) for f in owner._meta.many_to_many if f.remote_field.through is sender)
    found = _related(field, instance, reverse) if pk_set is None else model._default_manager.filter(pk__in=pk_set)
    others = sorted(_display_name(one) for one in found)
    if not others:
        return
    given, taker = (others, [_display_name(instance)]) if not reverse else ([_display_name(instance)], others)
    if field.related_model is Permission:
        verb = "add permission" if action == "post_add" else "remove permission"
        _record(verb, {field.model._meta.model_name or "": taker, "permissions": given})
    else:
        _record(f"{VERBS[action]} group", {"users": taker, "groups": given})


def _related(field: Any, instance: Any, reverse: bool) -> Any:
    name = field.remote_field.get_accessor_name() if reverse else field.name
    return getattr(instance, name).all()


def _display_name(thing: Any) -> str:
    return ".".join(thing.natural_key()[:2][::-1]) if isinstance(thing, Permission) else str(thing)


def _field_values(user: User, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(user, name) for name in names}


def _granted(grant: Grant) -> dict[str, Any]:
    who = {"user": grant.user.get_username()} if grant.user else {"group": grant.group.name if grant.group else ""}
    return {**who, "workflow": grant.workflow, "role": grant.role}
