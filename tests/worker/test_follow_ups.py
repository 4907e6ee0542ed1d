"""Runs that follow a finished one: what their engine is handed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkpoints.database.runs import insert_row
from checkpoints.models import Checkpoint, Run
from checkpoints.records import Phase, Reason
from tests.driving import drive
from tests.worker.script import Script, ScriptEngine, checkpoint_after, moved
from wfdash.actions.runs.lifecycle import retry_run, start_run
from wfdash.contract import Continue, Finished, Resume, RunInput, Start
from wfdash.engines import catalog
from wfdash.engines.catalog import Entry
from wfdash.queries.timemachine import with_message_due

pytestmark = pytest.mark.django_db(transaction=True)


class ContinuingEngine(ScriptEngine):
    def check_follow_up(self, definition: Script, checkpoint: Checkpoint, message: object) -> object:
        return message


def take_follow_ups(entry: Entry) -> None:
    """Serve a script by an engine that continues."""
    catalog.load().entries[entry.name] = replace(entry, engine=ContinuingEngine())


def follow_by_hand(run: Run, viewer) -> Run:
    """Return a run that begins with the last checkpoint of another one, which has its message still to come."""
    later = start_run(viewer, "script", "and now?")
    ended = checkpoint_after(Start(run=later.pk), {"turns": 1})
    facts = with_message_due({"cost": 3})
    insert_row(ended.model_copy(update={"facts": facts, "reason": Reason.END, "parent": "earlier"}), later, seq=1)
    Run.objects.filter(pk=later.pk).update(n=1)
    return later


async def end(given: RunInput, recorder) -> Finished:
    last = checkpoint_after(given.checkpoint if isinstance(given, Continue) else given, {"turns": 2})
    await recorder.commit(moved(last, "run.completed", Phase.COMPLETED, output="done"))
    return Finished(output="done", checkpoint=last)


def test_a_run_that_follows_another_is_handed_its_checkpoint_and_its_message(otto, define) -> None:
    given: list[RunInput] = []

    async def play(input_: RunInput, recorder) -> Finished:
        given.append(input_)
        return await end(input_, recorder)

    take_follow_ups(define(play))
    later = follow_by_hand(start_run(otto, "script", "hello"), otto)
    assert drive(later) == "completed"
    (one,) = given
    assert isinstance(one, Continue)
    assert (one.run, one.message, one.checkpoint.n) == (later.pk, "and now?", 1)
    assert one.checkpoint.body == {"state": {"turns": 1}}


def test_it_is_handed_both_again_until_a_checkpoint_is_written_and_then_resumes(otto, define) -> None:
    given: list[RunInput] = []

    async def play(input_: RunInput, recorder) -> Finished:
        given.append(input_)
        if len(given) == 1:
            raise RuntimeError("before any commit")
        if len(given) == 2:
            await recorder.commit(moved(checkpoint_after(input_.checkpoint, {"turns": 2})))
            raise RuntimeError("after one")
        return await end(input_, recorder)

    take_follow_ups(define(play))
    later = follow_by_hand(start_run(otto, "script", "hello"), otto)
    for phase in ("failed", "failed", "completed"):
        assert drive(later) == phase
        if phase == "failed":
            retry_run(otto, later.pk)
    assert [type(one) for one in given] == [Continue, Continue, Resume]
    assert given[2].checkpoint.facts == {}


def test_an_engine_that_cannot_continue_fails_the_run_with_the_reason(otto, define) -> None:
    define(end)
    later = follow_by_hand(start_run(otto, "script", "hello"), otto)
    assert drive(later) == "failed"
    later.refresh_from_db()
    assert later.error["message"].startswith("The engine 'script' cannot follow up on a finished run")
