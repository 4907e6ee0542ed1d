"""The log of a run or of one of its steps: searched, followed while it grows, downloaded as text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse

from wfdash.domain.invisible import visible
from wfdash.pages.runs.header import address, head
from wfdash.pages.runs.paging import (
    download_of,
    following_in,
    level_in,
    part_context,
    search_in,
    step_titles,
    text_in,
)
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.numbers import number_in
from wfdash.pages.ui.event_text import step_label
from wfdash.pages.ui.fragments import respond
from wfdash.pages.ui.log_line import LogLine
from wfdash.pages.ui.times import elapsed
from wfdash.queries.runs.events import LogFilter, LogPage, all_logs, find_logs
from wfdash.queries.runs.listing import RunView, read_run
from wfdash.records.runs import LogLineRecord

SHOWN = 300
HIDDEN = "Not shown: your role doesn't include log text"
FRAGMENTS = {"head": "runs/header/header.html", "log": "runs/logs/records.html"}


@page("GET")
def logs(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the newest log records, those ``before`` one, or those ``after`` one.

    ``step``, ``activation``, ``level``, ``q`` narrow them; ``wrap=off``: long lines are not broken.
    """
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    wanted = log_filter_of(request)
    before, after = number_in(request.GET.get("before", "")), following_in(request)
    found = find_logs(viewer, run_id, wanted, before=before, after=after, limit=SHOWN)
    context = head(viewer, run, "logs") | _page_context(request, run, found, wanted)
    return respond(request, "runs/logs/page.html", context, FRAGMENTS)


def _page_context(request: HttpRequest, run: RunView, found: LogPage, wanted: LogFilter) -> dict[str, Any]:
    steps = step_titles(run)
    wrap, events = request.GET.get("wrap", "") != "off", reverse("wfdash:run-events", args=[run.id])
    return part_context(request, run, found) | {
        "wanted": wanted,
        "steps": steps.items(),
        "title": _title(wanted, steps),
        "lines": [
            LogLine(record=record, wanted=wanted.text, start=run.created, events=events, workflow=run.workflow)
            for record in found.records
        ],
        "wrap": wrap,
        "wrapping": address(request, wrap="off" if wrap else ""),
        "download": reverse("wfdash:run-logs-text", args=[run.id]) + address(request, wrap=""),
    }


def _title(wanted: LogFilter, steps: dict[str, str]) -> str:
    of = f" of {steps.get(wanted.step, step_label(wanted.step))}" if wanted.step else ""
    return f"Log{of}{', one execution' if wanted.activation else ''}"


def log_filter_of(request: HttpRequest) -> LogFilter:
    """Return the filter of an address; unknown values are ignored."""
    return LogFilter(
        step=text_in(request, "step"),
        activation=text_in(request, "activation"),
        level=level_in(request),
        text=search_in(request),
    )


@page("GET")
def download(request: HttpRequest, run_id: str) -> StreamingHttpResponse:
    """Send the records that match as text, oldest first, a line each; times are in UTC."""
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    return download_of(
        all_logs(viewer, run_id, log_filter_of(request)),
        lambda record: _text_line(record, run.created),
        name=f"wfdash-log-{run_id[-8:]}.txt",
        content_type="text/plain; charset=utf-8",
    )


def _text_line(record: LogLineRecord, begin: datetime) -> str:
    """Return a record as text. Its own further lines are indented, so that it cannot pass for another record."""
    at = record.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = HIDDEN if record.text is None else visible(record.text.replace("\r\n", "\n")).replace("\n", "\n    ")
    level, logger = record.level or "-", visible(record.logger).replace("\n", " ")
    return f"{at} {elapsed(record.at - begin)} {level} {record.step} {logger}: {text}\n"
