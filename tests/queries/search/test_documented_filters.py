"""The page of filters: the site makes one list of keys per list of the dashboard, from its qualifiers."""

from __future__ import annotations

import runpy
from pathlib import Path

from tests.queries.search.test_qualifiers import FILTERS

ROOT = Path(__file__).parents[3]


def test_the_site_lists_every_key_of_every_list() -> None:
    made = runpy.run_path(str(ROOT / ".ci/docs_lists.py"))["filters"]()
    sections = made.split("## ")[1:]
    assert len(sections) == len(FILTERS)
    for section, known in zip(sections, FILTERS.values(), strict=True):
        assert [row.split("`")[1] for row in section.splitlines() if row.startswith("- ")] == [
            *(one.example for one in known.qualifiers),
            '"blue chair"',
        ]
    assert "<!-- filters -->" in (ROOT / "docs/filters.md").read_text()
