"""The log of a run or of one of its steps: searched, followed while it grows, downloaded as text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse

from wfdash import queries
from wfdash.pages.runs.header import address, head, page_number
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.ui.event_text import step_label
from wfdash.pages.ui.fragments import respond
from wfdash.pages.ui.invisible import visible
from wfdash.pages.ui.log_line import LogLine
from wfdash.pages.ui.times import elapsed

SHOWN = 300
LINES = 500
"""Records of a download that are sent at a time."""
HIDDEN = "Not shown: your role doesn't include log text"
FRAGMENTS = {"head": "runs/header/header.html", "log": "runs/logs/records.html"}


@page("GET")
def logs(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the newest log records, those ``before`` one, or those ``after`` one.

    ``step``, ``activation``, ``level``, ``q`` narrow them; ``wrap=off``: long lines are not broken.
    """
    viewer = viewer_of(request)
    run = queries.run(viewer, run_id)
    wanted = log_filter_of(request)
    after = request.GET.get("after", "")
    following = page_number(after) if after.isascii() and after.isdigit() else None
    found = queries.find_logs(
        viewer, run_id, wanted, before=page_number(request.GET.get("before", "")), after=following, limit=SHOWN
    )
    context = head(viewer, run, "logs") | _page_context(request, run, found, wanted)
    return respond(request, "runs/logs/page.html", context, FRAGMENTS)


def _page_context(
    request: HttpRequest, run: queries.RunView, found: queries.LogPage, wanted: queries.LogFilter
) -> dict[str, Any]:
    described = queries.description_of(run.workflow, run.version)
    steps = {step.name: step.title or step_label(step.name) for step in described.steps} if described else {}
    at_end = not found.newer or found.newer >= run.seq
    wrap, events = request.GET.get("wrap", "") != "off", reverse("run-events", args=[run.id])
    return {
        "wanted": wanted,
        "levels": queries.LEVELS,
        "steps": steps.items(),
        "title": _title(wanted, steps),
        "lines": [
            LogLine(record=record, wanted=wanted.text, start=run.created, events=events) for record in found.records
        ],
        "last_seq": run.seq,
        "at_end": at_end,
        "older": address(request, before=str(found.older)) if found.older > 1 else "",
        "newer": "" if at_end else address(request, after=str(found.newer)),
        "newest": "" if at_end else address(request),
        "partly": found.partly,
        "kept": address(request),
        "wrap": wrap,
        "wrapping": address(request, wrap="off" if wrap else ""),
        "download": reverse("run-logs-text", args=[run.id]) + address(request, wrap=""),
    }


def _title(wanted: queries.LogFilter, steps: dict[str, str]) -> str:
    of = f" of {steps.get(wanted.step, step_label(wanted.step))}" if wanted.step else ""
    return f"Log{of}{', one execution' if wanted.activation else ''}"


def log_filter_of(request: HttpRequest) -> queries.LogFilter:
    """Return the filter of an address; unknown values are ignored."""
    level = request.GET.get("level", "").upper()
    return queries.LogFilter(
        step=request.GET.get("step", "")[:200].replace("\0", ""),
        activation=request.GET.get("activation", "")[:200].replace("\0", ""),
        level=level if level in queries.LEVELS else "",
        text=request.GET.get("q", "").strip()[:200].replace("\0", ""),
    )


@page("GET")
def download(request: HttpRequest, run_id: str) -> StreamingHttpResponse:
    """Send the records that match as text, oldest first, a line each; times are in UTC."""
    viewer = viewer_of(request)
    run = queries.run(viewer, run_id)
    found = queries.all_logs(viewer, run_id, log_filter_of(request))
    # Errors are raised before anything is sent.
    first = list(islice(found, LINES))
    response = StreamingHttpResponse(_texts(first, found, run.created), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="wfdash-log-{run_id[-8:]}.txt"'
    return response


def _texts(some: list[queries.LogRecord], rest: Iterator[queries.LogRecord], begin: datetime) -> Iterator[str]:
    while some:
        yield "".join(_text_line(record, begin) for record in some)
        some = list(islice(rest, LINES))


def _text_line(record: queries.LogRecord, begin: datetime) -> str:
    """Return a record as text. Its own further lines are indented, so that it cannot pass for another record."""
    at = record.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = HIDDEN if record.text is None else visible(record.text.replace("\r\n", "\n")).replace("\n", "\n    ")
    level, logger = record.level or "-", visible(record.logger).replace("\n", " ")
    return f"{at} {elapsed(record.at - begin)} {level} {record.step} {logger}: {text}\n"
