"""A framework that is missing or of another version: what to install is said where people look; nothing else fails."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from wfdash.agents.run import run_agent
from wfdash.cli import main
from wfdash.engines import catalog
from wfdash.installation import workflow_sources
from wfdash.installation.workflow_sources import FRAMEWORKS, check_framework, problem_with, remedy_for
from wfdash.web.pages.site.embedding import check_workflows
from wfdash.workflow.errors import InvalidCall

pytestmark = pytest.mark.frameworks


def version_of(packages: dict[str, str]) -> Any:
    def version(package: str) -> str:
        if package not in packages:
            raise PackageNotFoundError(package)
        return packages[package]

    return version


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Give the packages that are installed, none at first; frameworks cannot be imported."""
    packages: dict[str, str] = {}
    monkeypatch.setattr(workflow_sources, "version", version_of(packages))
    begins = tuple(f"{framework}." for framework in FRAMEWORKS)
    for name in [*(name for name in sys.modules if name.startswith(begins)), *FRAMEWORKS]:
        monkeypatch.setitem(sys.modules, name, None)
    return packages


@pytest.fixture
def serve(settings: Any, tmp_path: Path) -> Any:
    def write(line: str) -> Path:
        path = tmp_path / "flows.py"
        path.write_text(f"{line}\n")
        settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS = [], [str(path), "wfdash.examples.expense_batch"]
        return path

    catalog.load.cache_clear()
    yield write
    catalog.load.cache_clear()


IMPORTS = [
    ("from langgraph.graph import StateGraph", "langgraph"),
    ("from agent_framework import WorkflowBuilder", "agent-framework"),
    ("from pydantic_ai import Agent", "pydantic-ai"),
    ("import agents", "openai-agents"),
    ("from google.adk.agents import Agent", "adk"),
]


@pytest.mark.parametrize(("line", "extra"), IMPORTS)
def test_a_file_whose_framework_is_not_installed_says_what_to_install(
    installed: Any, serve: Any, line: str, extra: str, capsys: Any
) -> None:
    path = serve(line)
    (failure,) = catalog.failures()
    assert failure.error.startswith("ModuleNotFoundError: ")
    assert failure.error.endswith(f' is not installed: pip install "wfdash[{extra}]"')
    assert failure.where == f"{path}:1"
    assert "expense_batch" in catalog.load().entries
    (warning,) = check_workflows()
    assert f'pip install "wfdash[{extra}]"' in warning.msg
    assert warning.hint == f"{path}:1."


def test_the_check_of_the_command_line_says_it_too(
    installed: Any, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    (tmp_path / "flows.py").write_text("import langgraph.graph\n")
    monkeypatch.chdir(tmp_path)
    assert main(["check", "flows.py"]) == 1
    said = capsys.readouterr().out
    assert said.splitlines()[0].startswith("flows.py:1: ModuleNotFoundError: ")
    assert 'langgraph is not installed: pip install "wfdash[langgraph]"' in said


def test_a_version_that_lacks_what_a_file_imports_is_named(installed: dict[str, str], serve: Any) -> None:
    installed |= {"langgraph": "1.1.9", "langgraph-checkpoint": "4.3.2"}
    serve("raise ImportError(\"cannot import name 'x' from 'langgraph.types'\", name='langgraph.types')")
    (failure,) = catalog.failures()
    assert failure.error.endswith(
        'langgraph 1.1.9 is installed, and 1.2.12 or newer, below 2, is needed: pip install "wfdash[langgraph]"'
    )


@pytest.mark.parametrize("error", [ValueError("x"), ImportError("x"), ModuleNotFoundError("x", name="pandas.core")])
def test_another_error_has_no_such_remedy(installed: Any, error: Exception) -> None:
    assert remedy_for(error) == ""


def test_a_part_that_is_missing_in_a_framework_that_is_there_is_no_reason_to_install_it_again(
    installed: dict[str, str],
) -> None:
    installed |= {"langgraph": "1.2.22", "langgraph-checkpoint": "4.3.2"}
    assert remedy_for(ModuleNotFoundError("No module named ...", name="langgraph.checkpoint.mongodb")) == ""


@pytest.mark.parametrize(
    ("found", "usable"),
    [("1.2.12", True), ("1.2.12rc1", True), ("1.10", True), ("1.2.11", False), ("2.0.0a1", False), ("nonsense", False)],
)
def test_a_version_is_compared_by_its_numbers(installed: dict[str, str], found: str, usable: bool) -> None:
    installed |= {"langgraph": found, "langgraph-checkpoint": "4.3"}
    assert (problem_with("langgraph") == "") is usable


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_what_can_be_used_is_what_the_extra_installs(module: str) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    framework = FRAMEWORKS[module]
    asked = {one.name: one.specifier for one in map(Requirement, project["optional-dependencies"][framework.extra])}
    known = {name: SpecifierSet(f">={since},<{before}") for name, (since, before) in framework.packages.items()}
    assert asked == known


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_frameworks_that_are_installed_for_the_tests_can_be_used(module: str) -> None:
    pytest.importorskip(module)
    check_framework(module)


async def test_an_agent_of_a_version_that_is_too_old_is_refused_with_what_to_install(installed: Any) -> None:
    installed |= {"pydantic-ai-slim": "1.9"}
    agent = type("Agent", (SimpleNamespace,), {"__module__": "pydantic_ai.agent"})()
    with pytest.raises(
        InvalidCall, match=r'1\.9 is installed, and 2\.60 or newer.*pip install "wfdash\[pydantic-ai\]"'
    ):
        await run_agent(None, agent, "Hello")  # type: ignore[arg-type]
