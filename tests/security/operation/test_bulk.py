"""No one keeps others from acting on many runs, or learns of runs that are not theirs to see."""

from __future__ import annotations

import pytest
from django.db import OperationalError

from checkpoints.models import AuditEntry, Bulk, Event, Grant, Run
from tests import people
from tests.actions.runs.test_bulk import otto as otto
from wfdash.actions.runs import bulk as bulks
from wfdash.actions.runs.bulk import continue_bulk, start_bulk
from wfdash.domain.errors import Busy, Invalid, NotAllowed


def failed(number: int, **facts: object) -> list[str]:
    return [people.make_run(phase="failed", error={"type": "E", "message": "x"}, **facts).pk for _ in range(number)]


@pytest.mark.parametrize("name", ["sam", "ana", "vera"])
def test_who_operates_nothing_queues_nothing(everybody, name: str):
    with pytest.raises(NotAllowed):
        start_bulk(people.viewer(name), "tag", failed(1), add=["x"])
    assert not Bulk.objects.exists()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("odd", ["\ud800", "\x00", "", "x" * 10_000, "made-up"])
def test_ids_that_belong_to_nothing_are_counted_and_not_kept(otto, odd: str):
    (run,) = failed(1)
    bulk = start_bulk(otto, "retry", [odd, run])
    assert bulk.runs == [run]
    assert sum(bulk.refused["why"].values()) == 1
    assert continue_bulk(bulk.pk) == 1
    with pytest.raises(Invalid):
        start_bulk(otto, "retry", [odd])


def test_a_run_that_cannot_be_seen_is_not_named(everybody):
    Grant.objects.create(user=everybody["sam"], role="operator", workflow="mine")
    (mine,), (theirs,) = failed(1, workflow="mine"), failed(1, workflow="theirs", title="Secret")
    sam = people.viewer("sam")
    bulk = start_bulk(sam, "retry", [mine, theirs])
    continue_bulk(bulk.pk)
    bulk.refresh_from_db()
    assert theirs not in str([bulk.runs, bulk.refused])
    assert "Secret" not in str(bulk.refused)


def test_a_run_that_is_hidden_in_the_meantime_is_not_named(everybody):
    grant = Grant.objects.create(user=everybody["sam"], role="operator", workflow="mine")
    bulk = start_bulk(people.viewer("sam"), "retry", failed(1, workflow="mine", title="Secret"))
    grant.delete()
    continue_bulk(bulk.pk)
    bulk.refresh_from_db()
    assert bulk.refused["some"][0][1] == ""


def test_one_run_that_fails_unexpectedly_does_not_stop_the_others(otto, monkeypatch, caplog):
    first, second = failed(2)
    retry = bulks.VERBS["retry"].do

    def break_first(viewer, run, facts):
        if run == first:
            raise ValueError("cannot be read")
        return retry(viewer, run, facts)

    monkeypatch.setitem(bulks.VERBS, "retry", bulks.BulkVerb(do=break_first, phases=bulks.EVERY))
    bulk = start_bulk(otto, "retry", [first, second])
    assert bulks.finish_bulks() == 2
    bulk.refresh_from_db()
    assert (bulk.acted, bulk.refused["why"]) == (1, {bulks.UNEXPECTED: 1})
    assert "cannot be read" in caplog.text


def test_an_act_that_fails_itself_is_put_aside_and_the_others_go_on(otto, caplog):
    adam = people.viewer("adam")
    broken = start_bulk(adam, "retry", failed(3))
    Bulk.objects.filter(pk=broken.pk).update(verb="explode")
    good = start_bulk(otto, "retry", failed(2))
    for _ in range(5):
        bulks.finish_bulks()
    broken.refresh_from_db()
    good.refresh_from_db()
    assert good.acted == 2
    assert broken.finished is not None
    assert broken.refused["why"] == {bulks.UNEXPECTED: 3}


def test_an_act_waits_while_the_database_is_away(otto, monkeypatch):
    bulk = start_bulk(otto, "retry", failed(1))

    def away(viewer, run, facts):
        raise OperationalError("gone")

    with monkeypatch.context() as patched:
        patched.setitem(bulks.VERBS, "retry", bulks.BulkVerb(do=away, phases=bulks.EVERY))
        with pytest.raises(OperationalError):
            bulks.finish_bulks()
    assert bulks.finish_bulks() == 1
    bulk.refresh_from_db()
    assert bulk.acted == 1


def test_people_take_turns(otto):
    adam = people.viewer("adam")
    long = start_bulk(adam, "tag", failed(40), add=["x"])
    short = start_bulk(otto, "retry", failed(5))
    bulks.finish_bulks(limit=20)
    long.refresh_from_db()
    short.refresh_from_db()
    assert (long.done, short.done) == (10, 5)
    assert short.finished is not None


def test_one_person_has_only_so_many_acts_under_way(otto):
    for run in failed(bulks.MOST_OPEN):
        start_bulk(otto, "retry", [run])
    with pytest.raises(Busy):
        start_bulk(otto, "retry", failed(1))
    start_bulk(people.viewer("adam"), "retry", failed(1))
    bulks.finish_bulks()
    start_bulk(otto, "retry", failed(1))
    assert Event.objects.filter(kind="run.retried").count() == Run.objects.filter(phase="ready").count()
