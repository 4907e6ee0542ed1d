"""The list of runs as a file: CSV or JSON lines, page by page, whose memory does not grow with the list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from wfdash.actions.runs.bulk import record_export
from wfdash.domain.invisible import escaped
from wfdash.errors import Invalid
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.list_address import RunsAddress
from wfdash.pages.ui.csv_text import csv_text, harmless
from wfdash.queries.runs.listing import RunRow, every_page

MOST = 100_000
COLUMNS = (
    "id",
    "workflow",
    "title",
    "status",
    "failure",
    "waiting_for",
    "waits_on",
    "tags",
    "created_by",
    "created",
    "finished",
    "updated",
    "version",
    "altered",
    "forked",
    "step",
)


@page("POST")
def export(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """Send every run the filter finds as it is shown to this person, newest first; it is recorded that they asked."""
    viewer, text, now = viewer_of(request), request.POST.get("q", "").strip(), timezone.now()
    kind = "csv" if request.POST.get("kind") == "csv" else "jsonl"
    pages = every_page(viewer, text, most=MOST)
    try:
        first = next(pages, ())
    except Invalid:
        return redirect(RunsAddress(q=text).url())
    record_export(viewer, "runs", text=text, kind=kind)
    media = "text/csv; charset=utf-8" if kind == "csv" else "application/x-ndjson"
    lines = as_csv(first, pages) if kind == "csv" else as_json_lines(first, pages)
    response = StreamingHttpResponse(lines, content_type=media)
    response["Content-Disposition"] = f'attachment; filename="wfdash-runs-{now:%Y%m%d-%H%M%S}.{kind}"'
    return response


def as_csv(first: tuple[RunRow, ...], pages: Iterator[tuple[RunRow, ...]]) -> Iterator[str]:
    """Give the runs as CSV with a header, page by page; what a spreadsheet would run as a formula is made text."""
    yield csv_text([list(COLUMNS)])
    yield csv_text([[_cell(value) for value in exported_run(run).values()] for run in first])
    for rows in pages:
        yield csv_text([[_cell(value) for value in exported_run(run).values()] for run in rows])


def as_json_lines(first: tuple[RunRow, ...], pages: Iterator[tuple[RunRow, ...]]) -> Iterator[str]:
    """Give the runs as one JSON document a line, page by page."""
    yield _json(first)
    for rows in pages:
        yield _json(rows)


def exported_run(run: RunRow) -> dict[str, Any]:
    """Return what is exported of a run."""
    found = {name: getattr(run, name) for name in COLUMNS}
    return found | {"status": run.status.value}


def _json(page: tuple[RunRow, ...]) -> str:
    lines = (json.dumps(exported_run(run), ensure_ascii=False, default=_plain) for run in page)
    return "".join(escaped(line) + "\n" for line in lines)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        value = ", ".join(map(str, value))
    text = "" if value is None else _plain(value)
    return harmless(text)
