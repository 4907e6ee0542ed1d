from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from tests import people


@pytest.fixture
def everybody(db: None) -> dict[str, User]:
    return people.make_people()
