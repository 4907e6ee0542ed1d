"""Deceiving characters, made visible: controls, zero-width and bidirectional marks. Pure."""

from __future__ import annotations

import json
import re
import unicodedata

_DECEIVING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return text in which no character is invisible: ``\\x00`` becomes ``␀``, an override becomes ``[U+202E]``."""
    return _DECEIVING.sub(lambda found: _visible_name(found.group()), text) if _DECEIVING.search(text) else text


def _visible_name(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"[U+{code:04X}]"


def escaped(text: str) -> str:
    """Return the same JSON text in which no character is invisible: an override becomes ``\\u202e``."""
    return _DECEIVING.sub(lambda found: json.dumps(found.group())[1:-1].replace("\x7f", "\\u007f"), text)


def is_deceiving(text: str) -> bool:
    """Return whether the text contains a character that ``visible`` would replace, line ends aside."""
    return any(unicodedata.category(char) in {"Cc", "Cf", "Cs"} for char in _DECEIVING.findall(text) if char != "\r")
