"""Images and files of a card: sent to those who may see the request, and never run."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from checkpoints.models import HumanRequest, Run
from tests import people
from tests.domain.test_images import PNG
from tests.pages.markup import flat
from wfdash.questions.evidence import EvidencePiece, File, Image, JsonValue, Pdf, Text

HTML = b"<script>alert(document.domain)</script>"


@pytest.fixture
def shown(run: Run) -> HumanRequest:
    pieces: list[EvidencePiece] = [
        Text(value="a"),
        Image(data=PNG, alt="A dot"),
        File(name="../\u202eevil.html", data=HTML),
        File(name="Rechnung März.pdf", data=b"%PDF-1.7"),
    ]
    return people.ask(run, card={"subject": "x", "evidence": [piece.shown() for piece in pieces]})


def address(request: HumanRequest, number: int | str) -> str:
    return f"/requests/{request.pk}/evidence/{number}/"


def test_an_image_is_shown_with_the_type_of_its_content(shown, as_):
    answer = as_("ana").get(address(shown, 1))
    assert (answer.status_code, answer["Content-Type"], answer.content) == (200, "image/png", PNG)
    assert answer["Content-Disposition"].startswith("inline")
    assert as_("ana").get(address(shown, 1) + "?download")["Content-Disposition"].startswith("attachment")


def test_a_file_is_saved_and_never_run(shown, as_):
    answer = as_("ana").get(address(shown, 2))
    assert answer.content == HTML
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="_evil.html"'
    assert "sandbox" in answer["Content-Security-Policy"]
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in answer["Cache-Control"]


def test_a_name_with_letters_of_any_language_is_kept(shown, as_):
    assert "filename*=utf-8''Rechnung%20M%C3%A4rz.pdf" in as_("ana").get(address(shown, 3))["Content-Disposition"]


@pytest.mark.parametrize("number", [0, 4, 99, "x", "-1"])
def test_what_is_no_image_or_file_is_not_there(number, shown, as_):
    assert as_("ana").get(address(shown, number)).status_code == 404


@pytest.mark.parametrize("name", ["sam", "ben"])
def test_no_one_else_gets_the_bytes(name, run, shown, as_):
    HumanRequest.objects.filter(pk=shown.pk).update(by=["finance"])
    wanted = as_(name).get(address(shown, 1))
    assert wanted.status_code == 404
    assert PNG not in wanted.content


def test_strangers_are_sent_to_sign_in(shown, as_):
    assert as_("").get(address(shown, 1)).status_code == 302


def test_the_card_points_there(shown, as_):
    page = as_("ana").get(f"/requests/{shown.pk}/").content.decode()
    assert flat(f'<img src="{address(shown, 1)}" alt="A dot" width="5" height="3"') in flat(page)
    assert f'href="{address(shown, 2)}" download="_evil.html"' in page
    assert "base64" not in page


@pytest.mark.parametrize(
    "piece",
    [
        {"kind": "image", "value": "PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+", "media_type": "image/svg+xml"},
        {"kind": "image", "value": "no base64"},
        {"kind": "file", "value": None},
        {"kind": "file", "value": "A" * 3_000_000},
        {"kind": "image"},
    ],
)
def test_bytes_that_other_engines_bring_are_not_believed(piece: dict[str, Any], run, as_):
    request = people.ask(run, card={"subject": "x", "evidence": [piece]})
    page = as_("ana").get(f"/requests/{request.pk}/")
    assert page.status_code == 200
    assert b'class="shot"' not in page.content
    answer = as_("ana").get(address(request, 0))
    assert answer.status_code == 404 or answer["Content-Disposition"].startswith("attachment")
    assert "svg" not in answer.get("Content-Type", "")


def test_a_pdf_is_framed_by_the_card_alone_and_loads_nothing(run, as_):
    pieces = [Pdf(data=b"%PDF-1.7 x", name="a.pdf"), File(name="b.pdf", data=b"%PDF-1.7 x")]
    request = people.ask(run, card={"subject": "x", "evidence": [piece.shown() for piece in pieces]})
    page = as_("ana").get(f"/requests/{request.pk}/")
    assert page.content.count(b"<iframe") == 1
    assert f'src="{address(request, 0)}"' in flat(page.content.decode())
    assert "frame-src 'self'" in page["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in page["Content-Security-Policy"]
    answer = as_("ana").get(address(request, 0))
    assert (answer["Content-Type"], answer["X-Content-Type-Options"]) == ("application/pdf", "nosniff")
    assert answer["Content-Security-Policy"] == "default-src 'none'; object-src 'self'; frame-ancestors 'self'"
    assert answer["X-Frame-Options"] == "SAMEORIGIN"
    assert answer["Content-Disposition"].startswith("inline")
    for saved in (address(request, 0) + "?download", address(request, 1)):
        answer = as_("ana").get(saved)
        assert answer["Content-Disposition"].startswith("attachment")
        assert "sandbox" in answer["Content-Security-Policy"]
    assert as_("sam").get(address(request, 0)).status_code == 404


def test_a_page_that_calls_itself_a_pdf_is_saved_and_never_shown(run, as_):
    piece = {"kind": "pdf", "name": "a.pdf", "value": base64.b64encode(HTML).decode()}
    request = people.ask(run, card={"subject": "x", "evidence": [piece]})
    assert b"<iframe" not in as_("ana").get(f"/requests/{request.pk}/").content
    answer = as_("ana").get(address(request, 0))
    assert answer["Content-Disposition"].startswith("attachment")
    assert "sandbox" in answer["Content-Security-Policy"]


def test_both_versions_of_an_image_are_shown_and_sent(run, as_):
    piece = Image(data=PNG, before=PNG, alt="A dot").shown()
    request = people.ask(run, card={"subject": "x", "evidence": [piece, {**piece, "before": "bm8="}]})
    page = as_("ana").get(f"/requests/{request.pk}/").content.decode()
    assert page.count('alt="Before: A dot"') == page.count('alt="After: A dot"') == 1
    assert as_("ana").get(address(request, 0) + "?before").content == PNG
    assert as_("ana").get(address(request, 1) + "?before").status_code == 404


def test_a_value_is_sent_as_json_whole_or_one_node(run, as_):
    value = {"a/b": [1, {"x": "é"}]}
    pieces = [JsonValue(title="Pay/load", value=value).shown(), Text(value="a").shown()]
    request = people.ask(run, card={"subject": "x", "evidence": pieces})
    answer = as_("ana").get(address(request, 0))
    assert (answer["Content-Type"], json.loads(answer.content)) == ("application/json", value)
    assert answer["Content-Disposition"].startswith("attachment")
    assert "sandbox" in answer["Content-Security-Policy"]
    assert json.loads(as_("ana").get(address(request, 0), {"at": "/a~1b/1"}).content) == {"x": "é"}
    for wrong in ("/nothing", "/a~1b/9", "/a~1b/1/x/y"):
        assert as_("ana").get(address(request, 0), {"at": wrong}).status_code == 404
    assert as_("ana").get(address(request, 1), {"at": ""}).status_code == 404
    assert as_("sam").get(address(request, 0)).status_code == 404


def test_a_large_value_is_cut_and_says_so_with_all_of_it_to_download(run, as_):
    value = [{"id": n, "text": "x" * 100} for n in range(36_000)]
    request = people.ask(run, card={"subject": "x", "evidence": [JsonValue(value=value).shown()]})
    page = as_("ana").get(f"/requests/{request.pk}/").content.decode()
    assert len(page) < 600_000
    assert "Only the beginning of a large value is shown" in page
    assert f'href="{address(request, 0)}" download' in flat(page)
    assert len(as_("ana").get(address(request, 0)).content) > 4_000_000
