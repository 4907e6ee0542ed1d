from __future__ import annotations

import pytest
from django.db import DatabaseError
from django.test import Client

from wfdash.pages import health


def test_a_live_process_says_so_without_a_database():
    assert Client().get("/livez").content == b"ok\n"


@pytest.mark.django_db
def test_a_migrated_database_is_ready():
    assert Client().get("/readyz").status_code == 200


@pytest.mark.django_db
def test_a_database_that_does_not_answer_is_not_ready(monkeypatch):
    def fail(connection):
        raise DatabaseError

    monkeypatch.setattr(health, "MigrationExecutor", fail)
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.content) == (503, b"the database does not answer\n")
