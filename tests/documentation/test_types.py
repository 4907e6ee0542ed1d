"""The Python of README, docs and new projects satisfies ``mypy --strict`` as users run it: without plugins."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from wfdash.cli.new import written

ROOT = Path(__file__).parents[2]
WHOLE = ("workflows", "projects", "testing", "policies", "webhooks", "agents", "datasets", "second-looks")
"""Pages whose blocks are one program each."""
PARTS = {
    **dict.fromkeys(("ask-from-anywhere", "client"), ""),
    "cards": "from wfdash.workflow.evidence import Message, ToolUse, Transcript\n",
    "library": "from page_workflows import agent, batch, claims, parcels, payments, sorting\n",
    "schedules": """
from wfdash.access.viewer import Viewer
viewer: Viewer
""",
    "storage-contract": "",
    "storage": """
from checkpoints.file import FileStorage
from checkpoints.ids import RequestKey, RunId
from checkpoints.records import Json, Phase
from wfdash.workflow import Workflow
workflow: Workflow
storage: FileStorage
claim: Json
answer: Json
run: RunId
key: RequestKey
""",
    "versions": """
from pydantic import BaseModel
from checkpoints.records import Checkpoint
from wfdash.workflow import Context, Workflow
class Claim(BaseModel): amount: int
class Verdict(BaseModel): paid: bool
expense = Workflow("expense")
handed_over_checkpoint: Checkpoint
@expense.step(start=True)
async def assess(claim: Claim) -> Claim: return claim
""",
}
"""Pages whose blocks are parts, each with what stands around it in a reader's code."""
OTHERS = ("airflow",)
"""Systems that the pages show code of, without being installed."""
BENEATH = (
    *("genai_prices", "griffe", "logfire_api", "mcp", "mcp_types", "openai", "opentelemetry", "starlette", "uvicorn"),
    *("cryptography", "dns", "flask", "httpcore2", "httpx2", "jinja2", "psycopg", "psycopg_pool", "rich", "werkzeug"),
)
"""What only frameworks and other libraries import, of thousands of modules: no page shows a type of it."""
CACHE = ROOT / ".mypy_cache" / "guides"


def blocks_of(page: Path) -> list[str]:
    return re.findall(r"```python[^\n]*\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.process
def test_what_the_documentation_shows_is_typed(tmp_path: Path) -> None:
    # What is shown with a framework has types only where that is installed.
    pytest.importorskip("pydantic_ai")
    (first,) = blocks_of(ROOT / "README.md")
    (tmp_path / "workflows.py").write_text(first)
    for name in WHOLE:
        (tmp_path / f"page_{name}.py").write_text("\n".join(blocks_of(ROOT / "docs" / f"{name}.md")))
    engine, served, tested = blocks_of(ROOT / "docs/internals/engines.md")
    (tmp_path / "checklist_engine.py").write_text(engine)
    (tmp_path / "page_engines.py").write_text(served)
    (tmp_path / "page_engines_tested.py").write_text(tested)
    (tmp_path / "dict_storage.py").write_text(blocks_of(ROOT / "docs/internals/storage-contract.md")[0])
    for name, around in PARTS.items():
        for number, block in enumerate(blocks_of(next((ROOT / "docs").rglob(f"{name}.md")))):
            (tmp_path / f"part_{name.replace('-', '_')}_{number}.py").write_text(around + callable_part(block))
    for recipe in (ROOT / "docs" / "cookbook").glob("*.py"):
        shutil.copy(recipe, tmp_path)
    project = written("refunds")
    (tmp_path / "new_project.py").write_text(project["workflows.py"])
    tests = project["tests/test_workflows.py"].replace("from workflows import", "from new_project import")
    (tmp_path / "new_tests.py").write_text(tests)
    done = checked(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def callable_part(block: str) -> str:
    """Return a block, inside a coroutine if it awaits outside of one, as a console may."""
    try:
        compile(block, "block", "exec")
    except SyntaxError:
        return "async def part() -> None:\n" + textwrap.indent(block, "    ")
    return block


def checked(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run mypy once over everything in a folder; what it found out about wfdash is kept for the next time."""
    lines = ["[mypy]", "strict = true", f"mypy_path = {ROOT}", "follow_imports = silent"]
    # Decorators of systems that are not there have no type.
    lines += [f"[mypy-{name}.*]\nignore_missing_imports = true" for name in OTHERS]
    skipped = "follow_imports = skip\nfollow_imports_for_stubs = true"
    lines += [f"[mypy-{name},{name}.*]\n{skipped}" for name in BENEATH]
    asking = ",".join(
        f"mypy-{path.stem}".removeprefix("mypy-" * bool(n)) for n, path in enumerate(folder.glob("part_ask*"))
    )
    lines += [f"[{asking}]", "disallow_untyped_decorators = false", "warn_return_any = false"]
    (folder / "mypy.ini").write_text("\n".join(lines))
    files = [path.name for path in sorted(folder.glob("*.py"))]
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(CACHE), *files]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
