"""The list as a file: all of what the filter finds, harmless in a spreadsheet, and on record."""

from __future__ import annotations

import csv
import io
import json

from checkpoints.models import AuditEntry
from tests import people
from wfdash.queries.runs.listing import every_page


def read(answer) -> str:
    return b"".join(answer.streaming_content).decode()


def test_csv_has_every_run_of_the_filter_and_no_formula(everybody, as_):
    people.make_run(title='=HYPERLINK("x")', phase="failed", error={"type": "+E", "message": "x\ny"})
    people.make_run(title="Plain", phase="failed")
    people.make_run(title="Other")
    answer = as_("vera").post("/runs/export/", {"q": "status:failed", "kind": "csv"})
    assert answer["Content-Disposition"].endswith('.csv"')
    rows = list(csv.DictReader(io.StringIO(read(answer))))
    assert {row["title"] for row in rows} == {'\'=HYPERLINK("x")', "Plain"}
    assert "'+E: x\ny" in {row["failure"] for row in rows}
    (entry,) = AuditEntry.objects.filter(verb="export")
    assert (entry.actor, entry.facts["filter"], entry.facts["kind"]) == ("vera", "status:failed", "csv")


def test_json_lines_are_read_page_by_page_as_they_are_sent(everybody, as_, monkeypatch):
    for number in range(5):
        people.make_run(title=f"Run {number}")
    small = lambda viewer, text, most: every_page(viewer, text, size=2, most=most)  # noqa: E731
    monkeypatch.setattr("wfdash.web.pages.runs.listing.every_page", small)
    answer = as_("vera").post("/runs/export/", {"kind": "jsonl"})
    assert answer.streaming
    lines = [json.loads(line) for line in read(answer).splitlines()]
    assert len(lines) == 5
    assert lines[0]["status"] == "waiting"
    assert lines[0]["tags"] == []


def test_a_filter_that_is_none_is_shown_instead(everybody, as_):
    assert as_("vera").post("/runs/export/", {"q": "colour:red"}).url == "/runs/?q=colour%3Ared"
    assert not AuditEntry.objects.filter(verb="export").exists()


def test_no_one_exports_what_they_may_not_see(everybody, as_):
    people.make_run()
    assert len(read(as_("sam").post("/runs/export/", {"kind": "csv"})).splitlines()) == 1
