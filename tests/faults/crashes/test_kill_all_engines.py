"""A server is killed with twenty runs of all engines and agents open: twenty of twenty continue."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.server import Server, serving, shell, wait_until

pytestmark = [pytest.mark.process, pytest.mark.frameworks]
FOLDER = Path(__file__).with_name("engines")
AGENTS = ("pydantic_ai", "agents")
"""The packages of agents: their model asks for a tool that needs approval, and is asked again with its result."""
LIBRARIES = ("langgraph", "agent_framework", *AGENTS)
INSTALLED = ["native", *(name for name in LIBRARIES if find_spec(name) is not None)]
"""What there is a file for and is installed: the pass with the frameworks has all of them."""
ONCE = "pydantic_ai"
"""Whose tool must not run twice: whether it did is asked."""
RUNS = 20

BEFORE = """
import json
from django.contrib.auth.models import User
from checkpoints.models import Claim, HumanRequest, Run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.queries.runs.values import read_run_values
from wfdash.access.viewer import viewer_for
admin = viewer_for(User.objects.get(username='admin'))
"""
START = """
for engine, folder in {runs!r}:
    message = {{"folder": folder}} if engine == "langgraph" else folder
    print(start_run(admin, engine + "_steps", message).pk)
"""
ANSWER = """
answers = {{"tool_call": {{"action": "approve"}}, "effect": {{"action": "happened", "result": {{"value": "worked"}}}}}}
for run in {runs!r}:
    asked = HumanRequest.objects.get(run=run, closed=None)
    answer_request(admin, asked.pk, answers.get(asked.kind, True))
"""
READ = """
found = [{"id": run.pk, "phase": run.phase, "open": run.requests.filter(answered=None, closed=None).count(),
    "asked": run.requests.count(), "recovered": run.events.filter(kind="run.recovered").count(),
    "seqs": list(run.events.order_by("seq").values_list("seq", flat=True)),
    "ns": list(run.checkpoints.order_by("n").values_list("n", flat=True)),
    "talk": [one["role"] for one in read_run_values(admin, run.pk, "transcript").value or ()],
    "error": run.error} for run in Run.objects.all()]
print(json.dumps({"runs": found, "claims": Claim.objects.count()}, default=str))
"""


@pytest.fixture
def server(tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve the workflow of each engine that is installed."""
    root = Path(__file__).parents[3]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")])))
    files = [FOLDER / f"{engine}_steps.py" for engine in INSTALLED]
    with serving(Server(tmp_path / "data", files=files, template=sqlite_template)) as server:
        yield server


def read(server: Server) -> dict[str, dict[str, Any]]:
    """Return all runs by their ids."""
    found = json.loads(shell(server, BEFORE + READ).splitlines()[-1])
    return {run["id"]: run for run in found["runs"]}


def steps_of(folder: Path) -> list[str]:
    """Return the steps of a run that have begun."""
    log = folder / "log.txt"
    return log.read_text().split() if log.exists() else []


def test_twenty_runs_of_all_engines_continue_after_the_server_was_killed(server: Server, tmp_path: Path) -> None:
    folders = [tmp_path / f"run{number}" for number in range(RUNS)]
    for folder in folders:
        folder.mkdir()
    given = [(INSTALLED[number % len(INSTALLED)], str(folder)) for number, folder in enumerate(folders)]
    ids = shell(server, BEFORE + START.format(runs=given)).split()[-RUNS:]
    place = dict(zip(ids, folders, strict=True))
    engine = {run: name for run, (name, _) in zip(ids, given, strict=True)}
    wait_until(lambda: all(run["open"] for run in read(server).values()), what="a question of each run")

    working, waiting = ids[: RUNS // 2], ids[RUNS // 2 :]
    shell(server, BEFORE + ANSWER.format(runs=working))
    wait_until(lambda: all(steps_of(place[run]) == ["first", "work"] for run in working), what="ten runs at work")
    server.kill()
    server.start()
    again, unknown = ([run for run in working if (engine[run] == ONCE) is once] for once in (False, True))
    wait_until(lambda: all(steps_of(place[run])[2:] == ["work"] for run in again), what="the runs at work again")
    wait_until(
        lambda: all(read(server)[run]["open"] for run in unknown), what="whether a call that must be made once was"
    )
    (tmp_path / "gate").touch()
    shell(server, BEFORE + ANSWER.format(runs=[*unknown, *waiting]))

    def ended() -> dict[str, dict[str, Any]]:
        runs = read(server)
        return runs if all(run["phase"] in {"completed", "failed"} for run in runs.values()) else {}

    runs = wait_until(ended, what="the end of all runs")
    assert [(runs[run]["phase"], runs[run]["error"]) for run in ids] == [("completed", None)] * RUNS
    assert {runs[run]["asked"] for run in ids if run not in unknown} == {1}
    assert {runs[run]["asked"] for run in unknown} <= {2}
    assert {runs[run]["recovered"] for run in working} == {1}
    assert {tuple(steps_of(place[run])) for run in again} == {("first", "work", "work", "last")}
    assert {tuple(steps_of(place[run])) for run in [*unknown, *waiting]} == {("first", "work", "last")}
    for run in (run for run in ids if engine[run] in AGENTS):
        assert [role for role in runs[run]["talk"] if role != "system"] == ["user", "assistant", "tool", "assistant"]
    for run in runs.values():
        assert run["seqs"] == list(range(1, len(run["seqs"]) + 1))
        assert run["ns"] == list(range(1, len(run["ns"]) + 1))
