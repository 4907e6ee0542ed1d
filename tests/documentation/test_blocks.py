"""Every block of code in README and docs is read by what it is for; how those in Python are is listed here."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib

import yaml

from tests.documentation.test_types import PARTS, ROOT, WHOLE
from wfdash.access.viewer import RIGHTS
from wfdash.domain.people_file import read_people

PAGES = (*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?<=\n\n)((?:    [^\n]*\n)+)")
RUN = {
    "agent-framework.md": "tests/documentation/test_agent_framework.py",
    "README.md": "tests/documentation/test_types.py",
    **dict.fromkeys(("quickstart.md", "tutorial.md"), "tests/documentation/test_quickstart.py"),
    "django.md": "tests/documentation/test_django.py",
    "agent-framework-storage.md": "tests/checkpoints/agent_framework/test_page.py",
    "langgraph-saver.md": "tests/checkpoints/langgraph/test_page.py",
    "datasets.md": "tests/api/test_decisions.py",
    "coding-agents.md": "tests/client/test_coding_agents.py",
    "monitoring.md": "tests/telemetry/test_error_hook.py",
    "checkpointing.md": "tests/checkpoints/test_manager.py",
    **{path.name: "tests/documentation/test_coming_from.py" for path in (ROOT / "docs/coming-from").glob("*.md")},
    **{path.name: "tests/documentation/test_cookbook.py" for path in (ROOT / "docs/cookbook").glob("*.md")},
}
"""Pages whose Python is run by a test of their own, or is a file that is; the others satisfy mypy."""
KNOWN = {"python", "sh", "bash", "json", "toml", "yaml", "console", "text", "http", "sql", "nginx", "html"}


def blocks(language: str) -> list[tuple[str, str]]:
    """Return the blocks of a language, each with its page and number."""
    found = [(page.name, *match) for page in PAGES for match in FENCE.findall(page.read_text())]
    return [(name, text) for name, label, text in found if label.split(" ")[0] == language]


def test_every_block_says_what_language_it_is_in() -> None:
    labels = {(page.name, label.split(" ")[0]) for page in PAGES for label, _ in FENCE.findall(page.read_text())}
    assert {(name, label) for name, label in labels if label not in KNOWN} == set()


def test_every_block_of_python_is_run_or_typed() -> None:
    shown = {name for name, _ in blocks("python")}
    typed = {f"{name}.md" for name in (*WHOLE, *PARTS, "engines")}
    assert shown - typed - RUN.keys() == set()
    assert typed - shown == set()
    assert [path for path in RUN.values() if not (ROOT / path).exists()] == []


def test_a_shell_reads_every_block_for_shells() -> None:
    typed = [(page.name, text) for page in PAGES for text in INDENTED.findall(FENCE.sub("", page.read_text()))]
    shown = [
        *blocks("sh"),
        *blocks("bash"),
        *((name, text) for name, text in typed if not text.lstrip().startswith(("CREATE", "ALTER", "$ "))),
    ]
    assert len(shown) > 20
    script = "\n".join(f"f{number}() {{\n{text}\n}}" for number, (_, text) in enumerate(shown))
    assert subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=60).stderr == ""


def test_no_page_branches_by_the_truth_of_what_was_approved() -> None:
    truth = re.compile(
        r"\.value (?:or|and)\b|\b(?:if|not|while|assert) (?:decision|\w+\.value|await ctx\.ask\(.*\)):?$"
    )
    code = [*blocks("python"), *((path.name, path.read_text()) for path in (ROOT / "docs").rglob("*.py"))]
    assert [(name, line) for name, text in code for line in text.splitlines() if truth.search(line)] == []


def test_blocks_of_data_are_what_they_say() -> None:
    assert len(blocks("json")) > 3
    for _, text in blocks("json"):
        json.loads(text)
    for _, text in blocks("yaml"):
        assert yaml.safe_load(text)
    for _, text in blocks("toml"):
        assert tomllib.loads(text)


def test_the_file_of_people_that_is_shown_is_one() -> None:
    (text,) = [text for name, text in blocks("toml") if name == "people.md"]
    assert read_people(text, roles=tuple(RIGHTS)).accounts
