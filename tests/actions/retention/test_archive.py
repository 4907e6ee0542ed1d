from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from checkpoints.errors import Damaged
from checkpoints.models import AuditEntry, Checkpoint, Claim, Comment, Event, Run, TallyMark
from tests.actions.checkpoints.test_restore import history
from wfdash.actions import retention as archive
from wfdash.actions import retention as retention
from wfdash.actions.retention import RunRemover, archive_runs, read_archive
from wfdash.actions.runs.bulk import tag_runs

__all__ = ["history"]
pytestmark = pytest.mark.django_db(transaction=True)
KEYS = "a" * 32, "b" * 32
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture
def old(run, history, person, settings, tmp_path) -> Run:
    """Return a run that has been answered, commented and tagged, and ended long ago; its archive is ``tmp_path``."""
    settings.WFDASH_KEEP_RUNS, settings.WFDASH_ARCHIVE = 30, str(tmp_path)
    tag_runs(person("otto", "operator"), [run.pk], add=["eu"])
    by = person("ana", "reviewer").user
    Comment.objects.create(id="c", request=run.requests.get(), by=by, text="Fine \u2713", at=timezone.now())
    ended = timezone.now() - timedelta(days=40)
    Run.objects.filter(pk=run.pk).update(phase="completed", finished=ended, input={"amount": 7}, created_by=by)
    Claim.objects.all().delete()
    TallyMark.objects.create(pk=1, event=Event.objects.latest("pk").pk)
    return Run.objects.get(pk=run.pk)


def archived(folder, run: str = "") -> list[dict]:
    return list(read_archive(sorted(folder.iterdir()), run))


def test_a_removed_run_is_in_the_archive_with_all_that_people_may_ask_for_later(old, tmp_path):
    RunRemover().remove_next()
    assert not Run.objects.exists()
    (file,) = tmp_path.iterdir()
    assert (stat.S_IMODE(os.stat(file).st_mode), file.name) == (0o600, AuditEntry.objects.latest("n").facts["archive"])
    (found,) = archived(tmp_path)
    content = found["content"]
    assert (found["format"], found["run"], found["workflow"]) == ("wfdash-run/1", old.pk, "expense")
    run = content["run"]
    assert (run["input"], run["created_by"], run["phase"], content["tags"]) == (
        {"amount": 7},
        "ana",
        "completed",
        ["eu"],
    )
    assert run["finished"] == found["finished"] == old.finished.isoformat()
    (request,) = content["requests"]
    assert (request["answer"]["value"], request["answer"]["by"]) == ({"action": "approve"}, "ana")
    assert [one["text"] for one in request["comments"]] == ["Fine \u2713"]
    assert [one["stands"] for one in request["replies"]] == ["approved"]
    assert [one["n"] for one in content["checkpoints"]] == [1, 2, 3]
    assert [one["seq"] for one in content["events"]] == list(range(1, old.seq + 1))
    assert content["body"] is not None


def test_where_content_is_encrypted_so_is_the_archive(old, tmp_path, settings):
    settings.WFDASH_ENCRYPTION_KEYS = f"{KEYS[0]},plain"
    RunRemover().remove_next()
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_bytes())["content"].startswith("wfdash-sealed:")
    assert b"amount" not in file.read_bytes()
    assert archived(tmp_path)[0]["content"]["run"]["input"] == {"amount": 7}
    settings.WFDASH_ENCRYPTION_KEYS = f"{KEYS[1]},plain"
    with pytest.raises(archive.Locked):
        archived(tmp_path)


def test_a_run_that_cannot_be_written_to_the_archive_stays(old, tmp_path, settings, monkeypatch):
    settings.WFDASH_ARCHIVE = str(tmp_path / "not mounted")
    with pytest.raises(FileNotFoundError, match="not mounted"):
        RunRemover().remove_next()
    settings.WFDASH_ARCHIVE = str(tmp_path)
    monkeypatch.setattr(archive, "_content", lambda *given: (_ for _ in ()).throw(Damaged("a key is missing")))
    assert not RunRemover().remove_next().runs
    assert Run.objects.get().pk == old.pk
    assert not AuditEntry.objects.filter(verb="delete-old").exists()


def test_a_run_whose_newest_checkpoint_is_damaged_is_archived_without_it(old, tmp_path):
    Checkpoint.objects.filter(n=3).update(body="rotten")
    RunRemover().remove_next()
    content = archived(tmp_path)[0]["content"]
    assert (content["body"], bool(content["problem"]), len(content["events"])) == (None, True, old.seq)


def test_the_line_is_on_the_disk_before_anything_is_deleted_and_a_later_one_counts(old, tmp_path, monkeypatch):
    synced, sync, remove = list[int](), os.fsync, retention.remove_locked
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), sync(handle)))

    def die(*given):
        assert synced
        raise SystemExit("killed")

    monkeypatch.setattr(retention, "remove_locked", die)
    with pytest.raises(SystemExit):
        RunRemover().remove_next()
    assert Event.objects.filter(run=old).count() == old.seq
    monkeypatch.setattr(retention, "remove_locked", remove)
    RunRemover().remove_next()
    assert [one["run"] for one in archived(tmp_path)] == [old.pk, old.pk]


def test_the_end_that_a_dying_writer_left_is_passed_over_and_harms_no_later_line(old, tmp_path, caplog):
    name, _ = archive_runs(tmp_path, [old.pk], NOON)
    assert name == "runs-2026-11-23.jsonl"
    file = tmp_path / name
    file.write_bytes(file.read_bytes() + file.read_bytes()[:100])
    archive_runs(tmp_path, [old.pk], NOON)
    assert [one["run"] for one in archived(tmp_path)] == [old.pk, old.pk]
    assert "line 2 is incomplete" in caplog.text
    file.write_text('{"format": "wfdash-run/9"}\n')
    with pytest.raises(ValueError, match="line 1 is no archived run of the format wfdash-run/1"):
        archived(tmp_path)


def test_a_run_that_is_opened_again_after_it_was_written_stays(old, tmp_path, monkeypatch):
    write = archive.archive_runs

    def then_retry(*given):
        written = write(*given)
        Run.objects.update(phase="ready", finished=None)
        return written

    monkeypatch.setattr(archive, "archive_runs", then_retry)
    assert not RunRemover().remove_next().runs
    assert Run.objects.get().phase == "ready"
