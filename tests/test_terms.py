"""The tool that finds words which the product does not use. ``make check`` runs it over everything."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def terms() -> ModuleType:
    """The tool that ``make check`` runs."""
    spec = importlib.util.spec_from_file_location("terms", ROOT / ".ci/terms.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["terms"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A product of four files."""
    for name in ("templates", "static/js", "wfdash", "checkpoints", "docs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "README.md").write_text("# Product\n")
    return tmp_path


def test_every_term_says_what_to_write_instead_and_why(terms: ModuleType) -> None:
    table = terms.load(terms.TABLE)
    assert [term.pattern.pattern for term in table if not (term.use and term.why and term.where)] == []
    assert {where for term in table for where in term.where} <= set(terms.READERS)


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("templates/a.html", "<p>One</p>\n<p>Tick one</p>", "templates/a.html:2: "),
        ("templates/a.html", '<input\n data-tick name="tick" aria-label="Tick all">', "templates/a.html:1: "),
        ("templates/a.html", '{% include "b.html" with label="Tick all" %}', "templates/a.html:1: "),
        ("templates/a.html", '{# Tick all #}<input data-tick class="tick">{{ ticked }}{% if ticked %}{% endif %}', ""),
        ("static/js/a.js", "// ticked ones\nbutton.textContent = `${ticked} ticked`;", "static/js/a.js:2: "),
        ("static/js/a.js", 'find("input[data-tick]"); name = "tick";', ""),
        ("wfdash/a.py", '"""A tick of the clock."""\n# tick\nraise Error(f"Tick {one} of them")', "wfdash/a.py:3: "),
        ("wfdash/a.py", 'kind = "tick"\ncss = "data-tick on"', ""),
        ("checkpoints/b.py", '"""A tick."""\n', "checkpoints/b.py:1: "),
        ("checkpoints/b.py", "def on():\n    # At every tick.\n    return 1\n", "checkpoints/b.py:2: "),
        ("checkpoints/b.py", "class _ClockTicks: ...\n", "checkpoints/b.py:1: "),
        ("checkpoints/b.py", "on = tick(ticks=1)\n", ""),
        ("static/js/b.js", "let at = 1; // the last tick\n", "static/js/b.js:1: "),
        ("docs/a.md", "Once\n\n```\ntick it\n```\n\nTick it", "docs/a.md:7: "),
    ],
)
def test_a_term_is_found_where_people_read_it_and_nowhere_else(
    terms: ModuleType, tree: Path, name: str, source: str, found: str
) -> None:
    (tree / name).write_text(source)
    where = ("code",) if Path(name).stem == "b" else ("ui", "docs")
    table = [replace(term, where=where) for term in terms.load(terms.TABLE) if term.pattern.search("tick")]
    findings = terms.find(tree, table)
    assert [finding.startswith(found) for finding in findings] == ([True] if found else [])


def test_a_file_where_the_word_is_right_is_left_out(terms: ModuleType, tree: Path) -> None:
    (tree / "terms.toml").write_text(
        '[[term]]\npattern = "tick"\nuse = "select"\nwhy = "so"\nwhere = ["ui"]\nbut = ["templates/clock/"]\n'
    )
    (tree / "templates/clock").mkdir()
    (tree / "templates/clock/face.html").write_text("<p>Tick</p>")
    (tree / "templates/list.html").write_text("<p>Tick</p>")
    assert terms.find(tree, terms.load(tree / "terms.toml")) == ['templates/list.html:1: "Tick": select (so)']
