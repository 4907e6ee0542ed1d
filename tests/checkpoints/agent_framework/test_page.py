"""The program of the page about Agent Framework's checkpoints is run as readers would: twice, in two processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("agent_framework")

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
