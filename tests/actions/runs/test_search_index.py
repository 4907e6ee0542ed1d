"""Facts are written when runs begin and fail, once, and for what began elsewhere by the sweep."""

from __future__ import annotations

import pytest

from checkpoints.models import AuditEntry, Event, Run, RunFact, WorkflowVersion
from tests import people
from wfdash.actions.runs import search_index
from wfdash.actions.runs.bulk import tag_runs
from wfdash.domain.errors import Invalid, NotAllowed, NotFound

SCHEMA = {"properties": {"pin": {"format": "password"}}}
KEYS = "a-secret-that-is-long-enough-to-be-one"


@pytest.fixture
def known(everybody):
    """The schema of a workflow that is not loaded any more."""
    WorkflowVersion.objects.create(workflow="gone", version="v1", description={"input_schema": SCHEMA})


def told(run: Run) -> set[tuple[str, str]]:
    return set(RunFact.objects.filter(run=run).values_list("name", "text"))


@pytest.mark.django_db
def test_failures_to_index_are_found_without_reading_those_that_are_indexed():
    assert "USING INDEX run_to_note" in Run.objects.filter(search_index.FAILURE_NOT_INDEXED).values("pk")[:9].explain()


def test_what_began_elsewhere_is_found_after_the_sweep(known):
    run = people.make_run(workflow="gone", title="Pay", input={"amount": 3, "pin": "hush"})
    assert search_index.index_runs() == 1
    assert {("title", "pay"), ("title", "gone"), ("title", run.pk[-8:]), ("input.amount", "3")} <= told(run)
    assert "hush" not in {text for _, text in told(run)}
    assert search_index.index_runs() == 0


def test_without_a_schema_nothing_of_the_input_is_kept(everybody):
    run = people.make_run(workflow="nobody_knows", input={"amount": 3})
    search_index.index_runs()
    assert {name for name, _ in told(run)} == {"title"}


def test_a_failure_is_noted_once_and_its_class_is_the_last(known):
    run = people.make_run(phase="failed", error={"type": "TooLate", "message": "Parcel lost", "traceback": ""})
    people.make_run(phase="waiting")
    search_index.index_runs()
    assert search_index.index_failures() == 1
    assert search_index.index_failures() == 0
    assert {("error", "toolate"), ("word", "parcel")} <= told(run)
    Run.objects.filter(pk=run.pk).update(noted=False, error={"type": "Other", "message": "Parcel found"})
    assert search_index.index_failures() == 1
    assert [text for name, text in told(run) if name == "error"] == ["other"]
    assert {("word", "lost"), ("word", "found")} <= told(run)


def test_of_encrypted_content_nothing_is_kept(known, settings):
    before = people.make_run(workflow="gone", input={"amount": 3})
    search_index.index_runs()
    settings.WFDASH_ENCRYPTION_KEYS = KEYS
    run = people.make_run(workflow="gone", input={"amount": 4}, phase="failed", error={"type": "E", "message": "word"})
    search_index.index_runs()
    search_index.index_failures()
    assert {name for name, _ in told(run)} == {"title", "error"}
    assert search_index.remove_content(chunk=1) == 2
    assert {name for name, _ in told(before)} == {"title"}


def test_tags_are_put_on_and_taken_off_with_a_trace(everybody):
    run, otto = people.make_run(), people.viewer("otto")
    tag_runs(otto, [run.pk], add=["EU", "vip"])
    tag_runs(otto, [run.pk], add=["eu"], remove=["vip", "never"])
    assert {text for name, text in told(run) if name == "tag"} == {"eu"}
    assert [event.data["add"] for event in Event.objects.filter(kind="run.tagged").order_by("seq")] == [
        ["eu", "vip"],
        [],
    ]
    assert AuditEntry.objects.filter(verb="tag").count() == 2
    tag_runs(otto, [run.pk], add=["eu"])
    assert AuditEntry.objects.filter(verb="tag").count() == 2


def test_the_same_key_tags_once(everybody):
    run, otto = people.make_run(), people.viewer("otto")
    tag_runs(otto, [run.pk], add=["eu"], key="k")
    tag_runs(otto, [run.pk], remove=["eu"])
    tag_runs(otto, [run.pk], add=["eu"], key="k")
    assert "tag" not in {name for name, _ in told(run)}


def test_who_may_not_operate_may_not_tag_and_a_bad_tag_is_named(everybody):
    run = people.make_run()
    with pytest.raises(NotAllowed):
        tag_runs(people.viewer("vera"), [run.pk], add=["eu"])
    with pytest.raises(NotFound):
        tag_runs(people.viewer("sam"), [run.pk], add=["eu"])
    with pytest.raises(Invalid) as refusal:
        tag_runs(people.viewer("otto"), [run.pk], add=["two words"])
    assert "is not a valid tag" in refusal.value.errors[0]["msg"]
    with pytest.raises(Invalid):
        tag_runs(people.viewer("otto"), [run.pk], add=[f"t{n}" for n in range(21)])


def test_open_lists_look_again_once_a_run_is_indexed(known, monkeypatch, django_capture_on_commit_callbacks):
    heard: list[tuple[str, int]] = []
    monkeypatch.setattr(search_index.pubsub.runs_changed, "publish", lambda *change: heard.append(change))
    run = people.make_run(phase="failed", error={"type": "TooLate", "message": "Parcel lost", "traceback": ""})
    for index in (search_index.index_runs, search_index.index_failures):
        with django_capture_on_commit_callbacks(execute=True):
            assert index() == 1
    assert heard == [(run.pk, run.seq)] * 2
