"""What the site of the documentation adds to docs/: README and changelog, links that leave docs/, the HTTP API.

The pages of docs/ are written to be read in the repository as well, so their links lead to files of the repository.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

import docs_openapi

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
"""Files above docs/ that are pages of the site."""
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s:]+?)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add pages that the navigation does not name to its end: none is out of reach."""
    docs = ROOT / "docs"
    named = set(in_navigation(config.nav))
    left = sorted(uri for path in docs.rglob("*.md") if (uri := path.relative_to(docs).as_posix()) not in named)
    if left:
        config.nav = [*(config.nav or []), {"More": left}]
    return config


def in_navigation(entries: Any) -> Iterator[str]:
    """Yield the pages that a part of the navigation leads to."""
    for entry in entries.values() if isinstance(entries, dict) else entries:
        if isinstance(entry, str):
            yield entry
        else:
            yield from in_navigation(entry)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that lie elsewhere in the repository."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for name in ("logo.svg", "favicon.svg"):
        files.append(File.generated(config, f"site/{name}", abs_src_path=str(ROOT / "static/img" / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to pages lead to pages of the site, and name files that are no pages without a link."""
    folder = folder_of(page.file.src_uri)
    if page.file.src_uri == "reference/http-api.md":
        return markdown.replace("<!-- operations -->", docs_openapi.operations())
    text = re.sub(r"(!\[[^\]]*\]\()docs/", r"\1", markdown) if folder == ROOT else markdown
    return LINK.sub(lambda link: rewritten(link, folder, page.file.src_uri), text)


def folder_of(uri: str) -> Path:
    """Return the folder in the repository that a page's links begin at."""
    return ROOT if uri in PAGES.values() else (ROOT / "docs" / uri).parent


def rewritten(link: re.Match[str], folder: Path, uri: str) -> str:
    """Return a link of the repository as one of the site."""
    words, target, anchor = link[1], link[2], link[3] or ""
    path = (folder / target).resolve()
    if not path.is_relative_to(ROOT) or not path.exists():
        return link[0]
    inside = path.relative_to(ROOT).as_posix()
    if inside not in PAGES and not inside.startswith("docs/"):
        return words
    page = PAGES.get(inside, inside.removeprefix("docs/"))
    return f"[{words}]({'../' * uri.count('/')}{page}{anchor})"
