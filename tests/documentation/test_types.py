"""The Python of README, docs and new projects satisfies ``mypy --strict`` as users run it: without plugins."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wfdash.cli.new import written

ROOT = Path(__file__).parents[2]
WHOLE = ("workflows", "testing", "policies", "engines", "webhooks")
"""Pages whose blocks are one program each; other pages show parts."""
CACHE = ROOT / ".mypy_cache" / "guides"


def blocks_of(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.process
def test_what_the_documentation_shows_is_typed(tmp_path: Path) -> None:
    first, *rest = blocks_of(ROOT / "README.md")
    (tmp_path / "workflows.py").write_text(first)
    (tmp_path / "use.py").write_text("\n".join(rest))
    for name in WHOLE:
        (tmp_path / f"page_{name}.py").write_text("\n".join(blocks_of(ROOT / "docs" / f"{name}.md")))
    for recipe in (ROOT / "docs" / "cookbook").glob("*.py"):
        shutil.copy(recipe, tmp_path)
    project = written("refunds")
    (tmp_path / "new_project.py").write_text(project["workflows.py"])
    tests = project["tests/test_workflows.py"].replace("from workflows import", "from new_project import")
    (tmp_path / "new_tests.py").write_text(tests)
    done = checked(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def checked(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run mypy once over everything in a folder; what it found out about wfdash is kept for the next time."""
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT}\nfollow_imports = silent\n")
    files = [path.name for path in sorted(folder.glob("*.py"))]
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(CACHE), *files]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
