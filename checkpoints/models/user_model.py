"""The project's user model, whichever ``AUTH_USER_MODEL`` names, and how a person is found by name in it.

A person's name is what ``get_username()`` returns: the user name, or the email address of a project whose
``USERNAME_FIELD`` is that. Import it once the apps are loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.db.models import Q

if TYPE_CHECKING:
    from django.contrib.auth.models import User as User
else:
    User = get_user_model()

USERNAME: str = User.USERNAME_FIELD
"""The field with a person's name."""


def named(value: Any, lookup: str = "exact", *, through: str = "") -> Q:
    """Return the condition that the name of a person matches ``value``; ``through`` leads from a row to the person."""
    path = [*([through] if through else []), USERNAME, lookup]
    return Q(("__".join(path), value))
