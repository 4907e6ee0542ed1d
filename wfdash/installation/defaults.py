"""What wfdash's settings are in a project that sets none of them; a project of its own has ``wfdash.settings``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from logging.config import DictConfigurator
from pathlib import Path
from typing import Any

from checkpoints.config import CheckpointConfig

ENGINES = (
    "wfdash.engines.native.NativeEngine",
    "wfdash.engines.agent_framework.AgentFrameworkEngine",
    "wfdash.engines.langgraph.LangGraphEngine",
)
"""The engines that come with wfdash. None imports a framework before a file with workflows of it has."""

DEFAULTS: Mapping[str, Any] = {
    "WFDASH_ARCHIVE": "",
    "WFDASH_APPRISE": {},
    "WFDASH_ASK_PEOPLE": True,
    "WFDASH_AUDIT_KEY": "",
    "WFDASH_BROKER": "",
    "WFDASH_BUDGETS": {},
    "WFDASH_CURRENCY": "USD",
    "WFDASH_DATABASE_ALIAS": "",
    "WFDASH_DATABASE_DIRECT": "",
    "WFDASH_DOCS": "",
    "WFDASH_CLAIM_SECONDS": 4,
    "WFDASH_DRAIN": None,
    "WFDASH_DURABILITY": "full",
    "WFDASH_EMBED": True,
    "WFDASH_ENCRYPTION_KEYS": "",
    "WFDASH_ENGINES": list(ENGINES),
    "WFDASH_HINTS": "",
    "WFDASH_HOLD": False,
    "WFDASH_HOOKS_HOSTS": [],
    "WFDASH_HOOKS_LOCAL": False,
    "WFDASH_HTTPS": False,
    "WFDASH_KEEP_RUNS": None,
    "WFDASH_KNOWN_COOKIE": "wfdash_known",
    "WFDASH_LIMIT": 500,
    "WFDASH_LINKS": True,
    "WFDASH_LINK_DAYS": 7.0,
    "WFDASH_LOG": "text",
    "WFDASH_LOG_LEVEL": logging.INFO,
    "WFDASH_MAIL": "",
    "WFDASH_MAX_BODY": 12_000_000,
    "WFDASH_METRICS_TOKEN": "",
    "WFDASH_OIDC": None,
    "WFDASH_OIDC_PROBLEMS": (),
    "WFDASH_ON_ERROR": "",
    "WFDASH_OTEL": False,
    "WFDASH_PASSWORDS": True,
    "WFDASH_PRICES": {},
    "WFDASH_PROXIES": [],
    "WFDASH_PUSH_KEY": "",
    "WFDASH_RELOAD": False,
    "WFDASH_REQUIRE_SECOND_FACTOR": False,
    "WFDASH_RETENTION": CheckpointConfig.dashboard(),
    "WFDASH_QUEUES": [],
    "WFDASH_SERVES": [],
    "WFDASH_SHOW_CODE": True,
    "WFDASH_SIGNALS": "",
    "WFDASH_SIGN_IN": False,
    "WFDASH_UNDO": 10.0,
    "WFDASH_UNSIGNED_PICKLES": False,
    "WFDASH_URL": "http://localhost:8000",
    "WFDASH_WORKFLOWS": [],
}


def has_workflows(app: str) -> bool:
    """Return whether an app has a module ``workflows``."""
    try:
        return find_spec(f"{app}.workflows") is not None
    except (ImportError, ValueError):
        return False


def add_defaults(settings: Any, *, apps: Iterable[str]) -> None:
    """Set what a project's settings leave out. Workflows are those of its ``apps``; data is in ``wfdash-data``."""
    base = Path(getattr(settings, "BASE_DIR", Path.cwd()))
    found: dict[str, Any] = {"WFDASH_DATA_DIR": base / "wfdash-data"}
    found["WFDASH_APPS"] = [app for app in apps if has_workflows(app)]
    for name, value in {**DEFAULTS, **found}.items():
        if not hasattr(settings, name):
            setattr(settings, name, value)


# Django's ``LOGGING``: what is logged, and how a line looks.

FORMATS: Mapping[str, dict[str, Any]] = {
    "text": {
        "()": "wfdash.telemetry.logs.LineFormatter",
        "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
    },
    "json": {"()": "wfdash.telemetry.logs.JsonFormatter"},
}
"""``WFDASH_LOG`` -> how a line is formatted."""
FILTERS = {
    "outages": {"()": "wfdash.telemetry.logs.FoldOutages"},
    "links": {"()": "wfdash.telemetry.logs.MaskLinks"},
    "repeats": {"()": "wfdash.telemetry.logs.LimitRepeats"},
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
