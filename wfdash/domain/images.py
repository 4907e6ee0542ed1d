"""Types of a card's files, by content only: the few images a page may show, and the type of a download. Pure.

Neither a name nor a declared type is trusted: bytes that only claim to be an image stay a download, and no download
gets a type that a browser would run.
"""

from __future__ import annotations

import re
import struct

from checkpoints.records import frozen

MAX_BYTES = 2_000_000
"""Maximum size of one image or file of a card."""
MAX_PIXELS = 50_000_000
"""A small file can unpack into an image that crashes a browser; beyond this it is a download."""
BINARY = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"

_MARKS = ((b"%PDF-", "application/pdf"), (b"PK\x03\x04", "application/zip"), (b"\x1f\x8b", "application/gzip"))
_ODD_NAME = re.compile(
    '[\x00-\x1f\x7f-\x9f<>:"/\\\\|?*\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]'
)
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


@frozen
class Picture:
    """An image that may be shown: its type, width and height in pixels."""

    media_type: str
    width: int
    height: int


def picture_of(data: bytes) -> Picture | None:
    """Return the bytes as an image: PNG, JPEG, GIF or WebP of a sane size; None for anything else (SVG too)."""
    try:
        kind, (width, height) = _measure(data)
    except (struct.error, IndexError):
        return None
    if not kind or not 0 < width * height <= MAX_PIXELS:
        return None
    return Picture(media_type=kind, width=width, height=height)


def media_type_of(data: bytes) -> str:
    """Return a type that is safe to send: an image, PDF, archive, plain text, or plain bytes."""
    picture = picture_of(data)
    if picture is not None:
        return picture.media_type
    marked = next((kind for mark, kind in _MARKS if data.startswith(mark)), "")
    return marked or (TEXT if text_of(data) is not None else BINARY)


def is_pdf(data: bytes) -> bool:
    """Return whether the bytes begin as a PDF document does."""
    return data.startswith(b"%PDF-")


def text_of(data: bytes) -> str | None:
    """Return the bytes as text when they are UTF-8 without control characters, else None."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if re.search("[\x00-\x08\x0e-\x1f]", text) else text


def safe_name(name: str, default: str = "file") -> str:
    """Return a file name without folders and without characters that are invisible or that file systems refuse."""
    last = re.split(r"[\\/]", name)[-1]
    return _ODD_NAME.sub("_", last).strip(". ")[-120:] or default


def _measure(data: bytes) -> tuple[str, tuple[int, int]]:
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        return "image/png", struct.unpack(">II", data[16:24])
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif", struct.unpack("<HH", data[6:10])
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp", _webp_size(data)
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg", _jpeg_size(data)
    return "", (0, 0)


def _webp_size(data: bytes) -> tuple[int, int]:
    form = data[12:16]
    if form == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if form == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack("<HH", data[26:30])
    return (width & 0x3FFF, height & 0x3FFF) if form == b"VP8 " else (0, 0)


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Return the size from the first segment that contains it."""
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in _FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int(struct.unpack(">H", data[at + 2 : at + 4])[0])
    return 0, 0
