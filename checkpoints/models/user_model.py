"""The project's user model, whichever ``AUTH_USER_MODEL`` names, and what every one of them can be asked.

A person's name is what ``get_username()`` returns: the user name, or the email address in a project whose
``USERNAME_FIELD`` is that. Import this once the apps are loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import models
from django.db.models import Q

if TYPE_CHECKING:
    from django.contrib.auth.models import User as User
else:
    User = get_user_model()


def fields_of(*names: str) -> tuple[str, ...]:
    """Return which of these fields the user model has, each once."""
    known = {field.name for field in User._meta.get_fields()}
    return tuple(name for name in dict.fromkeys(names) if name in known)


USERNAME: str = User.USERNAME_FIELD
"""The field with a person's name."""
EMAIL: str = next(iter(fields_of(User.get_email_field_name())), "")
"""The field with a person's email address; empty if the model has none."""
NO_PERSON = User._meta.pk.to_python(UUID(int=0) if isinstance(User._meta.pk, models.UUIDField) else 0)
"""A key that no person has, of the type that theirs are."""
FULL_NAME = fields_of("first_name", "last_name", "full_name", "name")
"""The fields that hold parts of what a person is called."""


def has_name(value: Any, lookup: str = "exact", *, through: str = "") -> Q:
    """Return the condition that a person's name matches ``value``; ``through`` leads from a row to the person."""
    path = [*([through] if through else []), USERNAME, lookup]
    return Q(("__".join(path), value))


def has_text(word: str) -> Q:
    """Return the condition that a person's name, full name or email address contains a word."""
    found = has_name(word, "icontains")
    for name in fields_of(*FULL_NAME, EMAIL):
        found |= Q((f"{name}__icontains", word))
    return found


def email_of(user: Any) -> str:
    """Return a person's email address; empty if there is none."""
    return str(getattr(user, EMAIL, None) or "") if EMAIL else ""


def full_name_of(user: Any) -> str:
    """Return what a person is called beside the name; empty if the model does not know."""
    return str(user.get_full_name() or "") if hasattr(user, "get_full_name") else ""


def is_staff(user: Any) -> bool:
    """Return whether a person may open Django's admin."""
    return bool(getattr(user, "is_staff", False))


def new_user(name: str, *, email: str = "") -> User:
    """Return a person who is not saved yet and has no password."""
    given = ({EMAIL: email} if EMAIL else {}) | {USERNAME: User.normalize_username(name)}
    user = User(**given)
    user.set_unusable_password()
    return user
