"""What an author imports: few names from the package, the others from where the documentation says they are."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from wfdash import workflow

DOCS = Path(__file__).parents[2] / "docs" / "workflows.md"


def test_the_package_has_what_an_author_needs_at_first_sight() -> None:
    assert len(workflow.__all__) == 20
    assert all(hasattr(workflow, name) for name in workflow.__all__)


def test_every_other_name_is_where_the_documentation_says() -> None:
    section = DOCS.read_text().split("## Where names are")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| `([\w.]+)` \|$", section, re.MULTILINE)
    assert len(rows) == 10
    for words, module in rows:
        names = re.findall(r"`([A-Z]\w+)`", words)
        assert names
        assert all(hasattr(import_module(module), name) for name in names), module
