"""The shape of the house: which way imports point, and what works without Django."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PURE = [
    "checkpoints.ids",
    "checkpoints.errors",
    "checkpoints.records",
    "checkpoints.storage",
    "checkpoints.canonical",
    "checkpoints.chunks",
    "checkpoints.rules",
    "checkpoints.manager",
    "checkpoints.memory",
    "checkpoints.file",
    "checkpoints.conformance",
    "checkpoints.recorder",
    "wfdash.contract",
    "wfdash.workflow",
]

BLOCKED = """
import importlib, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("django", "channels", "psycopg"):
            raise ImportError(f"{name} is blocked here")
sys.meta_path.insert(0, Blocked())
importlib.import_module(sys.argv[1])
assert "django" not in sys.modules
"""


@pytest.mark.process
@pytest.mark.parametrize("module", PURE)
def test_the_pure_half_works_where_django_cannot_be_imported(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, module], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_imports_point_down() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def test_every_file_is_short_enough_to_read() -> None:
    files = [*ROOT.glob("checkpoints/*.py"), *ROOT.glob("wfdash/**/*.py")]
    long = {str(f.relative_to(ROOT)): n for f in files if (n := len(f.read_text().splitlines())) > 350}
    assert long == {}
