"""No page, call of the API or job of a worker reads a table of millions of rows from one end to the other.

What is executed by the storage itself has its own plans: ``tests/checkpoints/sql/test_statements.py``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.test import Client

from checkpoints.models import Claim
from tests.pages.plans import crawl, world
from tests.pages.plans.plans import Recorder, flaws

REFUSED = {"/health": 503, "answer_again": 409, "follow_up": 409, "migrate_run": 409, "override_run": 409}
"""What has nothing to show or to do: no worker is running, and the runs were never executed."""


BAD = {
    "all of a table": "SELECT input FROM checkpoints_run WHERE title = %s",
    "sorted": "SELECT id FROM checkpoints_run WHERE title <> %s ORDER BY title LIMIT 10",
    "counted": "SELECT COUNT(*) FROM checkpoints_event WHERE kind <> %s",
    "page by number": "SELECT id FROM checkpoints_run WHERE id > %s ORDER BY id LIMIT 50 OFFSET 5000",
}
"""Statements that read too much."""


@dataclass
class Looked:
    """What was executed, what was refused, and what is wrong with the plans."""

    recorder: Recorder
    refused: dict[str, int]
    found: dict[str, list[str]]
    bad: dict[str, list[str]]


def look_at_everything() -> Looked:
    """Look at everything, and leave nothing behind."""
    recorder, client = Recorder(), Client(headers={"host": "localhost"})
    with transaction.atomic():
        # Other tests of this process have left runs in the same database, some of them with a claim.
        Claim.objects.all().delete()
        addresses, calls = world.fill()
        client.force_login(world.user_of("adam"))
        with connection.execute_wrapper(recorder):
            refused = crawl.look_at_pages(recorder, client, [*addresses.values(), *crawl.OTHERS])
            crawl.look_through_lists(recorder, world.user_of("adam"))
            crawl.look_at_tabs(recorder, world.user_of("ana"))
            refused |= crawl.call_api(recorder, client, calls)
            crawl.do_jobs(recorder)
        looked = Looked(recorder, refused, recorder.flaws(), {name: flaws(sql, ["x"]) for name, sql in BAD.items()})
        transaction.set_rollback(True)
    return looked


def test_nothing_reads_a_growing_table_from_one_end_to_the_other(
    in_database: ThreadPoolExecutor, settings: Any
) -> None:
    settings.WFDASH_KEEP_RUNS = 30
    settings.WFDASH_SLACK_API = "http://127.0.0.1:9/"  # Nothing of a test leaves this machine.
    looked = in_database.submit(look_at_everything).result()
    assert [name for name, wrong in looked.bad.items() if not wrong] == []
    looked.refused.pop("undo_answer", None)  # Ten seconds after the answer it is.
    assert looked.refused == REFUSED
    assert len(looked.recorder.found) > 500
    assert looked.found == {}
