"""The second pass of ``make test``: what needs the frameworks whose workflows wfdash serves, where they are installed.

``python -m tests.passes.frameworks`` prints the files of that pass: those that skip without a framework, and those with
a test marked ``frameworks``, which holds with them as well as without. As a plugin of pytest
(``-p tests.passes.frameworks``) this module leaves out their other tests, and fails the run if anything was skipped.
With ``--none`` it fails where a framework is installed: the first pass is to show that none is needed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tests", "docs/cookbook")
PACKAGES = (
    "agent_framework",
    "agent_framework_orchestrations",
    "agents",
    "langchain",
    "langchain_core",
    "langgraph",
    "pydantic_ai",
)
NEEDS = re.compile(rf"importorskip\(\s*\"(?:{'|'.join(PACKAGES)})[\".]")
HOLDS_WITH = re.compile(r"mark\.frameworks\b")


def files() -> Iterator[Path]:
    """Yield the files with tests of the second pass."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("test_*.py")):
            text = path.read_text()
            if NEEDS.search(text) or HOLDS_WITH.search(text):
                yield path


def installed() -> list[str]:
    """Return which of the frameworks can be imported."""
    return [name for name in PACKAGES if find_spec(name) is not None]


@cache
def needs_framework(path: Path) -> bool:
    """Say whether a file skips where a framework is missing."""
    return NEEDS.search(path.read_text()) is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the first pass has shown already."""
    kept = [item for item in items if needs_framework(item.path) or item.get_closest_marker("frameworks")]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def pytest_configure(config: pytest.Config) -> None:
    """Watch for what is skipped, where the whole run is seen."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(NothingSkipped(), "nothing-skipped")


class NothingSkipped:
    """Fails a run in which a test or a file was skipped."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_collectreport(self, report: Any) -> None:
        """Take note of a file."""
        self._note(report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take note of a test."""
        self._note(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: Any) -> None:
        """Turn success into failure."""
        if self.skipped and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what should have run."""
        for name in self.skipped:
            terminalreporter.write_line(f"SKIPPED, though everything is to run here: {name}", red=True)

    def _note(self, report: Any) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.append(report.nodeid)


def main(*arguments: str) -> str | None:
    """Print the files of the second pass, or return what is wrong with the first one's environment."""
    if "--none" not in arguments:
        print(*(path.relative_to(ROOT) for path in files()), sep="\n")
        return None
    found = ", ".join(installed())
    return f"The tests are to pass without frameworks, too, and here are: {found}. Run make clean." if found else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
