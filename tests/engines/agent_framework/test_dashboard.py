"""Workflows of Agent Framework in the dashboard: follow-ups, forks, changed code, and what the catalogue says."""

from __future__ import annotations

import base64
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agent_framework")

from checkpoints.content.canonical_json import dumps
from checkpoints.content.chunks import with_digest
from checkpoints.database.runs import read_row
from checkpoints.models import Checkpoint, Event, Run
from tests.driving import drive, pending
from tests.people import viewer
from wfdash.actions.checkpoints import fork_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import follow_up, retry_run, start_run
from wfdash.actions.runs.migrate import override_run
from wfdash.engines import catalog
from wfdash.engines.agent_framework.encoding import PICKLED, signing
from wfdash.queries import timemachine

pytestmark = pytest.mark.django_db(transaction=True)
Serve = Callable[[str], None]
ASKING = """
from agent_framework import Executor, WorkflowBuilder, WorkflowContext, executor, handler, response_handler


class Ask(Executor):
    @handler
    async def begin(self, text: str, ctx: WorkflowContext) -> None:
        await ctx.request_info(f"What of {text}?", str)

    @response_handler
    async def answered(self, asked: str, word: str, ctx: WorkflowContext[str, str]) -> None:
        await ctx.send_message(word)


@executor(id="end")
async def end(word: str, ctx: WorkflowContext[str, str]) -> None:
    await ctx.yield_output(word.upper())


ask = Ask(id="ask")
asking = WorkflowBuilder(start_executor=ask, name="asking").add_edge(ask, end)MORE.build()
"""
MORE = """
@executor(id="after")
async def after(word: str, ctx: WorkflowContext) -> None:
    pass


ask = Ask"""
CHAT = """
from tests.engines.agent_framework.samples import chat

talk = chat()
"""
LOCKED = """
import threading
from tests.engines.agent_framework.samples import Reviewer, review_workflow
from agent_framework import WorkflowBuilder

asker = Reviewer()
asker.lock = threading.Lock()
locked = WorkflowBuilder(start_executor=asker).build()
fine = review_workflow()
"""


def answered(run: Run, word: str) -> str:
    (request,) = pending(run).values()
    answer_request(viewer("ana"), request.pk, word)
    return drive(run)


def test_a_finished_conversation_is_continued_by_a_run_that_remembers(serve: Serve):
    serve(CHAT)
    first = start_run(viewer("otto"), "chat", "hello")
    assert drive(first) == "completed"
    second = follow_up(viewer("otto"), first.pk, "are you there?")
    assert drive(second) == "completed"
    assert Run.objects.get(pk=second.pk).output == "heard 2: are you there?"


def test_a_fork_asks_the_question_again_and_takes_another_answer(serve: Serve):
    serve(ASKING.replace("MORE", ""))
    run = start_run(viewer("otto"), "asking", "paper")
    assert drive(run) == "waiting"
    paused = Checkpoint.objects.filter(run=run).latest("n")
    assert answered(run, "white") == "completed"
    fork = fork_run(viewer("otto"), run.pk, paused.pk)
    assert drive(fork) == "waiting"
    assert answered(fork, "black") == "completed"
    assert [Run.objects.get(pk=one.pk).output for one in (run, fork)] == ["WHITE", "BLACK"]


class MakesAFolder:
    """Pickled as a program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def test_who_writes_a_row_of_the_database_runs_no_code_in_a_worker(serve: Serve, tmp_path: Path, monkeypatch):
    serve(ASKING.replace("MORE", ""))
    run = start_run(viewer("otto"), "asking", "paper")
    assert drive(run) == "waiting"
    paused = Checkpoint.objects.filter(run=run).latest("n")
    kept = read_row(paused)
    requests = [one.model_dump(mode="json") for one in kept.requests]
    text = base64.b64encode(pickle.dumps(MakesAFolder(tmp_path / "made"))).decode()
    body = {**kept.body, "framework": {**kept.body["framework"], "state:more": {PICKLED: text}}}
    Checkpoint.objects.filter(pk=paused.pk).update(body=with_digest(dumps({"body": body, "requests": requests})))
    assert answered(run, "white") == "failed"
    assert "is not signed" in Run.objects.get(pk=run.pk).error["message"]
    monkeypatch.setattr(signing, "unsigned", True)
    retry_run(viewer("otto"), run.pk)
    assert drive(run) == "failed"
    assert "mkdir is no class" in Run.objects.get(pk=run.pk).error["message"]
    assert not (tmp_path / "made").exists()


def test_a_run_of_a_changed_graph_is_held_until_an_operator_continues_it(serve: Serve):
    serve(ASKING.replace("MORE", ""))
    run = start_run(viewer("otto"), "asking", "paper")
    assert drive(run) == "waiting"
    (request,) = pending(run).values()
    serve(ASKING.replace("ask = Ask", MORE).replace("MORE", ".add_edge(end, after)"))
    answer_request(viewer("ana"), request.pk, "white")
    assert drive(run) == "paused"
    assert timemachine.is_held(Run.objects.get(pk=run.pk))
    assert Event.objects.get(run=run, kind="run.held").data["words"] == ["added: after"]
    override_run(viewer("otto"), run.pk)
    assert drive(run) == "completed"
    assert Run.objects.get(pk=run.pk).output == "WHITE"


def test_a_workflow_that_cannot_be_copied_is_a_line_of_the_catalogue_and_harms_no_other(serve: Serve):
    serve(LOCKED)
    assert [entry.name for entry in catalog.entries()] == ["review"]
    (failure,) = catalog.failures()
    assert "locked cannot be copied for each run" in failure.error
    assert "locked = serve(build_locked)" in failure.error
