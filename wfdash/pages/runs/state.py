"""The state inspector: a run's state, input and output as a lazily opened tree, searched and copied."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse

from wfdash.errors import NotFound
from wfdash.pages.runs.header import address, head
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.numbers import number_in
from wfdash.pages.ui import json_tree
from wfdash.pages.ui.fragments import respond
from wfdash.pages.ui.transcript import draw_talk
from wfdash.queries.runs.listing import read_run
from wfdash.queries.runs.values import RunValues, read_run_values
from wfdash.questions.transcript import unpack_transcript

LABELS = (
    ("state", "State"),
    ("input", "Input"),
    ("output", "Output"),
    ("inputs", "Step inputs"),
    ("transcript", "Conversation"),
)
MESSAGES = 100
"""Messages of a conversation on a page."""
FRAGMENTS = {"head": "runs/header/header.html"}


@page("GET")
def state(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show a part of a run's values. ``what``: state, input, output, inputs (of steps in progress) or transcript.

    ``path``: a JSON pointer into it; ``from``: which child comes first; ``find``: a text to search for; ``as=json``:
    the part itself, to be copied; ``fragment=node``: only the rows of a node.
    """
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    part = request.GET.get("what", "state")
    part = part if part in dict(LABELS) else "state"
    if not run.inspect:
        context = head(viewer, run, "state") | {"refused": True}
        return respond(request, "runs/state/page.html", context, FRAGMENTS)
    found = read_run_values(viewer, run_id, part)
    pointer = _pointer(request)
    try:
        value = json_tree.at(found.value, pointer)
    except json_tree.NoSuchNode as error:
        raise NotFound(f"{error}: the run has changed since, or the address is wrong") from error
    begin = number_in(request.GET.get("from", ""))

    def place(at: str, first: int) -> str:
        return address(request, path=at, find="", **{"from": str(first) if first else ""})

    if request.GET.get("as") == "json":
        return HttpResponse(json.dumps(value, indent=2, ensure_ascii=False), content_type="application/json")
    if request.GET.get("fragment") == "node":
        return HttpResponse(json_tree.children(value, place, pointer, begin))
    context = head(viewer, run, "state") | _tree_context(request, found, value, pointer)
    context["tree"] = json_tree.render_tree(value, place, pointer, begin)
    if part == "transcript" and not pointer and found.value:
        until = number_in(request.GET.get("until", "")) or None
        context["talk"] = draw_talk(unpack_transcript(found.value), limit=MESSAGES, until=until)
    return respond(request, "runs/state/page.html", context, FRAGMENTS)


def _tree_context(request: HttpRequest, found: RunValues, value: Any, pointer: str) -> dict[str, Any]:
    text = request.GET.get("find", "").strip()[:200]
    hits, more = json_tree.find(value, text) if text else ((), False)
    top = {"path": "", "find": "", "from": ""}
    labels = [(address(request, **top, what=name), label, name == found.part) for name, label in LABELS]
    return {
        "found": found,
        "labels": labels,
        "pointer": pointer,
        "trail": [(name, address(request, **{**top, "path": at})) for name, at in json_tree.trail(pointer)],
        "top": address(request, **top),
        "find": text,
        "hits": [(hit, address(request, **{**top, "path": pointer + hit.pointer})) for hit in hits],
        "more_hits": more,
        "raw": address(request, **{"as": "json", "find": "", "from": ""}),
    }


def _pointer(request: HttpRequest) -> str:
    pointer = request.GET.get("path", "")[:4000]
    return pointer if pointer.startswith("/") else ""
