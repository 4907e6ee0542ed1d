"""Images and files of a card: read from its evidence, typed by their bytes only. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wfdash.domain.images import MAX_BYTES, TEXT, Picture, is_pdf, media_type_of, picture_of, safe_name, text_of
from wfdash.domain.invisible import visible
from wfdash.pages.ui.json_tree import at
from wfdash.pages.ui.json_value import pretty
from wfdash.pages.ui.text_blocks import TextBlock, block

MAX_PREVIEW = 200_000
_SAYS = {
    TEXT: "Text",
    "application/pdf": "PDF",
    "application/zip": "ZIP archive",
    "application/gzip": "GZIP archive",
    "application/octet-stream": "Binary file",
}


@dataclass(frozen=True, kw_only=True)
class CardMedia:
    """The bytes of an image or a file, and their type. ``picture`` is None for everything that is not shown."""

    name: str
    data: bytes
    media_type: str
    picture: Picture | None = None
    inline: bool = False
    """Whether browsers show it: an image, or a PDF document that its author wants to be shown."""


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """An image or a file, ready to be rendered. ``src`` is what an image is loaded from, ``href`` downloads."""

    name: str
    says: str
    size: int
    alt: str = ""
    width: int = 0
    height: int = 0
    src: str = ""
    href: str = ""
    preview: TextBlock | None = None
    inline: bool = False
    before: Attachment | None = None
    """The earlier version of an image."""


def read_media(piece: Any) -> CardMedia | None:
    """Return the bytes of a piece of evidence; None if it has none, or more than a card may hold."""
    if not isinstance(piece, Mapping) or piece.get("kind") not in {"image", "pdf", "file"}:
        return None
    value = piece.get("value")
    if not isinstance(value, str) or len(value) > MAX_BYTES * 4 // 3 + 4:
        return None
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None
    picture = picture_of(data) if piece["kind"] == "image" else None
    named = str(piece.get("name") or piece.get("title") or piece["kind"])
    ending = f".{picture.media_type.removeprefix('image/')}" if picture and "." not in named else ""
    inline = picture is not None or (piece["kind"] == "pdf" and is_pdf(data))
    name, kind = safe_name(named) + ending, media_type_of(data)
    return CardMedia(name=name, data=data, media_type=kind, picture=picture, inline=inline)


def read_before(piece: Any) -> CardMedia | None:
    """Return the earlier version of an image; None if there is none, or it is no image."""
    earlier = {**piece, "value": piece.get("before")} if isinstance(piece, Mapping) else None
    media = read_media(earlier) if earlier and earlier.get("kind") == "image" else None
    return media if media is not None and media.picture is not None else None


def json_at(card: Mapping[str, Any], number: int, pointer: str) -> CardMedia | None:
    """Return the value of a piece of evidence, or what is in it under a JSON Pointer, as a file; None if it has none.

    ``NoSuchNode`` if nothing is there.
    """
    pieces = card.get("evidence")
    piece = pieces[number] if isinstance(pieces, list) and 0 <= number < len(pieces) else None
    if not isinstance(piece, Mapping) or piece.get("kind") not in ("json", "transcript"):
        return None
    text = pretty(at(piece.get("value"), pointer))
    name = safe_name(str(piece.get("title") or "value")) + ".json"
    return CardMedia(name=name, data=text.encode(errors="backslashreplace"), media_type="application/json")


def media_at(card: Mapping[str, Any], number: int, *, before: bool = False) -> CardMedia | None:
    """Return the bytes of the evidence with that number, counted from zero. ``before``: of its earlier version."""
    pieces = card.get("evidence")
    if not isinstance(pieces, list) or not 0 <= number < len(pieces):
        return None
    return read_before(pieces[number]) if before else read_media(pieces[number])


def attachment(media: CardMedia, alt: str, href: str) -> Attachment:
    """Return an image or a file, ready to be rendered. Without ``href`` an image is part of the page itself."""
    picture = media.picture
    src = ""
    if picture is not None:
        src = href or f"data:{picture.media_type};base64,{base64.b64encode(media.data).decode()}"
    short = len(media.data) <= MAX_PREVIEW and media.media_type == TEXT
    text = text_of(media.data) if short else None
    return Attachment(
        name=media.name,
        says=_SAYS.get(media.media_type, media.media_type.partition(";")[0]),
        size=len(media.data),
        alt=visible(alt),
        width=picture.width if picture else 0,
        height=picture.height if picture else 0,
        src=src,
        href=href,
        preview=block(text) if text else None,
        inline=media.inline,
    )
