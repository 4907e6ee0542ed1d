"""Follow-ups: the next message to a completed run, in a run of its own that continues from its end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from checkpoints.database.storage import DatabaseStorage
from checkpoints.models import AuditEntry, Checkpoint, Event, HumanRequest, Run
from checkpoints.records import Reason
from tests.driving import drive, put
from tests.worker.graphs import chat
from wfdash.actions import pacing
from wfdash.actions.checkpoints import fork_run, restore_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.bulk import delete_run
from wfdash.actions.runs.lifecycle import follow_up, start_run
from wfdash.domain.errors import AlreadyFollowed, Invalid, KeyReused, NotAllowed, NotFound, TooOften, WrongState
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog
from wfdash.queries.checkpoints.preview import read_preview
from wfdash.queries.runs.listing import read_run, read_runs
from wfdash.workflow import Workflow

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def served(monkeypatch) -> Catalog:
    found = Catalog()
    monkeypatch.setattr(catalog, "load", lambda: found)
    put(found, chat())
    return found


@pytest.fixture
def otto(served, person):
    return person("otto", "operator")


def finished(viewer, text: str = "one") -> Run:
    run = start_run(viewer, "chat", {"text": text})
    assert drive(run) == "completed"
    return run


def said(run: Run) -> list[str]:
    run.refresh_from_db()
    return run.output


def test_a_follow_up_is_a_run_of_its_own_that_knows_what_was_said(otto) -> None:
    first = finished(otto)
    second = follow_up(otto, first.pk, "two")
    assert drive(second) == "completed"
    third = follow_up(otto, second.pk, "three")
    assert drive(third) == "completed"
    assert (said(first), said(second), said(third)) == (["one"], ["one", "two"], ["one", "two", "three"])
    assert [(one.follows, one.follows_n, one.thread) for one in (second, third)] == [
        (first.pk, first.n, first.pk),
        (second.pk, second.n, first.pk),
    ]
    assert first.thread == first.pk
    head = Checkpoint.objects.get(run=third, n=1)
    assert (head.reason, head.parent) == (Reason.FOLLOW_UP, Checkpoint.objects.filter(run=second).latest("n").pk)


def test_its_events_audit_and_requesters_name_who_wrote(otto, person) -> None:
    first = finished(person("ana", "author"))
    second = follow_up(otto, first.pk, "two")
    assert Event.objects.get(run=second, kind="run.queued").data == {"by": "otto", "run": first.pk}
    assert Event.objects.get(run=first, kind="run.followed_up").data == {"by": "otto", "run": second.pk}
    entry = AuditEntry.objects.get(verb="follow-up")
    assert (entry.actor, entry.run, entry.facts["origin"]) == ("otto", second.pk, first.pk)
    assert (second.created_by.username, second.requesters) == ("otto", ["ana"])


def test_who_writes_second_learns_who_was_first_and_where_it_continues(otto, person) -> None:
    first = finished(otto)
    second = follow_up(person("ana", "author"), first.pk, "two")
    with pytest.raises(AlreadyFollowed, match="ana has followed up on this run already") as refused:
        follow_up(otto, first.pk, "also two")
    assert refused.value.facts["run"] == second.pk
    assert Run.objects.count() == 2


@pytest.mark.parametrize("gone", ["failed", "cancelled"])
def test_a_follow_up_that_came_to_nothing_may_be_written_again(otto, gone) -> None:
    first = finished(otto)
    Run.objects.filter(pk=follow_up(otto, first.pk, "two").pk).update(phase=gone)
    again = follow_up(otto, first.pk, "two again")
    assert drive(again) == "completed"
    assert said(again) == ["one", "two again"]


def test_a_run_that_was_taken_back_and_has_ended_again_branches_the_thread(otto) -> None:
    first = finished(otto)
    old = follow_up(otto, first.pk, "two")
    restore_run(otto, first.pk, Checkpoint.objects.get(run=first, n=1).pk)
    with pytest.raises(WrongState, match="this one is ready"):
        follow_up(otto, first.pk, "too early")
    assert drive(first) == "completed"
    fresh = follow_up(otto, first.pk, "two, another way")
    assert (fresh.thread, fresh.follows, fresh.follows_n > old.follows_n) == (first.pk, first.pk, True)


def test_a_fork_of_a_follow_up_is_the_same_turn_of_the_thread(otto) -> None:
    first = finished(otto)
    second = follow_up(otto, first.pk, "two?")
    assert drive(second) == "waiting"
    answer_request(otto, HumanRequest.objects.get(run=second).pk, "A")
    assert drive(second) == "completed"
    beginning, asked = (Checkpoint.objects.get(run=second, n=n) for n in (1, 3))
    assert asked.waiting == 1
    for chosen, answer in ((asked, "B"), (beginning, "C")):
        fork = fork_run(otto, second.pk, chosen.pk)
        assert (fork.follows, fork.thread, fork.input) == (first.pk, first.pk, "two?")
        assert drive(fork) == "waiting"
        answer_request(otto, HumanRequest.objects.get(run=fork, closed=None).pk, answer)
        assert drive(fork) == "completed"
        assert said(fork) == ["one", f"two?{answer}"]
    assert fork_run(otto, first.pk, Checkpoint.objects.get(run=first, n=1).pk).thread is None


def test_a_follow_up_that_is_restored_to_its_beginning_gets_its_message_again(otto) -> None:
    first = finished(otto)
    second = follow_up(otto, first.pk, "two")
    assert drive(second) == "completed"
    restore_run(otto, second.pk, Checkpoint.objects.get(run=second, n=1).pk)
    assert drive(second) == "completed"
    assert said(second) == ["one", "two"]


def test_a_preview_says_where_a_run_gets_its_message_again(otto) -> None:
    second = follow_up(otto, finished(otto).pk, "two")
    assert drive(second) == "completed"
    beginning, end = Checkpoint.objects.get(run=second, n=1), Checkpoint.objects.filter(run=second).latest("n")
    for verb in ("restore", "fork"):
        found = read_preview(otto, second.pk, beginning.pk, verb=verb)
        assert (found.message_due, found.message, found.repeats) == (True, "two", ("reply",))
    later = read_preview(otto, second.pk, end.pk)
    assert (later.message_due, later.message) == (False, None)


@pytest.mark.parametrize("commits", [0, 1])
def test_a_crash_between_two_commits_loses_neither_history_nor_message(otto, commits) -> None:
    second = follow_up(otto, finished(otto).pk, "two")
    assert drive(second, commits=commits) == "ready"
    assert drive(second) == "completed"
    assert said(second) == ["one", "two"]


def test_deleting_the_earlier_run_takes_nothing_from_the_later_one(otto) -> None:
    first = finished(otto, "x" * 50_000)
    second = follow_up(otto, first.pk, "two")
    delete_run(otto, first.pk)
    assert drive(second) == "completed"
    third = follow_up(otto, second.pk, "three")

    async def prune() -> None:
        async with DatabaseStorage() as storage:
            await storage.prune(third.pk, [])

    asyncio.run(prune())
    assert drive(third) == "completed"
    assert said(third) == ["x" * 50_000, "two", "three"]
    assert read_run(otto, second.pk).follows == first.pk


def test_the_same_key_follows_up_once(otto) -> None:
    first = finished(otto)
    assert follow_up(otto, first.pk, "two", key="k") == follow_up(otto, first.pk, "two", key="k")
    with pytest.raises(KeyReused):
        follow_up(otto, first.pk, "three", key="k")
    assert Run.objects.count() == 2


def test_a_key_whose_run_was_deleted_says_so(otto) -> None:
    first = finished(otto)
    for act in (
        lambda: follow_up(otto, first.pk, "two", key="follow"),
        lambda: fork_run(otto, first.pk, Checkpoint.objects.filter(run=first).earliest("n").pk, key="fork"),
    ):
        made = act()
        assert drive(made) == "completed"
        delete_run(otto, made.pk)
        with pytest.raises(NotFound, match="was deleted"):
            act()


def test_follow_ups_of_one_person_have_a_limit(otto, monkeypatch) -> None:
    monkeypatch.setitem(pacing.MOST_BY_VERB, "follow-up", 1)
    first, other = finished(otto), finished(otto)
    follow_up(otto, first.pk, "two")
    with pytest.raises(TooOften):
        follow_up(otto, other.pk, "two")


def test_only_who_may_start_runs_may_follow_up_and_a_stranger_sees_nothing(otto, person) -> None:
    first = finished(otto)
    with pytest.raises(NotAllowed):
        follow_up(person("vera", "viewer"), first.pk, "two")
    with pytest.raises(NotFound):
        follow_up(person("sam"), first.pk, "two")
    assert not read_run(person("vera"), first.pk).takes_follow_up
    assert read_run(otto, first.pk).takes_follow_up


def test_a_message_that_does_not_fit_is_refused_at_its_field(otto) -> None:
    with pytest.raises(Invalid) as refused:
        follow_up(otto, finished(otto).pk, {"text": "two"})
    assert refused.value.errors[0]["msg"]
    assert Run.objects.count() == 1


def test_a_run_that_has_not_completed_and_a_workflow_that_takes_none_are_refused(otto, served) -> None:
    first = finished(otto)
    waiting = start_run(otto, "chat", {"text": "one"})
    with pytest.raises(WrongState, match="this one is ready"):
        follow_up(otto, waiting.pk, "two")
    plain = Workflow("chat")
    plain.step(start=True, name="begin")(lambda message: message)
    put(served, plain)
    with pytest.raises(WrongState, match="take no follow-up"):
        follow_up(otto, first.pk, "two")
    assert not read_run(otto, first.pk).takes_follow_up


def test_a_follow_up_runs_on_the_current_version_of_the_workflow(otto, served) -> None:
    first = finished(otto)
    changed = chat()
    changed.step(after="reply", name="sign")(lambda said: [*said, "signed"])
    put(served, changed)
    second = follow_up(otto, first.pk, "two")
    assert second.version != Run.objects.get(pk=first.pk).version
    assert drive(second) == "completed"
    assert said(second) == ["one", "two", "signed"]


def test_a_state_that_the_present_workflow_does_not_know_is_refused_by_name(otto, served) -> None:
    first = finished(otto)

    class State(BaseModel):
        lines: list[str] = []

    put(served, chat(state=State))
    with pytest.raises(Exception, match="state has 'said', which its model does not"):
        follow_up(otto, first.pk, "two")
    assert Run.objects.count() == 1


def test_a_thread_is_found_by_its_first_run(otto) -> None:
    first = finished(otto)
    second = follow_up(otto, first.pk, "two")
    other = finished(otto)
    assert [row.id for row in read_runs(otto, f"thread:{first.pk}").items] == [second.pk, first.pk]
    assert [row.id for row in read_runs(otto, f"-thread:{first.pk}").items] == [other.pk]
    (row,) = read_runs(otto, f"id:{second.pk}").items
    assert (row.follows, row.thread, row.title) == (first.pk, first.pk, "Chat: two")


@pytest.mark.nightly
@pytest.mark.postgres
@pytest.mark.skipif("WFDASH_TEST_DATABASE" in os.environ, reason="this is the run on PostgreSQL")
def test_postgresql_does_the_same(postgres_server: dict[str, Any], tmp_path: Path) -> None:
    """All tests of follow-ups in a process whose database is PostgreSQL."""
    server, tests = postgres_server, Path(__file__).parents[2]
    url = f"postgresql://{server['USER']}:{server['PASSWORD']}@/{server['NAME']}?host={server['HOST']}"
    files = [str(tests / room / "test_follow_ups.py") for room in ("actions/runs", "api/runs", "worker")]
    options = ["-q", "-n0", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'nested'}"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    environment = {**os.environ, "WFDASH_TEST_DATABASE": url}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-20_000:]
