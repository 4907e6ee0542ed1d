"""The project of the page about the checkpointer is run as readers would: its programs in several processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

pytest.importorskip("langgraph")

from langgraph.checkpoint.conformance import checkpointer_test, validate

from checkpoints.langgraph import DjangoSaver

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/langgraph-saver.md").read_text()


@pytest.mark.process
def test_the_question_of_one_process_is_answered_in_another(tmp_path: Path) -> None:
    for name, program in re.findall(r'```python title="(\w+\.py)"\n(.*?)```', PAGE, re.DOTALL):
        (tmp_path / name).write_text(program)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
    env = {**kept, "PYTHONPATH": f"{ROOT}:.", "DJANGO_SETTINGS_MODULE": "settings"}

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", *command],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    run("-m", "django", "migrate", "-v0")
    assert run("claims.py", "claim-7", "80") == "Pay 80 euros?"
    assert run("claims.py", "claim-7", "paid") == "paid"


async def test_the_saver_passes_all_checks_of_all_capabilities(alias: str) -> None:
    @checkpointer_test(name=f"DjangoSaver on {alias}")
    async def made() -> AsyncGenerator[DjangoSaver, None]:
        async with DjangoSaver(using=alias) as saver:
            yield saver

    report = await validate(made)
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert [name for name, result in report.results.items() if not result.detected] == []
    assert len(report.results) == 8
    assert sum(result.tests_passed for result in report.results.values()) == 81
