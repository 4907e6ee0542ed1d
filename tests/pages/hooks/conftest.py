from __future__ import annotations

import pytest
from django.test import Client

from tests.people import make_people


@pytest.fixture
def people(db):
    return make_people()


@pytest.fixture
def ana(people, client: Client) -> Client:
    client.force_login(people["ana"])
    return client
