"""Runs with very many rows: hidden at once, removed in parts, finished by who comes next."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.database import runs
from checkpoints.database.runs import read_row
from checkpoints.database.storage import write
from checkpoints.limits import problem_of
from checkpoints.models import REMOVED, AuditEntry, Checkpoint, Chunk, Claim, Event, HumanRequest, Run, TallyMark
from checkpoints.records import Status
from tests.actions.checkpoints.test_restore import commit, history
from wfdash.actions import retention as retention
from wfdash.actions.checkpoints import fork_run
from wfdash.actions.common import lock_rows
from wfdash.actions.hooks import webhooks
from wfdash.actions.retention import BatchSize, RunRemover, read_archive
from wfdash.actions.runs.bulk import delete_run
from wfdash.domain.errors import NotFound
from wfdash.queries.history import last_events, read_checkpoints
from wfdash.queries.requests.request import read_request
from wfdash.queries.runs.listing import read_run, read_runs
from wfdash.queries.statistics.gauges import count_by_status, count_statuses
from wfdash.web.live.database import read_heads

__all__ = ["history"]
pytestmark = pytest.mark.django_db(transaction=True)
FEW_ROWS = 3


@pytest.fixture(autouse=True)
def many_rows_are_few(monkeypatch, settings, tmp_path):
    """Let a run of seven events and checkpoints have very many, of which three go at a time; the archive is
    ``tmp_path``.
    """
    settings.WFDASH_KEEP_RUNS, settings.WFDASH_ARCHIVE = 30, str(tmp_path)
    for module in (runs, retention):
        monkeypatch.setattr(module, "MOST_AT_ONCE", FEW_ROWS)
    monkeypatch.setattr("checkpoints.database.runs.MOST_AT_ONCE", FEW_ROWS)
    monkeypatch.setattr(runs, "FEW", 0)
    monkeypatch.setattr(BatchSize, "LEAST", FEW_ROWS)
    monkeypatch.setattr(BatchSize, "MOST", FEW_ROWS)


@pytest.fixture
def old(run, history) -> Run:
    """Return a run that ended long ago, with four events, three checkpoints, content and a request."""
    Run.objects.filter(pk=run.pk).update(phase="completed", finished=timezone.now() - timedelta(days=40), start_key="k")
    Claim.objects.all().delete()
    TallyMark.objects.create(pk=1, event=Event.objects.latest("pk").pk)
    return Run.objects.get(pk=run.pk)


def left(run: Run) -> int:
    return Event.objects.filter(run=run.pk).count() + Checkpoint.objects.filter(run=run.pk).count()


def remover() -> RunRemover:
    return RunRemover(BatchSize(rows=FEW_ROWS))


@pytest.mark.parametrize("scope", ["*", "expense"])
def test_what_is_left_of_an_open_run_is_in_no_count_of_states(scope, person, run, history) -> None:
    otto = person("otto", "operator", workflow=scope)
    Run.objects.filter(pk=run.pk).update(phase="waiting")
    assert count_statuses(otto) == {Status.WAITING: 1}
    with write():
        lock_rows(Run.objects.filter(pk=run.pk))
        runs.begin_removal("default", run.pk)
    assert Run.remains.get(pk=run.pk).phase == "waiting"
    assert (count_statuses(otto), count_by_status(otto)) == ({}, {})


def remove_all() -> None:
    following = remover()
    while not following.remove_next().last:
        pass


def test_once_the_first_part_has_gone_no_one_finds_the_run_and_the_rest_goes_in_parts(old, person, tmp_path):
    everyone, request = person("root", "admin"), old.requests.get()
    once = remover()
    assert list(once.remove_next().runs) == [old.pk]
    assert left(old) == 7
    assert not Run.objects.exists()
    assert not HumanRequest.objects.exists()
    for look in (read_run, delete_run, last_events, read_checkpoints):
        with pytest.raises(NotFound):
            look(everyone, old.pk)
    with pytest.raises(NotFound):
        read_request(everyone, request.pk)
    assert not read_runs(everyone, "").items
    assert not read_heads([old.pk])
    sizes = [left(old)]
    while not (batch := once.remove_next()).last:
        sizes.append(left(old))
        assert batch.rows <= FEW_ROWS + 1
    assert sizes == [7, 4, 1, 0]
    for model in (Run.remains, Event.objects, Checkpoint.objects, Chunk.objects):
        assert not model.exists()
    entry = AuditEntry.objects.get(verb="delete-old")
    assert {name: entry.facts[name] for name in ("runs", "events", "checkpoints", "requests")} == {
        "runs": [old.pk],
        "events": 4,
        "checkpoints": 3,
        "requests": 1,
    }
    (line,) = read_archive(tmp_path.iterdir())
    assert (line["run"], len(line["content"]["events"])) == (old.pk, 4)


def test_what_a_worker_left_that_died_goes_first_and_without_a_rule_too(old, monkeypatch, settings):
    once, part = remover(), retention.remove_part

    def die(*given):
        part(*given)
        raise SystemExit("killed")

    once.remove_next()
    once.remove_next()
    monkeypatch.setattr(retention, "remove_part", die)
    with pytest.raises(SystemExit):
        once.remove_next()
    assert left(old) == 4
    monkeypatch.setattr(retention, "remove_part", part)
    settings.WFDASH_KEEP_RUNS = None
    remove_all()
    assert (left(old), Run.remains.count(), AuditEntry.objects.filter(verb="delete-old").count()) == (0, 0, 1)


def test_a_run_deleted_by_hand_is_hidden_at_once_and_a_worker_removes_the_rest(old, person):
    otto = person("otto", "operator")
    delete_run(otto, old.pk)
    assert (left(old), Run.objects.count(), Run.remains.count()) == (7, 0, 1)
    with pytest.raises(NotFound):
        delete_run(otto, old.pk)
    Run.objects.create(**{**facts_of(old), "id": "another", "family": "another", "start_key": "k"})
    remove_all()
    assert (left(old), Run.remains.count(), Run.objects.get().pk) == (0, 0, "another")


def test_a_fork_keeps_the_content_it_shares_with_a_run_that_goes_in_parts(run, history, person, old):
    state = [f"{number:_>60}" for number in range(2_000)]
    large = commit(run.pk, 4, waiting=False, state=state)
    fork = fork_run(person("otto", "operator"), run.pk, large)
    Run.objects.filter(pk=fork.pk).update(phase="completed", finished=timezone.now())
    TallyMark.objects.update(event=Event.objects.latest("pk").pk)
    assert Chunk.objects.filter(family=run.family).exists()
    remove_all()
    assert left(old) == 0
    assert read_row(Checkpoint.objects.select_related("run").get(run=fork)).body["state"]["extra"] == state


def test_webhooks_hear_nothing_of_what_is_left(old):
    Event.objects.create(run=old, seq=old.seq + 1, kind="run.completed", data={}, at=timezone.now())
    assert len(webhooks._events(0, 10**9)) == 1
    with write():
        lock_rows(Run.objects.filter(pk=old.pk))
        runs.begin_removal("default", old.pk)
    assert webhooks._events(0, 10**9) == []


def test_only_what_no_workflow_can_be_called_marks_what_is_left(old):
    assert problem_of("workflow name", REMOVED)
    Run.objects.update(workflow="", finished=timezone.now())
    remove_all()
    assert (Run.objects.get().pk, left(old)) == (old.pk, 7)


def facts_of(run: Run) -> dict:
    return {name: getattr(run, name) for name in ("workflow", "phase", "created", "updated")}
