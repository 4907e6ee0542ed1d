"""The log as JSON: one object a line, whatever the line says (``WFDASH_LOG=json``)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from wfdash.telemetry.log_context import current_facts
from wfdash.telemetry.log_filter import mask_secrets

LONGEST = 6_000
"""Characters of a message, and of a traceback: many collectors cut lines at 16 KB."""


class JsonFormatter(logging.Formatter):
    """Formats records as objects: ``time`` (UTC), ``level``, ``logger``, ``message``, then what ``log_context`` knows.

    ``error`` has ``type``, ``message`` and ``trace``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of ASCII."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": _cut(mask_secrets(record.getMessage())),
            **{name: mask_secrets(text) for name, text in current_facts().items()},
        }
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.exc_info:
            message, trace = mask_secrets(_text(error)), mask_secrets(self.formatException(record.exc_info))
            line["error"] = {"type": type(error).__name__, "message": _cut(message), "trace": _end(trace)}
        if record.stack_info:
            line["stack"] = _end(mask_secrets(record.stack_info))
        # Masked before: in JSON a mask would take the backslash in front of a quotation mark, too.
        return json.dumps(line)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _end(text: str) -> str:
    """Return the end of a traceback: what was raised, and where."""
    return text if len(text) <= LONGEST else "…" + text[1 - LONGEST :]
