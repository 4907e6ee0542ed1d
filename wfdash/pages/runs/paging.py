"""What the pages of a run's events and of its log share: which part is shown, its links, and downloads in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Protocol, TypeVar

from django.http import HttpRequest, StreamingHttpResponse

from wfdash.pages.runs.header import address
from wfdash.pages.site.numbers import number_in
from wfdash.pages.ui.event_text import step_label
from wfdash.queries.runs.events import LEVELS
from wfdash.queries.runs.listing import RunView
from wfdash.queries.workflows import description_of

T = TypeVar("T")
LINES = 500
"""Lines of a download that are sent at a time."""


class Part(Protocol):
    """A part of what happened in a run; ``older`` and ``newer``: where the next ones begin, 0 where there is none."""

    @property
    def older(self) -> int: ...
    @property
    def newer(self) -> int: ...
    @property
    def partly(self) -> bool: ...


def following_in(request: HttpRequest) -> int | None:
    """Return ``after`` of an address: what the part follows; None if it names none."""
    after = request.GET.get("after", "")
    return number_in(after) if after.isascii() and after.isdigit() else None


def level_in(request: HttpRequest) -> str:
    """Return the log level of an address; empty if it names none that there is."""
    level = request.GET.get("level", "").upper()
    return level if level in LEVELS else ""


def text_in(request: HttpRequest, name: str, most: int = 200) -> str:
    """Return a text of an address, cut to ``most`` characters, without NUL."""
    return request.GET.get(name, "")[:most].replace("\0", "")


def search_in(request: HttpRequest) -> str:
    """Return the text that an address looks for."""
    return request.GET.get("q", "").strip()[:200].replace("\0", "")


def step_titles(run: RunView) -> dict[str, str]:
    """Return the steps of a run's workflow by name, each with its title."""
    described = description_of(run.workflow, run.version)
    return {step.name: step.title or step_label(step.name) for step in described.steps} if described else {}


def part_context(request: HttpRequest, run: RunView, found: Part) -> dict[str, Any]:
    """Return the links of a part, and ``at_end``: whether it is the newest one, which alone is updated live."""
    at_end = not found.newer or found.newer >= run.seq
    return {
        "levels": LEVELS,
        "last_seq": run.seq,
        "at_end": at_end,
        "older": address(request, before=str(found.older)) if found.older > 1 else "",
        "newer": "" if at_end else address(request, after=str(found.newer)),
        "newest": "" if at_end else address(request),
        "partly": found.partly,
        "kept": address(request),
    }


def download_of(
    rows: Iterator[T], text_of: Callable[[T], str], *, name: str, content_type: str
) -> StreamingHttpResponse:
    """Return a download with a text for each row. Errors of the first rows are raised before anything is sent."""
    response = StreamingHttpResponse(_texts(list(islice(rows, LINES)), rows, text_of), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _texts(some: list[T], rest: Iterator[T], text_of: Callable[[T], str]) -> Iterator[str]:
    while some:
        yield "".join(map(text_of, some))
        some = list(islice(rest, LINES))
