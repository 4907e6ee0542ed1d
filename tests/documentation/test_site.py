"""The documentation as a site: it is built without a warning, loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / ".ci/mkdocs.yml"
BUILD = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(CONFIG), "--site-dir"]
LOADED = re.compile(
    r"<(?:script|img|iframe)[^>]*\ssrc=\"?(\w+:[^\s\">]+)|<link[^>]*\shref=\"?(\w+:[^\s\">]+)|@import[^;]+"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run([*BUILD, str(folder)], env=env, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.process
def test_no_page_of_the_site_loads_anything_from_another_server(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 30
    loaded = [(page.name, *found.groups()) for page in pages for found in LOADED.finditer(page.read_text())]
    assert loaded == []


@pytest.mark.process
def test_readme_and_changelog_are_pages_whose_links_and_pictures_stay_in_the_site(site: Path) -> None:
    home = (site / "index.html").read_text()
    links = re.findall(r'(?:href|src)="([^"#:]+)[#"]', home)
    assert {"contents.html", "workflows.html", "changelog.html"} <= {*links}
    assert [link for link in links if link != "." and not (site / link.split("?")[0]).exists()] == []


@pytest.mark.process
def test_language_models_find_every_page_with_a_line_and_as_text(site: Path) -> None:
    entries = re.findall(r"^- \[.+\]\((\S+)\): .+$", (site / "llms.txt").read_text(), re.MULTILINE)
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}
    assert {Path(entry).with_suffix("") for entry in entries} >= pages
    assert [entry for entry in entries if not (site / entry).exists()] == []
