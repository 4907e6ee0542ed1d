"""One verb for many runs: what is rehearsed is what is done; each run is told once, and its refusal is told."""

from __future__ import annotations

import pytest

from checkpoints.models import AuditEntry, Bulk, Event, Grant, Run, RunFact
from checkpoints.records import Phase
from tests import people
from wfdash.actions.runs import bulk as bulks
from wfdash.actions.runs.bulk import continue_bulk, find_bulk, preview_bulk, start_bulk
from wfdash.actions.runs.lifecycle import cancel_run, retry_run
from wfdash.domain.errors import Invalid, KeyReused, NotFound


@pytest.fixture
def otto(everybody):
    return people.viewer("otto")


def failed(number: int) -> list[str]:
    return [people.make_run(phase="failed", error={"type": "E", "message": "x"}).pk for _ in range(number)]


@pytest.mark.parametrize("verb", ["retry", "cancel", "pause", "resume"])
def test_a_rehearsal_says_what_then_happens_in_every_phase(otto, verb):
    runs = {phase: people.make_run(phase=phase.value, acted_by="x").pk for phase in Phase}
    tried = preview_bulk(otto, verb, list(runs.values()))
    continue_bulk(start_bulk(otto, verb, list(runs.values())).pk)
    told = Bulk.objects.get()
    assert told.acted == len(tried.runs) > 0
    assert told.done - told.acted == tried.refused == sum(told.refused["why"].values())
    assert {entry.run for entry in AuditEntry.objects.filter(verb=verb)} == set(tried.runs)


def test_a_rehearsal_changes_nothing_and_counts_why(otto, everybody):
    Grant.objects.create(user=everybody["sam"], role="operator", workflow="mine")
    Grant.objects.create(user=everybody["sam"], role="viewer", workflow="theirs")
    runs = [
        *(people.make_run(phase=phase, workflow="mine").pk for phase in ("failed", "failed", "waiting", "completed")),
        people.make_run(phase="failed", workflow="theirs").pk,
        people.make_run(phase="failed", workflow="hidden").pk,
    ]
    before = list(Run.objects.order_by("pk").values_list("pk", "phase", "seq"))
    found = preview_bulk(people.viewer("sam"), "retry", [*runs, "nonsense"])
    assert found.runs == tuple(runs[:2])
    assert dict(found.stays) == {
        "It is waiting": 1,
        "Completed": 1,
        "View only: your role cannot change it": 1,
        "Not found, or you do not have access": 2,
    }
    assert list(Run.objects.order_by("pk").values_list("pk", "phase", "seq")) == before


def test_each_run_has_its_own_record_and_the_whole_has_one(otto):
    runs = failed(3)
    assert continue_bulk(start_bulk(otto, "retry", runs, text="status:failed").pk) == 3
    assert set(Run.objects.filter(phase="ready").values_list("pk", flat=True)) == set(runs)
    assert AuditEntry.objects.filter(verb="retry").count() == 3
    entry = AuditEntry.objects.get(verb="bulk")
    assert (entry.facts["what"], entry.facts["runs"], entry.facts["filter"]) == ("retry", 3, "status:failed")
    assert Event.objects.filter(kind="run.retried").count() == 3
    assert Bulk.objects.get().finished is not None


def test_what_is_left_is_done_by_the_sweep_and_no_run_twice(otto):
    assert continue_bulk(start_bulk(otto, "retry", failed(5)).pk, most=2) == 2
    assert bulks.finish_bulks(limit=2) == 2
    assert bulks.finish_bulks() == 1
    assert bulks.finish_bulks() == 0
    assert Event.objects.filter(kind="run.retried").count() == 5


def test_two_who_go_on_at_once_share_the_work(otto):
    start_bulk(otto, "retry", failed(2))
    mine, theirs = Bulk.objects.select_related("by").get(), Bulk.objects.select_related("by").get()
    assert bulks._apply_next(mine) is True
    assert bulks._apply_next(theirs) is False
    assert Event.objects.filter(kind="run.retried").count() == 1


def test_what_changed_in_the_meantime_stays_and_is_told(otto):
    first, second = failed(2)
    bulk = start_bulk(otto, "retry", [first, second])
    cancel_run(otto, people.make_run().pk)
    retry_run(otto, first)
    continue_bulk(bulk.pk)
    bulk.refresh_from_db()
    assert (bulk.done, bulk.acted) == (2, 1)
    assert bulk.refused["some"] == [[first, "Expenses", "Cannot retry a run that is ready"]]


def test_who_lost_the_right_in_the_meantime_does_nothing_more(otto):
    bulk = start_bulk(otto, "retry", failed(2))
    continue_bulk(bulk.pk, most=1)
    Grant.objects.filter(user=otto.user).delete()
    assert bulks.finish_bulks() == 1
    bulk.refresh_from_db()
    assert (bulk.acted, bulk.done) == (1, 2)


def test_the_same_key_begins_it_once(otto):
    runs = failed(2)
    assert start_bulk(otto, "retry", runs, key="k").pk == start_bulk(otto, "retry", runs, key="k").pk
    with pytest.raises(KeyReused):
        start_bulk(otto, "cancel", runs, key="k")
    assert Bulk.objects.count() == 1


def test_many_are_tagged_together(otto):
    runs = failed(2)
    continue_bulk(start_bulk(otto, "tag", runs, add=["EU"]).pk)
    assert set(RunFact.objects.filter(name="tag").values_list("run_id", "text")) == {(run, "eu") for run in runs}
    with pytest.raises(Invalid):
        start_bulk(otto, "tag", runs)


@pytest.mark.parametrize(
    ("verb", "runs"), [("explode", ["x"]), ("retry", []), ("retry", [str(n) for n in range(10_001)])]
)
def test_what_cannot_be_told_is_refused_with_a_remedy(otto, verb, runs):
    with pytest.raises(Invalid):
        preview_bulk(otto, verb, runs)


def test_only_who_asked_finds_it_again(otto):
    bulk = start_bulk(otto, "retry", failed(1))
    assert find_bulk(otto, bulk.pk) == bulk
    with pytest.raises(NotFound):
        find_bulk(people.viewer("adam"), bulk.pk)
