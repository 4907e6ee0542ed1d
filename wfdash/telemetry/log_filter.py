"""Masks secrets in the log. Imports nothing: logging is set up before everything else."""

from __future__ import annotations

import logging
import re

LINK = re.compile(r"(/(?:sign-in|answer)/)[^/\s?\"']+")


class MaskLinks(logging.Filter):
    """Masks the secret of sign-in and answer links: Django logs the URL of every request it refuses."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for every record, after masking its secrets."""
        text = record.getMessage()
        if LINK.search(text):
            record.msg, record.args = LINK.sub(r"\1…", text), ()
        return True
