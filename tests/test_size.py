"""What a reader pays for is counted, and none of the figures may rise. ``make check`` counts the whole house."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SIZE = Path(__file__).resolve().parents[1] / ".ci/size.py"
FIGURES = {"tokens": 12, "modules": 4, "single": 1, "once": 1, "test_lines": 2, "rooms": 3, "floors": 3, "arrows": 3}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A house of three rooms and an address."""
    files = {
        "checkpoints/ids/new.py": '"""Ids."""\nimport os\n\n\ndef _make():  # once\n    return 1\n\n\nnew = _make()\n',
        "wfdash/runs.py": "from checkpoints.ids import new\n",
        "wfdash/pages/run.py": "from checkpoints.ids import new\nfrom wfdash import runs\n",
        "wfdash/__main__.py": "",
        "tests/test_runs.py": "\n\n",
        ".ci/size.toml": "".join(f"{name} = {figure}\n" for name, figure in FIGURES.items()),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def count(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the tool as ``make check`` does."""
    return subprocess.run([sys.executable, str(SIZE), *options], capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("house")
def test_comments_imports_and_docstrings_cost_nothing() -> None:
    assert runpy.run_path(str(SIZE))["measure"]() == FIGURES
    assert count().returncode == 0


def test_a_figure_that_rises_is_a_failure_that_names_it(house: Path) -> None:
    (house / "wfdash/runs.py").write_text("from checkpoints.ids import new\nlast = new\n")
    done = count()
    assert (done.returncode, "size.toml: tokens." in done.stderr) == (1, True)


def test_a_limit_is_lowered_to_what_was_reached_and_never_raised(house: Path) -> None:
    (house / "tests/test_runs.py").write_text("\n")
    (house / "wfdash/runs.py").write_text("from checkpoints.ids import new\nlast = new\n")
    assert count("--lower").returncode == 0
    assert (house / ".ci/size.toml").read_text().splitlines()[:5:4] == ["tokens = 12", "test_lines = 1"]
