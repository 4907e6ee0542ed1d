from __future__ import annotations

from threading import Event, Thread

import pytest
from django.db import transaction

from checkpoints.database.storage import write
from checkpoints.sql.sqlite import write_lock


@pytest.mark.django_db(transaction=True)
def test_within_a_transaction_of_django_it_waits_for_no_one_who_waits_for_that_transaction() -> None:
    """As the audit does of what Django's admin saves."""
    held, written, in_time = Event(), Event(), []

    def hold() -> None:
        with write_lock:
            held.set()
            in_time.append(written.wait(5))

    thread = Thread(target=hold)
    with transaction.atomic():
        thread.start()
        held.wait()
        with write():
            written.set()
    thread.join()
    assert in_time == [True]
