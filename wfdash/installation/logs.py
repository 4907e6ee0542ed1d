"""Django's ``LOGGING``: what is logged, and how a line looks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from logging.config import DictConfigurator
from typing import Any

FORMATS: Mapping[str, dict[str, Any]] = {
    "text": {
        "()": "wfdash.telemetry.log_format.LineFormatter",
        "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
    },
    "json": {"()": "wfdash.telemetry.json_lines.JsonFormatter"},
}
"""``WFDASH_LOG`` -> how a line is formatted."""
FILTERS = {
    "outages": {"()": "wfdash.telemetry.outages.FoldOutages"},
    "links": {"()": "wfdash.telemetry.log_filter.MaskLinks"},
    "repeats": {"()": "wfdash.telemetry.log_format.LimitRepeats"},
}
OURS = ("wfdash", "checkpoints")


def logging_settings(format_: str, level: int) -> dict[str, Any]:
    """Return the setting. ``format_`` is one of ``FORMATS``; ``level`` is for what wfdash says of itself."""
    console = {"class": "logging.StreamHandler", "formatter": "line", "filters": [*FILTERS]}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": FILTERS,
        "formatters": {"line": FORMATS[format_]},
        "handlers": {"console": console},
        "loggers": {
            **{name: {"handlers": ["console"], "level": level} for name in OURS},
            "django": {"handlers": ["console"], "level": max(level, logging.WARNING)},
        },
    }


def guard_last_resort(format_: str) -> None:
    """Write records that no handler is set for, of steps and libraries, in the same way."""
    last = logging.lastResort
    if last is not None and not last.filters:
        parts = DictConfigurator({})
        # Of copies: what is configured loses a key.
        last.setFormatter(parts.configure_formatter(dict(FORMATS[format_])))
        for given in FILTERS.values():
            last.addFilter(parts.configure_filter(dict(given)))
