from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connections

from checkpoints.models import Leader, WorkerBeat


@pytest.fixture
def cluster(settings, postgres_alias: str, django_db_blocker) -> Iterator[str]:
    """A database that workers share."""
    settings.WFDASH_DATABASE_ALIAS = postgres_alias
    settings.DATABASE_ROUTERS = ["checkpoints.database.router.Router"]
    with django_db_blocker.unblock():
        yield postgres_alias
        for model in (Leader, WorkerBeat):
            model.objects.using(postgres_alias).all().delete()
        connections[postgres_alias].close()
