"""The tests that docs/testing.md shows, in a plain pytest process: no Django settings, nothing but the plugin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLAIN = '[tool.pytest.ini_options]\nasyncio_mode = "auto"\nasyncio_default_fixture_loop_scope = "function"\n'


@pytest.mark.process
def test_every_python_block_of_the_guide_to_testing_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/testing.md").read_text(), flags=re.DOTALL)
    (tmp_path / "test_guide.py").write_text("\n".join(blocks))
    (tmp_path / "pyproject.toml").write_text(PLAIN)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as in another project: without this one's settings, and with the plugin, installed or not."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "wfdash.testing.plugin"]
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=kept, capture_output=True, text=True, timeout=240, check=False
    )
