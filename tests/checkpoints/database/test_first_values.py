from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.database.compiled import FirstValues
from checkpoints.models import Run, WorkerBeat


@pytest.mark.django_db
def test_the_first_value_of_each_query_is_found_by_one_statement(django_assert_num_queries) -> None:
    now = timezone.now()
    for n in (2, 1):
        WorkerBeat.objects.create(id=f"w{n}", started=now, seen=now - timedelta(seconds=n))
    beats = WorkerBeat.objects.order_by("seen")
    values = FirstValues(
        seen=beats.values_list("seen"),
        name=beats.values_list("pk"),
        none=Run.objects.values_list("pk"),
        never=Run.objects.filter(pk__in=[]).values_list("pk"),
        serves=beats.values_list("serves"),
    )
    values.read()
    with django_assert_num_queries(1):
        clock, found = values.read()
    assert found == {"seen": now - timedelta(seconds=2), "name": "w2"}
    assert abs((clock - now).total_seconds()) < 60
