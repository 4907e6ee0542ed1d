"""The cookbook: each page shows the very workflow that the suite runs (WRITE_DOCS=1 renews the pages)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COOKBOOK = ROOT / "docs/cookbook"
PAGES = sorted(path for path in COOKBOOK.glob("*.md") if path.name != "index.md")
SHOWN = re.compile(r'(?<=```python title=")([\w/]+\.py)("\n)(.*?)(?=```)', re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_recipe_shows_the_files_that_are_run(page: Path) -> None:
    text = page.read_text()
    current = SHOWN.sub(lambda shown: shown[1] + shown[2] + (COOKBOOK / shown[1]).read_text(), text)
    if os.environ.get("WRITE_DOCS"):
        page.write_text(current)
    assert current == text, "renew it with WRITE_DOCS=1"


def test_every_recipe_has_a_page_with_its_code_and_its_test() -> None:
    shown = {name for page in PAGES for name, *_ in SHOWN.findall(page.read_text())}
    tests = {name for page in PAGES for name in re.findall(r"\]\((test_\w+\.py)\)", page.read_text())}
    assert tests == {f"test_{page.stem}.py" for page in PAGES}
    assert shown | tests == {path.name for path in COOKBOOK.glob("*.py")}


def test_the_first_page_of_the_cookbook_leads_to_each_recipe() -> None:
    linked = re.findall(r"\]\((\w+\.md)\)", (COOKBOOK / "index.md").read_text())
    assert sorted(linked) == [page.name for page in PAGES]
