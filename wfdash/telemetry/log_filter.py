"""Masks secrets in the log. Imports nothing: logging is set up before everything else."""

from __future__ import annotations

import logging
import re

SECRET = re.compile(r"(/(?:sign-in|answer)/|\bwfd_[a-z0-9]{8}_)[^/\s?\"']+")
"""After a link's path, and after the public part of a token."""


def mask_secrets(text: str) -> str:
    """Return a text without the secrets of links and tokens."""
    return SECRET.sub(r"\1…", text)


class MaskLinks(logging.Filter):
    """Masks the secret of sign-in and answer links, and of tokens: Django logs the URL of every request it refuses."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for every record, after masking its secrets."""
        try:
            text = record.getMessage()
        except Exception:
            return True  # Its handler says so: an exception here would end what logs it.
        if SECRET.search(text):
            record.msg, record.args = mask_secrets(text), ()
        return True
