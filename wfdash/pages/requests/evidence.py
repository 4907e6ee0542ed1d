"""The images and files of a card: for people who may see the request, and never run by a browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.http import content_disposition_header

from wfdash.errors import NotFound
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.ui.card import CardMedia, json_at, media_at
from wfdash.pages.ui.json_tree import NoSuchNode
from wfdash.queries.requests.request import read_request

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
DOCUMENT = {
    **HEADERS,
    # In a sandbox browsers do not show PDF documents at all. Nothing else can be loaded, and only a card frames it.
    "Content-Security-Policy": "default-src 'none'; object-src 'self'; frame-ancestors 'self'",
    "X-Frame-Options": "SAMEORIGIN",
}


@page("GET")
def evidence(request: HttpRequest, request_id: str, number: int) -> HttpResponse:
    """Send an image or a PDF to be shown, or a file to be saved. ``number``: which piece of evidence, from zero.

    The type is detected from the content, and for a file never one that a browser shows; ``download`` saves the others
    too. ``before``: the earlier version of an image. A value is sent as JSON, or what of it is ``at`` a JSON Pointer.
    """
    found = read_request(viewer_of(request), request_id)
    media = _media(request, found.card, number) if found.shown else None
    if media is None:
        raise NotFound("This request has no such image or file")
    attached = not media.inline or "download" in request.GET
    headers = HEADERS if attached or media.picture else DOCUMENT
    response = HttpResponse(media.data, content_type=media.media_type, headers=headers)
    response["Content-Disposition"] = content_disposition_header(attached, media.name) or "attachment"
    return response


def _media(request: HttpRequest, card: Mapping[str, Any], number: int) -> CardMedia | None:
    try:
        value = json_at(card, number, request.GET.get("at", ""))
    except NoSuchNode as error:
        raise NotFound(str(error)) from None
    return value or media_at(card, number, before="before" in request.GET)
