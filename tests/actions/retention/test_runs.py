from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from checkpoints import ids
from checkpoints.database.storage import write
from checkpoints.models import (
    AuditEntry,
    Checkpoint,
    Chunk,
    Claim,
    DeliveryAttempt,
    Effect,
    Event,
    Notice,
    Reply,
    Run,
    RunFact,
    Shown,
    TallyMark,
    Webhook,
)
from tests.actions.checkpoints.test_restore import history
from wfdash.actions import audit as audit_entries
from wfdash.actions import common
from wfdash.actions import retention as retention
from wfdash.actions.checkpoints import fork_run
from wfdash.actions.retention import BatchSize, RunRemover
from wfdash.actions.runs.bulk import tag_runs
from wfdash.domain.errors import NotFound
from wfdash.queries.runs.retention import current_rules, free_to_go, old_runs

__all__ = ["history"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def keep_for_30_days(settings):
    settings.WFDASH_KEEP_RUNS = 30


@pytest.fixture
def old():
    """Return what ends a run so many days ago, or makes such a run, and lets statistics have read all of it."""

    def make(run: Run | str = "expense", days: float = 40) -> Run:
        now = timezone.now()
        if isinstance(run, str):
            made = ids.new_run_id()
            run = Run.objects.create(id=made, family=made, workflow=run, created=now, updated=now)
        Run.objects.filter(pk=run.pk).update(phase="completed", finished=now - timedelta(days=days))
        Claim.objects.filter(run=run).delete()
        read_all()
        return run

    return make


def read_all() -> None:
    last = Event.objects.order_by("-pk").values_list("pk", flat=True).first()
    TallyMark.objects.update_or_create(pk=1, defaults={"event": last or 0})


def removed() -> list[str]:
    """Remove all that may go, in batches, and return the runs in the order in which they went."""
    found, remover = list[str](), RunRemover()
    while not (batch := remover.remove_next()).last:
        found += batch.runs
    return found


def test_an_old_run_goes_with_all_it_has_and_its_audit_stays(run, history, person, old, settings):
    tag_runs(person("otto", "operator"), [run.pk], add=["eu"])
    request = run.requests.get()
    Effect.objects.create(run=run, key="e", step="s", name="pay", state="done", n=1, at=timezone.now())
    sent = {"channel": "webhook", "created": timezone.now(), "due": timezone.now(), "sent": timezone.now()}
    notice = Notice.objects.create(id="n", kind="opened", request=request, **sent)
    DeliveryAttempt.objects.create(notice=notice, at=timezone.now(), ms=1)
    shown = Shown.objects.count()
    before = AuditEntry.objects.count()
    old(run)
    assert removed() == [run.pk]
    for model in (Run, Checkpoint, Event, Reply, Effect, RunFact, Notice, DeliveryAttempt, Chunk):
        assert not model.objects.exists(), model
    count, broken = audit_entries.check_chain()
    assert (count, broken, Shown.objects.count()) == (before + 1, [], shown)
    entry = AuditEntry.objects.latest("n")
    facts = {"runs": [run.pk], "days": {"*": 30}, "events": 5, "checkpoints": 3, "requests": 1}
    assert (entry.verb, entry.actor, entry.right, entry.run) == ("delete-old", "wfdash", "retention", "")
    assert entry.facts == facts


def test_those_that_ended_first_go_first_in_batches_of_their_own_transaction(old, monkeypatch):
    monkeypatch.setattr(BatchSize, "LEAST", 1)
    late, first, second = old(days=31), old(days=50), old(days=45)
    young = old(days=29)
    remover = RunRemover(BatchSize(rows=2 * retention.ROWS_BESIDE))
    assert [list(remover.remove_next().runs) for _ in range(3)] == [[first.pk, second.pk], [late.pk], []]
    assert Run.objects.get().pk == young.pk
    assert [len(entry.facts["runs"]) for entry in AuditEntry.objects.order_by("n")] == [2, 1]


def test_each_workflow_has_its_own_rule(old, settings):
    settings.WFDASH_KEEP_RUNS = {"*": 30, "payments": 400, "scratch": 1, "ledger": None}
    for workflow, days in (("payments", 399), ("scratch", 0.9), ("ledger", 9_000), ("refund", 29)):
        old(workflow, days)
    gone = [old(workflow, days).pk for workflow, days in (("payments", 401), ("scratch", 2), ("refund", 31))]
    assert sorted(removed()) == sorted(gone)
    assert set(Run.objects.values_list("workflow", flat=True)) == {"payments", "scratch", "ledger", "refund"}


def test_without_a_rule_only_what_was_begun_is_looked_for(old, settings, django_assert_num_queries):
    settings.WFDASH_KEEP_RUNS = None
    old()
    with django_assert_num_queries(1):
        assert RunRemover().remove_next().last


def test_a_run_stays_while_another_of_its_family_is_open(run, history, person, old):
    fork = fork_run(person("otto", "operator"), run.pk, history["1"])
    old(run)
    assert removed() == []
    old(fork, days=31)
    assert removed() == [run.pk, fork.pk]
    assert not Chunk.objects.exists()


def test_a_run_stays_while_people_keep_it(run, person, old):
    otto = person("otto", "operator")
    tag_runs(otto, [run.pk], add=["Keep"])
    old(run)
    assert removed() == []
    tag_runs(otto, [run.pk], remove=["keep"])
    old(run)
    assert removed() == [run.pk]


def test_a_run_stays_while_a_worker_has_it_or_someone_has_opened_it_again(old):
    claimed, failed = old(), old()
    until = timezone.now() + timedelta(minutes=1)
    Claim.objects.create(run=claimed, token="t", worker="w", epoch=0, expires=until)
    Run.objects.filter(pk=failed.pk).update(phase="ready")
    assert removed() == []


def test_a_run_stays_until_statistics_and_webhooks_have_read_its_end(run, history, old):
    old(run)
    TallyMark.objects.update(event=1)
    assert removed() == []
    read_all()
    Webhook.objects.create(id="w", name="w", url="https://example.org/", created=timezone.now())
    assert removed() == []
    TallyMark.objects.create(pk=2, event=TallyMark.objects.get(pk=1).event)
    assert removed() == [run.pk]


def test_a_run_stays_until_what_people_and_programs_hear_of_it_was_sent(run, history, old):
    old(run)
    facts = {"kind": "opened", "channel": "mail", "created": timezone.now(), "due": timezone.now()}
    Notice.objects.create(id="n", request=run.requests.get(), **facts)
    callback = old()
    Webhook.objects.create(id="c", name="c", url="https://example.org/", created=timezone.now(), run=callback)
    Notice.objects.create(id="m", target="c", **{**facts, "channel": "webhook"})
    TallyMark.objects.create(pk=2, event=TallyMark.objects.get(pk=1).event)
    assert removed() == []
    Notice.objects.update(given_up=timezone.now())
    assert sorted(removed()) == sorted([run.pk, callback.pk])


@pytest.mark.parametrize("change", [{"phase": "ready"}, {"seq": 7}, {"epoch": 2}, {"finished": None}])
def test_a_run_that_was_touched_since_it_was_picked_stays(old, change):
    run, rules = old(), current_rules()
    picked = retention.pick(rules)
    Run.objects.filter(pk=run.pk).update(**change)
    assert not retention.remove(picked, rules).runs
    assert not AuditEntry.objects.exists()
    assert Run.objects.exists()


def test_a_run_that_was_tagged_since_it_was_picked_stays_and_others_of_its_batch_go(person, old):
    kept, other, rules = old(), old(), current_rules()
    picked = retention.pick(rules)
    RunFact.objects.create(run=kept, name="tag", text="keep", created=kept.created)
    assert list(retention.remove(picked, rules).runs) == [other.pk]
    assert Run.objects.get().pk == kept.pk


def test_two_workers_at_once_remove_each_run_once(old):
    old(), old()
    rules = current_rules()
    first, second = retention.pick(rules), retention.pick(rules)
    assert len(retention.remove(first, rules).runs) == 2
    assert not retention.remove(second, rules).runs
    assert AuditEntry.objects.count() == 1


def test_a_batch_that_fails_half_way_has_removed_nothing(run, history, old, monkeypatch):
    old(run)

    def fail(*args, **options):
        raise OSError("the audit's disk is full")

    monkeypatch.setattr(audit_entries, "record", fail)
    with pytest.raises(OSError, match="disk is full"):
        RunRemover().remove_next()
    assert Checkpoint.objects.filter(run=run).count() == 3
    assert run.requests.count() == 1


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_run_that_cannot_be_removed_holds_up_no_other_and_is_tried_again(old, monkeypatch, caplog, in_parts):
    runs = [old(days=50 - number).pk for number in range(3)]
    name = "remove_rest" if in_parts else "remove_locked"
    working, bad = getattr(retention, name), runs[1]
    if in_parts:
        monkeypatch.setattr(retention, "MOST_AT_ONCE", 1)
        monkeypatch.setattr(BatchSize, "LEAST", 1)

    def fail(*given):
        if bad in given[1]:
            raise ValueError("a bug")
        return working(*given)

    def fail_in_part(run, rows):
        if run == bad:
            raise ValueError("a bug")
        return working(run, rows)

    monkeypatch.setattr(retention, name, fail_in_part if in_parts else fail)
    remover = RunRemover(BatchSize(rows=1) if in_parts else None)
    for _ in range(2):
        while not remover.remove_next().last:
            pass
        assert caplog.text.count(f"Run {bad} cannot be removed") == 1
        caplog.clear()
    stored = Run.remains if in_parts else Run.objects
    assert list(stored.values_list("pk", flat=True)) == [bad]
    monkeypatch.setattr(retention, name, working)
    while not remover.remove_next().last:
        pass
    assert not Run.objects.exists()
    assert not Run.remains.exists()


def test_runs_that_stay_do_not_keep_the_others_from_going(old, monkeypatch):
    monkeypatch.setattr(retention, "RUNS_PER_QUERY", 1)
    kept = [old(days=100 + number) for number in range(3)]
    RunFact.objects.bulk_create(RunFact(run=run, name="tag", text="keep", created=run.created) for run in kept)
    gone = [old(days=50 - number).pk for number in range(3)]
    assert removed() == gone


def test_a_run_that_someone_deletes_first_is_not_found_rather_than_an_error(run, person):
    otto = person("otto", "operator")
    found = common.find_run(otto, run.pk)
    Run.objects.all().delete()
    with pytest.raises(NotFound), write():
        common.lock_run(found)


def test_the_next_batch_is_as_large_as_fits_its_time_but_grows_by_steps():
    size = BatchSize(rows=4_000)
    assert size.after(4_000, 0.08).rows == 2_000
    assert size.after(4_000, 0.001).rows == 8_000
    assert size.after(4_000, 60).rows == BatchSize.LEAST
    assert BatchSize(rows=BatchSize.MOST).after(BatchSize.MOST, 0.0).rows == BatchSize.MOST


@pytest.mark.skipif(connection.vendor != "sqlite", reason="the plan is that of SQLite")
def test_the_first_old_runs_are_read_along_their_index_and_not_sorted_among_all():
    runs = old_runs(current_rules(), timezone.now()).order_by("finished", "id")
    plan = free_to_go(runs).explain()
    assert "checkpoints_run USING INDEX run_finished" in plan
    assert "B-TREE FOR ORDER BY" not in plan
