from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Answer, AuditEntry, Checkpoint, Event, HumanRequest, Run
from tests.actions.checkpoints.test_restore import history
from wfdash.actions import audit as audit_entries
from wfdash.actions.checkpoints import fork_run, label_checkpoint
from wfdash.actions.runs.bulk import continue_bulk, delete_checkpoint, delete_run, start_bulk, tag_runs
from wfdash.domain.errors import NotAllowed, NotFound, WrongState

__all__ = ["history"]
pytestmark = pytest.mark.django_db(transaction=True)


def ended(run: Run, days: float = 0) -> Run:
    """Let the run have ended so many days ago."""
    Run.objects.filter(pk=run.pk).update(phase="completed", finished=timezone.now() - timedelta(days=days))
    return run


def verified() -> list[str]:
    """Return the audit's verbs, oldest first, once the whole chain was proven."""
    count, found = audit_entries.check_chain()
    assert not found
    entries = list(AuditEntry.objects.order_by("n").values_list("verb", flat=True))
    assert count == len(entries)
    return entries


def test_a_deleted_run_leaves_its_audit_entries_and_nothing_else(run, history, person):
    before = verified()
    delete_run(person("otto", "operator"), ended(run).pk)
    for model in (Run, Checkpoint, Event, HumanRequest, Answer):
        assert not model.objects.exists()
    assert verified() == [*before, "delete"]
    entry = AuditEntry.objects.latest("n")
    assert (entry.run, entry.actor, entry.facts["checkpoints"]) == (run.pk, "otto", 3)


def test_a_run_that_is_open_or_not_ones_own_is_not_deleted(run, history, person):
    otto = person("otto", "operator")
    Run.objects.filter(pk=run.pk).update(phase="waiting")
    with pytest.raises(WrongState, match="cancel it first"):
        delete_run(otto, run.pk)
    ended(run)
    with pytest.raises(NotAllowed):
        delete_run(person("vera", "viewer"), run.pk)
    with pytest.raises(NotFound):
        delete_run(person("sam"), run.pk)
    assert Checkpoint.objects.filter(run=run).count() == 3
    assert "delete" not in verified()


def test_a_run_is_deleted_once_per_key(run, person):
    otto = person("otto", "operator")
    ended(run)
    for _ in range(2):
        delete_run(otto, run.pk, key="k")
    assert verified().count("delete") == 1
    with pytest.raises(NotFound):
        delete_run(otto, run.pk)


def test_a_fork_goes_on_without_its_origin(run, history, person):
    otto = person("otto", "operator")
    fork = fork_run(otto, run.pk, history["1"])
    delete_run(otto, ended(run).pk)
    assert Run.objects.get(pk=fork_run(otto, fork.pk, Checkpoint.objects.get(run=fork).pk).pk).family == run.pk


def test_only_a_checkpoint_that_no_one_needs_is_deleted(run, history, person):
    otto = person("otto", "operator")
    with pytest.raises(WrongState, match="current checkpoint"):
        delete_checkpoint(otto, run.pk, history["3"])
    label_checkpoint(otto, run.pk, history["1"], "keep")
    with pytest.raises(WrongState, match="Remove the label"):
        delete_checkpoint(otto, run.pk, history["1"])
    delete_checkpoint(otto, run.pk, history["2"])
    assert set(Checkpoint.objects.filter(run=run).values_list("n", flat=True)) == {1, 3}
    assert verified()[-1] == "delete-checkpoint"
    with pytest.raises(NotFound):
        delete_checkpoint(otto, run.pk, history["2"])


def test_a_run_that_people_keep_is_deleted_once_its_tag_is_removed(run, person):
    otto = person("otto", "operator")
    tag_runs(otto, [ended(run).pk], add=["keep"])
    with pytest.raises(WrongState, match="kept by its tag keep"):
        delete_run(otto, run.pk)
    tag_runs(otto, [run.pk], remove=["Keep"])
    delete_run(otto, run.pk)
    assert not Run.objects.exists()


def test_many_runs_are_deleted_at_once(run, history, person):
    otto = person("otto", "operator")
    fork = fork_run(otto, run.pk, history["1"])
    assert continue_bulk(start_bulk(otto, "delete", [ended(run).pk]).pk) == 1
    assert Run.objects.get().pk == fork.pk
