"""Static files: an address per version, kept forever, compressed, and never a page without its style."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.templatetags.static import static
from django.test import Client

from wfdash.installation.location import static_version
from wfdash.web.pages.site.files import MADE, SHEETS, own_file

OLDER = "/static/0123456789ab/"


def body(answer: Any) -> bytes:
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    answer.close()
    return content


@pytest.mark.parametrize("name", [*MADE, "js/site/time.js", "img/logo.svg", "admin/css/base.css"])
def test_a_file_is_kept_by_browsers_forever(db: None, name: str) -> None:
    answer = Client().get(static(name))
    assert answer.status_code == 200
    assert "immutable" in answer.headers["Cache-Control"]
    assert body(answer)


def test_the_address_changes_with_a_file_s_content_or_name(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("a {}")
    first = static_version([tmp_path])
    assert first == static_version([tmp_path])
    (tmp_path / "a.css").write_text("b {}")
    second = static_version([tmp_path])
    (tmp_path / "a.css").rename(tmp_path / "b.css")
    assert len({first, second, static_version([tmp_path])}) == 3


@pytest.mark.parametrize("name", ["css/site.css", "js/site.js", "js/live/live.js"])
def test_a_page_of_another_version_gets_the_file_of_this_one(db: None, name: str) -> None:
    answer = Client().get(OLDER + name)
    assert (answer.status_code, answer.headers["Location"]) == (302, static(name))
    assert "immutable" not in answer.headers["Cache-Control"]


@pytest.mark.parametrize(
    "name", ["css/nothing.css", "../wfdash/settings.py", "css/../../manage.py", "%2e%2e/manage.py", "a%00.css", ""]
)
@pytest.mark.parametrize("root", [OLDER, f"/{settings.STATIC_URL.lstrip('/')}"])
def test_what_is_not_a_static_file_is_not_found(db: None, root: str, name: str) -> None:
    answer = Client().get(root + name)
    assert answer.status_code == 404, answer.headers


def test_the_site_s_style_sheet_is_all_of_its_sheets_in_order(db: None) -> None:
    sheet = body(Client().get(static("css/site.css"))).decode()
    texts = [Path("static/css", f"{name}.css").read_text() for name in SHEETS]
    assert [sheet.index(text) for text in texts] == sorted(sheet.index(text) for text in texts)


def test_every_file_that_a_template_names_exists() -> None:
    named = {
        name
        for template in Path("templates").rglob("*.html")
        for name in re.findall(r"{% asset '([^']+)' %}", template.read_text())
    }
    assert len(named) > 15
    assert not {name for name in named - MADE.keys() if own_file(name) is None}


@pytest.mark.parametrize("path", ["/sign-in/", static("css/site.css"), static("js/site.js")])
def test_pages_and_files_are_compressed_for_clients_that_accept_it(db: None, path: str) -> None:
    plain = body(Client().get(path))
    answer = Client(headers={"Accept-Encoding": "gzip"}).get(path)
    assert (answer.headers["Content-Encoding"], answer.headers["Vary"].count("Accept-Encoding")) == ("gzip", 1)
    packed = body(answer)
    assert len(packed) < len(plain) * 0.6
    assert path == "/sign-in/" or gzip.decompress(packed) == plain


def test_the_length_of_a_compressed_page_tells_nothing_of_its_content(db: None) -> None:
    """A secret on a page cannot be guessed by the length of answers: each has a random addition."""
    client = Client(headers={"Accept-Encoding": "gzip"})
    assert len({len(client.get("/sign-in/").content) for _ in range(12)}) > 3
