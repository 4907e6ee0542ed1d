"""What docs/testing.md shows and what ``wfdash new`` writes are tests that pass, in a plain pytest process.

That has no Django settings and nothing but the plugin.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wfdash import cli
from wfdash.cli.new import FILES

ROOT = Path(__file__).parents[2]


@pytest.mark.process
def test_the_guide_to_testing_and_the_tests_of_a_new_project_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["new", "refunds"]) == 0
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/testing.md").read_text(), flags=re.DOTALL)
    (tmp_path / "refunds/tests/test_guide.py").write_text("\n".join(blocks))
    done = run_pytest(tmp_path / "refunds")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    written = {path.name for path in (tmp_path / "refunds").iterdir() if path.name != "__pycache__"}
    assert written == {"tests", *(path for path in FILES if "/" not in path)}


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as in another project: without this one's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=kept, capture_output=True, text=True, timeout=240, check=False
    )
