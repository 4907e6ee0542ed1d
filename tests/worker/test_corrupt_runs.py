"""A run whose own row cannot be read any more ends with that reason: it is not tried forever."""

from __future__ import annotations

import pytest
from django.db import connection

from checkpoints.models import Run
from tests.worker.conftest import reaches, until
from tests.worker.test_worker import finish
from wfdash.actions.runs.lifecycle import start_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


@pytest.mark.parametrize("stored", ["'{'", "CAST(x'22ff22' AS TEXT)"], ids=["no JSON", "no text"])
def test_a_run_whose_input_is_rotten_fails_and_says_so(otto, define, start_worker, stored: str) -> None:
    define(finish)
    run = start_run(otto, "script", 1)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE checkpoints_run SET input={stored}")
    start_worker()
    until(reaches(run, "failed"))
    assert Run.objects.values_list("error", flat=True).get()["type"] == "Damaged"
