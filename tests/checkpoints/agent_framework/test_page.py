"""The program of the page about Agent Framework's checkpoints is run as readers would: twice, in two processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("agent_framework")

from hypothesis import given
from hypothesis import strategies as st

from checkpoints.agent_framework import run_of_workflow, stored_id, workflow_id
from checkpoints.limits import problem_of

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/agent-framework-storage.md").read_text()


@pytest.mark.process
def test_the_question_of_one_process_is_answered_in_another(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python[^\n]*\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "claims.py").write_text(program)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-W", "error", "claims.py", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run(run("80"), "yes") == "paid"


NAMES = st.text(st.sampled_from("ab:%\0\ud8003A "), max_size=6) | st.text(max_size=300)


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
def test_two_things_never_share_a_place(one: tuple[str, str], other: tuple[str, str]) -> None:
    for place in (run_of_workflow, stored_id):
        assert (place(*one) == place(*other)) is (one == other)


@given(NAMES, NAMES)
def test_every_name_has_a_place_that_every_storage_keeps(scope: str, name: str) -> None:
    assert problem_of("run id", run_of_workflow(scope, name)) == ""
    assert problem_of("checkpoint id", stored_id(scope, name)) == ""
    assert problem_of("workflow name", workflow_id(name)) == ""
