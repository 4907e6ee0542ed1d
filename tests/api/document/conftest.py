from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from checkpoints.models.user_model import User
from tests.api.document.calls import Call, calls, things


@pytest.fixture
def adam(as_: Callable[..., Client]) -> Client:
    """An admin, whose calls these are."""
    return as_("adam")


@pytest.fixture
def each(everybody: dict[str, User], run: Any, history: Any, question: Any) -> dict[str, Call]:
    """A call of every operation, which the admin may make."""
    return calls(things(everybody["adam"], run, history, question))
