"""The repository itself: what the README promises exists, the house style holds, the wheel is whole."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import wfdash
from wfdash.testing import bench

ROOT = Path(__file__).parents[1]
PACKAGES = ("checkpoints", "wfdash")
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
LONGEST_FILE = 700
LONGEST_FUNCTION = 50


def python_files(*folders: str) -> Iterator[Path]:
    """Every Python file with something in it, but for migrations: Django writes those."""
    for folder in folders:
        files = sorted((ROOT / folder).rglob("*.py"))
        yield from (path for path in files if "migrations" not in path.parts and path.stat().st_size)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def targets_of(page: Path) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()) if not re.match(r"[a-z]+:|#", link)]


def test_every_link_and_picture_in_the_readme_and_docs_exists() -> None:
    links = [(page, link) for page in PAGES for link in targets_of(page)]
    assert [f"{name_of(page)}: {link}" for page, link in links if not (page.parent / link.split("#")[0]).exists()] == []


def test_every_path_and_module_that_the_docs_name_exists() -> None:
    names = [(page, name) for page in PAGES for name in re.findall(r"(?<=`)[a-z\d_./-]+(?=[`: ])", page.read_text())]
    paths = [
        (page, name) for page, name in names if re.match(r"(checkpoints|wfdash|tests|templates|static|\.ci)/", name)
    ]
    # Not in the page on monitoring: attributes of spans are called wfdash.status there.
    dotted = [
        (page, name)
        for page, name in names
        if page.stem != "monitoring" and not name.endswith((".sqlite3", ".service"))
    ]
    modules = [(page, name) for page, name in dotted if re.match(r"(checkpoints|wfdash)\.[a-z]\w*", name)]
    assert len(paths) > 50
    assert len(modules) > 10
    missing = [(page, name) for page, name in paths if not (ROOT / name).exists()]
    missing += [(page, name) for page, name in modules if not is_module(name)]
    assert [f"{name_of(page)}: {name}" for page, name in missing] == []


def test_no_page_installs_by_name_what_is_not_published_by_that_name() -> None:
    found = [(page, re.findall(r"pip install (?:-\S+ )*(wfdash)(?=[\s`])", page.read_text())) for page in PAGES]
    assert [name_of(page) for page, said in found if set(said) > {wfdash.ADDRESS} - {""}] == []


def is_module(dotted: str) -> bool:
    """Say whether a dotted name is a module of this project, or a name in one."""
    file = ROOT / dotted.replace(".", "/")
    if file.is_dir() or file.with_suffix(".py").exists():
        return True
    owner, _, name = dotted.rpartition(".")
    module = ROOT / owner.replace(".", "/")
    sources = [path for path in (module.with_suffix(".py"), module / "__init__.py") if path.exists()]
    return any(re.search(rf"\b{name}\b", path.read_text()) for path in sources)


TOP_LEVEL = """
.ci .github .gitignore .pre-commit-config.yaml CHANGELOG.md CODE_OF_CONDUCT.md CONTRIBUTING.md LICENSE Makefile
README.md SECURITY.md checkpoints docs manage.py pyproject.toml static templates tests wfdash
"""


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a source archive has no history")
def test_nothing_else_is_kept_at_the_top() -> None:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert {line.partition("/")[0] for line in done.stdout.splitlines()} == {*TOP_LEVEL.split()}


def test_the_changelog_mentions_this_version() -> None:
    assert f"## {wfdash.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_module_says_what_it_owns() -> None:
    assert [
        name_of(path) for path in python_files(*PACKAGES) if not ast.get_docstring(ast.parse(path.read_text()))
    ] == []


def test_no_file_is_too_long() -> None:
    files = [*python_files(*PACKAGES), *(ROOT / "static").rglob("*.js")]
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in files}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_function_is_too_long() -> None:
    functions = [
        (f"{name_of(path)}:{node.name}", node.end_lineno - node.lineno + 1)
        for path in python_files(*PACKAGES)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    ]
    assert [(name, length) for name, length in functions if length > LONGEST_FUNCTION] == []


def test_the_readme_names_commands_that_work_in_the_checkout() -> None:
    text = (ROOT / "README.md").read_text()
    assert not re.findall(r"(?<!venv/bin/)wfdash (?:check|new|up) ", text), "only that works as typed in the checkout"


async def test_the_readme_s_workflow_runs_and_waits_for_a_person(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(block.splitlines()) <= 20
    (tmp_path / "workflows.py").write_text(block)
    names = runpy.run_path(str(tmp_path / "workflows.py"))
    async with bench(names["refund"], people=["ana"]) as t:
        small = await t.start({"order": "A-6", "amount": 20})
        assert small.output == "paid by rule"
        large = await t.start({"order": "A-7", "amount": 80})
        await t.answer(large, "reject", reason="twice", by="ana")
        assert large.output == "rejected: twice"
        again = await t.start({"order": "A-7", "amount": 80})
        await t.answer(again, "approve", by="ana")
        assert again.output == "paid"


ENDS = """
async def ends() -> None:
    claim = {"employee": "Jana", "amount": "80"}
    assert (await batch.run(message=[claim, claim])).result() == "2 small ones, 160 in all"
    assert (await sorting.run(message=[claim])).result() == ["Jana gets nothing"]
    assert (await payments.run(message=claim)).result() == "receipt for 80"
    waiting = await agent.run(message="O-7")
    finished = await agent.run(checkpoint=waiting.checkpoint, answers=waiting.answer("approve"))
    assert finished.result() == "12.50 for O-7"
    await converse()
    await follow()

