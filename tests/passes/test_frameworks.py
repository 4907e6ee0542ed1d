"""The two passes of the tests: without the frameworks, and with them."""

from __future__ import annotations

import ast
import re
from types import SimpleNamespace
from typing import Any

import pytest

from tests.passes import frameworks
from tests.passes.frameworks import NothingSkipped, files, needs_framework

ROOT = frameworks.ROOT
NAMED = re.compile(rf"^(?:from|import) +(?:{'|'.join(frameworks.PACKAGES)})\b", re.MULTILINE)


def report(**more: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"nodeid": "tests/test_x.py::test_y", "skipped": False, **more})


@pytest.mark.parametrize(
    ("reports", "status"),
    [
        ([report()], pytest.ExitCode.OK),
        ([report(), report(skipped=True)], pytest.ExitCode.TESTS_FAILED),
        ([report(skipped=True, wasxfail="known")], pytest.ExitCode.OK),
    ],
)
def test_a_pass_with_the_frameworks_in_which_something_is_skipped_has_failed(reports: list[Any], status: int) -> None:
    watcher, session = NothingSkipped(), SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    for one in reports:
        watcher.pytest_collectreport(one)
    watcher.pytest_sessionfinish(session)
    assert session.exitstatus == status


def imports_of(text: str) -> set[str]:
    """Return the packages that a module imports when it is imported, if it may import a framework."""
    # Only what names one is parsed: Python before 3.11.5 fails where garbage that is collected by then parses, too.
    if not NAMED.search(text):
        return set()
    found: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_every_file_of_tests_that_imports_a_framework_is_skipped_without_it_and_run_with_it() -> None:
    paths = [path for folder in frameworks.FOLDERS for path in (ROOT / folder).rglob("test_*.py")]
    using = {path for path in paths if imports_of(path.read_text()) & {*frameworks.PACKAGES}}
    assert using
    assert using - {*files()} == set()
    assert [path for path in using if not needs_framework(path)] == []


def test_the_first_pass_names_the_frameworks_that_it_should_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks, "installed", list)
    assert frameworks.main("--none") is None
    monkeypatch.setattr(frameworks, "installed", lambda: ["langgraph"])
    assert "langgraph. Run make clean" in str(frameworks.main("--none"))
