"""What the site of the documentation adds to docs/: README and changelog, links that leave docs/, the HTTP API, and for
language models ``llms.txt`` (https://llmstxt.org) with each page as Markdown beside its HTML.

The pages of docs/ are written to be read in the repository as well, so their links lead to files of the repository.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

import docs_lists
import docs_openapi

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files above docs/ that are pages of the site."""
WRITTEN: dict[str, str] = {}
"""The Markdown of each page of the site that is not made from code, by its path."""
ENTRY = re.compile(r"\[(.+?)\]\((\S+)\): (.+)")
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s:]+?)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the navigation of the list of all pages."""
    groups: dict[str, list[Any]] = {}
    for group, section, page in listed():
        entries = groups.setdefault(group, [])
        if section and not (entries and section in entries[-1]):
            entries.append({section: []})
        (entries[-1][section] if section else entries).append({page.title: page.uri})
    config.nav = [{"Overview": "index.md"}, *({group: entries} for group, entries in groups.items())]
    return config


class Listed(NamedTuple):
    """A page as ``docs/contents.md`` lists it."""

    title: str
    uri: str
    line: str


def listed() -> Iterator[tuple[str, str, Listed]]:
    """Yield each page that ``docs/contents.md`` lists, with its group and the section in that, which may be empty."""
    group = section = ""
    for mark, text in re.findall(r"^(##|###|-) (.+)$", (ROOT / "docs/contents.md").read_text(), re.MULTILINE):
        if mark == "##":
            group, section = text, ""
        elif mark == "###":
            section = text
        elif entry := ENTRY.fullmatch(text):
            yield group, section, Listed(entry[1], PAGES.get(entry[2].removeprefix("../"), entry[2]), entry[3])


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
    for mark, made in docs_lists.LISTS.items():
        if mark in text:
            docs_openapi.document()  # it sets Django up
            text = text.replace(mark, made())
    text = LINK.sub(lambda link: rewritten(link, folder, page.file.src_uri), text)
    if not re.search(r"^:::", text, re.MULTILINE):
        WRITTEN[page.file.src_uri] = text
    return text


def on_post_build(config: MkDocsConfig) -> None:
    """Write ``llms.txt``, and the pages that it leads to."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", "- [Overview](index.md): what it is"]
    now = ""
    for group, _, (title, uri, line) in listed():
        if group != now:
            now = group
            # What may be left out where there is little room has this name.
            lines += ["", f"## {'Optional' if group == 'Internals' else group}", ""]
        lines.append(f"- [{title}]({uri if uri in WRITTEN else uri.replace('.md', '.html')}): {line}")
    (site / "llms.txt").write_text("\n".join([*lines, ""]))
    for uri, text in WRITTEN.items():
        (site / uri).write_text(text)


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
