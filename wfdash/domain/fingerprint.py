"""The fingerprint of what a person was shown: an answer is bound to it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from checkpoints.content.canonical_json import dumps


def fingerprint(card: Mapping[str, Any], answer_schema: Mapping[str, Any]) -> str:
    """Return 64 hexadecimal digits that change with any part of the card or of the form."""
    return sha256(dumps([card, answer_schema])).hexdigest()