asyncio.run(ends())
"""
"""What the workflows come to that the pages do not run themselves."""


def test_every_python_block_of_the_author_s_guide_runs(tmp_path: Path) -> None:
    pages = "".join((ROOT / f"docs/{name}.md").read_text() for name in ("workflows", "library"))
    blocks = re.findall(r"```python\n(.*?)```", pages, flags=re.DOTALL)
    (tmp_path / "guide.py").write_text("\n".join([*blocks, ENDS]))
    done = subprocess.run([sys.executable, "guide.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


LOCKS = ROOT / ".ci/locks"


def locked(name: str) -> dict[str, str]:
    """Return the packages of a lock with their versions."""
    return dict(re.findall(r"^([a-z0-9.-]+)==([^ ;]+)", (LOCKS / name).read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("name", sorted(path.name for path in LOCKS.iterdir()))
def test_a_lock_has_a_hash_for_each_file_and_names_no_index(name: str) -> None:
    text = (LOCKS / name).read_text()
    pinned = re.findall(r"^[a-z0-9.-]+==[^\n]*\\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", text, re.MULTILINE)
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert len("".join(pinned).splitlines()) + len(comments) == len(text.splitlines())
    assert not re.search(r"://|--(extra-)?index|--find-links", text)


FRAMEWORKS = ("pydantic-ai", "openai-agents", "adk", "langgraph", "agent-framework", "dev-frameworks")
"""Extras that no image has: libraries of agents come with the workflows that use them."""
DEVELOPED = ("dev", "docs", "bench")


def test_the_locks_hold_what_the_project_asks_for_in_a_version_it_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    without = {
        "requirements.lock": {*DEVELOPED, *FRAMEWORKS},
        "requirements-dev.lock": {"bench", *FRAMEWORKS},
        "requirements-frameworks.lock": {"bench"},
    }
    for lock, left_out in without.items():
        asked = [*project["dependencies"], *(line for name in extras.keys() - left_out for line in extras[name])]
        found = locked(lock)
        wanted = [Requirement(line) for line in asked if not line.startswith("wfdash[")]
        wrong = [str(one) for one in wanted if not one.specifier.contains(found.get(one.name.lower(), "0"))]
        assert wrong == [], f"run make lock: {lock}"


def test_a_framework_is_in_one_lock_only() -> None:
    named = {Requirement(line).name for line in frameworks_asked_for()}
    assert {"langgraph", "agent-framework-core", "pydantic-ai-slim", "openai-agents", "google-adk"} <= named
    assert [name for name in named if {*locked("requirements.lock"), *locked("requirements-dev.lock")} & {name}] == []


def frameworks_asked_for() -> list[str]:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return [line for name in FRAMEWORKS for line in extras[name] if not line.startswith("wfdash[")]


SAYS = {
    "nothing": "",
    "skipped": '{"dependencies": [{"name": "django", "skip_reason": "not found"}]}',
    "clean": '{"dependencies": [{"name": "django", "version": "5.2.19", "vulns": []}]}',
    "hole": '{"dependencies": [{"name": "django", "version": "5.2.7", "vulns": [{"id": "CVE-2025-64459"}]}]}',
}


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ("nothing", 2, "NOT CHECKED, advisory data cannot be had: no route"),
        ("skipped", 2, "NOT CHECKED, no advisory data for 1 of 1: django"),
        ("clean", 0, "1 packages, no known vulnerability"),
        ("hole", 1, "VULNERABLE django 5.2.7: CVE-2025-64459"),
    ],
)
def test_the_audit_of_dependencies_never_takes_missing_data_for_good_news(
    said: str, status: int, words: str, tmp_path: Path
) -> None:
    stub = tmp_path / "pip-audit"
    stub.write_text(f"#!/bin/sh\necho '{SAYS[said]}'\necho 'no route' >&2\n")
    stub.chmod(0o755)
    env = os.environ | {"PIP_AUDIT": str(stub)}
    done = subprocess.run([sys.executable, ROOT / ".ci/audit"], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == status, done.stderr
    assert words in done.stdout


SIZE = Path(__file__).resolve().parents[1] / ".ci/size.py"
FIGURES = {"tokens": 12, "modules": 4, "single": 1, "once": 1, "test_lines": 2, "rooms": 3, "floors": 3, "arrows": 3}
FIGURES |= {"doc_words": 2, "readme_words": 1, "readme_lines": 1}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A house of three rooms and an address."""
    files = {
        "checkpoints/ids/new.py": '"""Ids."""\nimport os\n\n\ndef _make():  # once\n    return 1\n\n\nnew = _make()\n',
        "wfdash/runs.py": "from checkpoints.ids import new\n",
        "wfdash/web/pages/run.py": "from checkpoints.ids import new\nfrom wfdash import runs\n",
        "wfdash/__main__.py": "",
        "tests/test_runs.py": "\n\n",
        "README.md": "House\n",
        "docs/runs.md": "# Runs\n",
        "docs/internals/house.md": "# House\n",
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
