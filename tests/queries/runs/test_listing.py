"""The list of runs: what a filter finds is what the same filter, said in plain Python, finds; page by page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints.models import Claim, Grant, Run, RunFact, WorkflowVersion
from tests import people
from tests.queries.runsaid import found_by
from wfdash.actions.runs import search_index
from wfdash.domain.errors import Invalid
from wfdash.queries.runs import finding as runs_search
from wfdash.queries.runs.filter_keys import search_for
from wfdash.queries.runs.listing import all_ids, count_found, count_runs_since, every_page, read_run, read_runs
from wfdash.worker.serving import start_heartbeat

PHASES = ("ready", "waiting", "failed", "completed", "paused", "cancelled")
AMOUNTS = (5, 100, "100.00", 250, None)
CUSTOMERS = ("Blue Chair", "Ana Novák", "nova", "x-1")
ERRORS = ("ValueError", "TimeoutError", "ValueMissing")
TAGS = ((), ("eu",), ("eu", "vip"), ("us-east",))


@pytest.fixture
def thirty(everybody):
    """Thirty runs of three workflows, of everything something, some of them begun at the same moment."""
    now = timezone.now().replace(microsecond=0)
    for workflow in ("refund", "refund_eu", "claims"):
        WorkflowVersion.objects.create(workflow=workflow, version="v1", description={"input_schema": {}})
    for number in range(30):
        phase = PHASES[number % 6]
        run = people.make_run(
            workflow=("refund", "refund_eu", "claims")[number % 3],
            version=("4f1c99", "4f1d00", "aa")[number % 3],
            title=("Refund order", "Blue sky", "Claims desk")[number // 2 % 3],
            phase=phase,
            acted_by="otto" if number % 4 == 0 else "",
            created=now - timedelta(hours=6 * (number // 2)),
            finished=now - timedelta(hours=number) if phase in {"failed", "completed", "cancelled"} else None,
            created_by=[everybody["otto"], everybody["ana"], None][number % 3],
            forked_from="somewhere" if number % 7 == 0 else None,
            for_workers=number != 12,
            wake_at=now + timedelta(hours=1) * (1 if number % 4 else -1) if phase == "waiting" else None,
            altered=("", "restored", "edited,overridden")[number % 5 % 3],
            input={"amount": AMOUNTS[number % 5], "to": {"name": CUSTOMERS[number % 4]}, "flag": number % 2 == 0},
            error={"type": ERRORS[number % 3], "message": f"Parcel {number} lost"} if phase == "failed" else None,
        )
        RunFact.objects.bulk_create(
            RunFact(run=run, name="tag", text=tag, created=run.created) for tag in TAGS[number % 4]
        )
        if number % 4 == 1:
            people.happen(run, *people.step("read", "finished"))
        if phase == "ready" and number % 12:
            ends = now + timedelta(hours=1) * (1 if number % 18 else -1)
            Claim.objects.create(run=run, token=run.pk, worker="w", epoch=1, expires=ends)
    start_heartbeat("one", {"refund_eu": "v1"})
    search_index.index_runs()
    search_index.index_failures()


TERMS = st.sampled_from(
    [
        *(
            f"status:{name}"
            for name in ("waiting", "failed,paused", "running", "queued", "interrupted,running", "held")
        ),
        *(
            "status:open",
            "status:ended",
            "status:paused",
            "workflow:refund",
            "workflow:refund*",
            "workflow:nobody,claims",
        ),
        *(
            "started:<1d",
            "started:>1d",
            "started:today",
            "started:<=2030-01-01",
            "started:>2030-01-01",
            "finished:<12h",
            "started:2020-01-01..",
            "finished:..2030-01-01T10",
        ),
        *("active:<12h", "active:>1d", "active:today", "active:..2030-01-01", "active:2030-01-01T00..", "step:read"),
        *(
            "finished:>12h",
            "by:me",
            "by:ana,none",
            "by:nobody",
            "id:0",
            "id:ffff",
            "tag:eu",
            "tag:*",
            "tag:u*",
            "tag:EU,vip",
        ),
        *(
            "error:ValueError",
            "error:value*",
            "error:none",
            "input.amount:100",
            "input.amount:>=100",
            "input.amount:<100",
        ),
        *(
            "input.amount:5,250",
            'input.to.name:"blue chair"',
            "input.to.name:nov*,ana*",
            "input.flag:true",
            "input.none:x",
        ),
        *(
            "is:altered",
            "is:edited",
            "is:forked,mine",
            "is:unserved",
            "is:unserved,forked",
            "version:4f1c",
            "version:4f1,zz",
            "version:zz",
        ),
        *("novák", "refund", "blue", "parcel", '"blue chair"', "parc", "re", "zzz", "7", "x-1"),
    ]
)
FILTERS = st.lists(st.tuples(st.booleans(), TERMS), max_size=3).map(
    lambda parts: " ".join(("-" if negated else "") + term for negated, term in parts)
)


def ids(person: str, text: str, limit: int = 100) -> list[str]:
    """Return what the list shows, all pages of it."""
    found, cursor = [], ""
    while True:
        page = read_runs(people.viewer(person), text, cursor=cursor, limit=limit)
        found += [row.id for row in page.items]
        cursor = page.next
        if not cursor:
            return found


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=FILTERS, limit=st.sampled_from([3, 100]))
def test_a_filter_finds_what_it_says(thirty, text, limit):
    assert ids("otto", text, limit) == found_by(people.viewer("otto"), text), text


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=FILTERS, reach=st.sampled_from([1, 7]))
def test_a_walk_that_stops_early_goes_on_where_it_stopped(thirty, text, reach):
    before = runs_search.MAX_SORTED, runs_search.MIN_SHARE
    runs_search.MAX_SORTED = runs_search.MIN_SHARE = 2
    try:
        viewer, found, after = people.viewer("otto"), [], None
        search = search_for(viewer, text)
        for _ in range(100):
            part = runs_search.find(search, after, 2, reach=reach)
            found += part.ids
            if part.reached is None and len(part.ids) < 2:
                break
            last = Run.objects.get(pk=part.ids[-1]) if len(part.ids) == 2 else None
            after = (last.created, last.pk) if last else (part.reached, "")
        assert found == found_by(viewer, text), text
    finally:
        runs_search.MAX_SORTED, runs_search.MIN_SHARE = before


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=FILTERS)
def test_who_may_not_inspect_finds_nothing_by_what_they_may_not_read(thirty, everybody, text):
    Grant.objects.get_or_create(user=everybody["sam"], role="reviewer", workflow="refund")
    Grant.objects.get_or_create(user=everybody["sam"], role="viewer", workflow="claims")
    assert ids("sam", text) == found_by(people.viewer("sam"), text), text


def test_rows_say_what_no_worker_serves_as_the_filter_does(thirty):
    viewer = people.viewer("otto")
    people.make_run(phase="sleeping", wake_at=people.THEN, created=timezone.now())
    said = {row.id for row in read_runs(viewer, limit=100).items if row.pending == "unserved"}
    assert said == {*ids("otto", "is:unserved")}
    assert said
    assert {read_run(viewer, one).pending for one in said} == {"unserved"}


def test_the_end_of_an_id_and_the_whole_of_it_find_the_run(thirty):
    run = Run.objects.order_by("created").first()
    for text in (run.pk, run.pk[-8:], f"id:{run.pk}", run.pk.upper()):
        assert run.pk in ids("otto", text), text


def test_a_row_says_what_failed_and_its_tags(thirty, everybody):
    Grant.objects.create(user=everybody["sam"], role="reviewer", workflow="*")
    rows = read_runs(people.viewer("otto"), "status:failed tag:eu").items
    assert all(row.failure.startswith(ERRORS) and "lost" in row.failure and "eu" in row.tags for row in rows)
    assert all(row.failure in ERRORS for row in read_runs(people.viewer("sam"), "status:failed").items)
    assert {row.altered for row in read_runs(people.viewer("otto"), "is:edited").items} == {"edited,overridden"}


def test_a_run_without_a_name_is_called_as_what_it_asked_last(everybody):
    run, named = people.make_run(), people.make_run(summary="4 rows", own_title="")
    for subject in ("Pay 900?", "Pay 7?"):
        people.ask(run, subject, answered=timezone.now())
    people.ask(named, "Pay 8?")
    titles = {name: {row.id: row.title for row in read_runs(people.viewer(name)).items} for name in ("ana", "otto")}
    assert titles["ana"] == {run.pk: "Expenses: Pay 7?", named.pk: "Expenses: Pay 8?"}
    assert titles["otto"] == {run.pk: "Expenses: Pay 7?", named.pk: "Expenses: 4 rows"}
    assert read_run(people.viewer("ana"), run.pk).label == "Pay 7?"
    assert read_runs(people.viewer("sam")).items == ()


def test_a_count_is_honest(thirty):
    otto = people.viewer("otto")
    assert count_found(otto, "workflow:refund") == (10, False)
    assert count_found(otto, "", most=20) == (20, True)
    assert len(all_ids(otto, "", most=20)) == 21
    assert count_runs_since(otto, "workflow:refund", timezone.now() - timedelta(hours=13)) == 2
    assert sum(len(page) for page in every_page(otto, "workflow:refund*", size=3, most=7)) == 7


@pytest.mark.parametrize("text", ["", "status:waiting", "tag:eu error:value* blue", "input.amount:>5 -status:ended"])
def test_a_list_costs_the_same_however_many_there_are(thirty, text):
    otto = people.viewer("otto")

    def cost(limit: int) -> int:
        with CaptureQueriesContext(connection) as counted:
            read_runs(otto, text, limit=limit)
        return len(counted)

    # Of twelve runs there is one in each phase.
    assert cost(12) == cost(30) <= 9


def test_where_content_is_encrypted_the_filter_says_what_cannot_be_searched(thirty, settings):
    settings.WFDASH_ENCRYPTION_KEYS = "a-secret-that-is-long-enough-to-be-one"
    with pytest.raises(Invalid) as refusal:
        read_runs(people.viewer("otto"), "input.amount:5")
    assert "encrypted" in refusal.value.errors[0]["msg"]
    assert read_runs(people.viewer("otto"), "refund").items
