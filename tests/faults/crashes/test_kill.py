"""A real server process dies in mid-step; the next one goes on from the last checkpoint by itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.server import Server, serving, shell, wait_until

pytestmark = pytest.mark.process
SERVED = Path(__file__).with_name("served.py")
AGAIN_SECONDS = 5.0
"""From starting the process again to the step's first line: the benchmark's bar is lower, a busy machine slower."""

START = """
from django.contrib.auth.models import User
from wfdash.actions.runs.lifecycle import start_run
from wfdash.access.viewer import viewer_for
print(start_run(viewer_for(User.objects.get(username='admin')), {workflow!r}, {message!r}).id)
"""

READ = """
import json
from checkpoints.models import Claim, Run
run = Run.objects.get(pk={run!r})
print(json.dumps({{
    "phase": run.phase, "output": run.output, "epoch": run.epoch, "claims": Claim.objects.filter(run=run).count(),
    "kinds": list(run.events.order_by("seq").values_list("kind", flat=True)),
    "seqs": list(run.events.order_by("seq").values_list("seq", flat=True)),
    "ns": list(run.checkpoints.order_by("n").values_list("n", flat=True)),
    "asked": list(run.requests.filter(closed=None).values_list("step", flat=True)),
}}))
"""


@pytest.fixture
def server(tmp_path: Path, sqlite_template: Path) -> Iterator[Server]:
    with serving(Server(tmp_path / "data", files=[SERVED], template=sqlite_template)) as server:
        yield server


class Journey:
    """One run of a served workflow, seen from outside: its log, its gate, its rows."""

    def __init__(self, server: Server, workflow: str) -> None:
        self.log = server.data.with_name("log.txt")
        self.gate = server.data.with_name("gate")
        message = {"log": str(self.log), "gate": str(self.gate)}
        self.id = shell(server, START.format(workflow=workflow, message=message)).splitlines()[-1]
        self._server = server

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def wait_for_lines(self, count: int, *, seconds: float = 60.0) -> list[str]:
        return wait_until(
            lambda: lines if len(lines := self.lines()) >= count else [], seconds=seconds, what=f"line {count}"
        )

    def facts(self) -> dict[str, Any]:
        return dict(json.loads(shell(self._server, READ.format(run=self.id)).splitlines()[-1]))

    def wait_for_phase(self, *phases: str) -> dict[str, Any]:
        return wait_until(lambda: facts if (facts := self.facts())["phase"] in phases else {}, what=str(phases))


def check_history(facts: dict[str, Any]) -> None:
    """No hole and no double in what was committed."""
    assert facts["seqs"] == list(range(1, len(facts["seqs"]) + 1))
    assert facts["ns"] == list(range(1, len(facts["ns"]) + 1))


@pytest.mark.alone
def test_a_run_goes_on_from_its_last_checkpoint_after_the_server_was_killed(server: Server) -> None:
    run = Journey(server, "killed")
    run.wait_for_lines(2)
    server.kill()
    began = time.monotonic()
    server.start()
    lines = run.wait_for_lines(3)
    took = time.monotonic() - began
    assert lines == ["first", *["second with state from the first step"] * 2]
    assert took < AGAIN_SECONDS
    run.gate.touch()
    facts = run.wait_for_phase("completed", "failed")
    assert (facts["phase"], facts["output"], facts["claims"]) == ("completed", "done", 0)
    assert facts["kinds"].count("run.recovered") == 1
    assert run.lines()[-1] == "third"
    check_history(facts)


def test_a_stopped_server_lets_go_of_its_runs_and_the_next_one_takes_them_up(server: Server) -> None:
    run = Journey(server, "killed")
    run.wait_for_lines(2)
    assert server.stop() == 0
    facts = run.facts()
    assert (facts["phase"], facts["claims"]) == ("ready", 0)
    server.start()
    run.wait_for_lines(3)
    run.gate.touch()
    assert run.wait_for_phase("completed", "failed")["phase"] == "completed"
