"""What several tests of the engine need."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from checkpoints.ids import RunId, WorkflowId, new_checkpoint_id
from checkpoints.recorder import utc_now
from checkpoints.records import Checkpoint


@pytest.fixture
def checkpoint_of_no_engine() -> Checkpoint:
    return Checkpoint(
        id=new_checkpoint_id(),
        run=RunId("run"),
        workflow=WorkflowId("other"),
        n=1,
        version="1",
        created=utc_now(),
        body={"state": {}, "position": {"live": {}}},
    )


@pytest.fixture
def run_python() -> Callable[[str], str]:
    """Return a function that runs code in a fresh interpreter and returns what it prints."""

    def run(code: str) -> str:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    return run
