"""The dashboard as an app: a manifest, a worker that keeps nothing private, a page without a connection."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.templatetags.static import static
from django.test import Client
from PIL import Image

from wfdash.web.pages.site.files import COLOURS


def status_of(path: str) -> int:
    answer = Client().get(path)
    if answer.streaming:
        assert b"".join(answer.streaming_content)  # type: ignore[arg-type]
    answer.close()
    return answer.status_code


def test_the_manifest_has_what_browsers_ask_for_to_install_an_app(db: None) -> None:
    answer = Client().get("/manifest.webmanifest")
    assert answer.headers["Content-Type"].startswith("application/manifest+json")
    app = json.loads(answer.content)
    assert (app["name"], app["start_url"], app["scope"], app["display"]) == ("wfdash", "/", "/", "standalone")
    for icon in app["icons"]:
        file = Path("static") / icon["src"].split("/", 3)[3]
        if file.suffix == ".png":
            with Image.open(file) as image:
                assert "x".join(map(str, image.size)) == icon["sizes"]
        assert status_of(icon["src"]) == 200
    assert {"any", "maskable"} <= {icon["purpose"] for icon in app["icons"]}


def test_the_bars_of_a_phone_have_the_colour_of_the_page() -> None:
    found = re.search(r"--bg: light-dark\((#\w+), (#\w+)\)", Path("static/css/site/tokens.css").read_text())
    assert found is not None
    assert found.groups() == (COLOURS["light"], COLOURS["dark"])
    for text in (Path("templates/base.html").read_text(), Path("static/js/site/theme.js").read_text()):
        assert set(COLOURS.values()) <= set(re.findall(r"#[0-9a-f]{6}\b", text))


def test_the_worker_answers_for_all_pages_and_is_asked_for_again_each_time(db: None) -> None:
    answer = Client().get("/service-worker.js")
    assert answer.headers["Content-Type"].startswith("text/javascript")
    assert "no-cache" in answer.headers["Cache-Control"]
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_the_worker_keeps_only_what_no_one_has_to_sign_in_for(db: None) -> None:
    script = Client().get("/service-worker.js").content.decode()
    facts = json.loads(script.splitlines()[0].removeprefix("const APP = ").removesuffix(";"))
    assert facts["kept"] == ["/offline/", *map(static, ("css/site.css", "fonts/inter.woff2", "img/logo.svg"))]
    assert facts["version"] in facts["kept"][1]
    for path in facts["kept"]:
        assert status_of(path) == 200
    assert script.count("caches.open") == 2
    assert ".put(" not in script
    assert 'credentials: "omit"' in script


@pytest.mark.django_db
def test_the_page_without_a_connection_is_the_same_for_everyone(admin_client: Client) -> None:
    signed_in = admin_client.get("/offline/")
    assert signed_in.content == Client().get("/offline/").content
    assert b"No connection" in signed_in.content
    assert b"<script" not in signed_in.content
