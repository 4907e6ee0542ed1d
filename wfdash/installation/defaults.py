"""What wfdash's settings are in a project that sets none of them; a project of its own has ``wfdash.settings``."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from logging.config import DictConfigurator
from pathlib import Path
from typing import Any

from checkpoints.config import CheckpointConfig
from checkpoints.errors import InvalidConfig
from checkpoints.rules import read_pairs
from wfdash.installation.environment import (
    ALL,
    as_address,
    as_choice,
    as_count,
    as_flag,
    as_level,
    as_list,
    as_networks,
    as_seconds,
)
from wfdash.installation.keep_rules import read_keep_rules

ENGINES = (
    "wfdash.engines.native.NativeEngine",
    "wfdash.engines.agent_framework.AgentFrameworkEngine",
    "wfdash.engines.langgraph.LangGraphEngine",
)
"""The engines that come with wfdash. None imports a framework before a file with workflows of it has."""

FORMATS: Mapping[str, dict[str, Any]] = {
    "text": {
        "()": "wfdash.telemetry.logs.LineFormatter",
        "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
    },
    "json": {"()": "wfdash.telemetry.logs.JsonFormatter"},
}
"""``WFDASH_LOG`` -> how a line is formatted."""


def read_retention(name: str, text: str) -> CheckpointConfig:
    """Return which checkpoints are kept; ``InvalidConfig``."""
    try:
        return CheckpointConfig.read(text) if text else CheckpointConfig.dashboard()
    except InvalidConfig as error:
        raise InvalidConfig(f"{name}: {error}") from None


def read_apprise(name: str, text: str) -> dict[str, list[str]]:
    """Return the addresses of Apprise by user name."""
    try:
        found: dict[str, list[str]] = json.loads(text or "{}")
    except ValueError as error:
        raise ValueError(f'{name} must be JSON, like {{"ana": ["ntfy://topic"]}}: {error}') from None
    return found


READERS: Mapping[str, Callable[[str, str], Any]] = {
    "address": as_address,
    "apprise": read_apprise,
    "budgets": partial(read_pairs, least=1),
    "count": as_count,
    "days": partial(as_seconds, unit="days"),
    "drain": lambda name, text: as_seconds(name, text) if text else None,
    "engines": lambda name, text: [*ENGINES, *as_list(name, text)],
    "flag": as_flag,
    "format": lambda name, text: as_choice(name, text, FORMATS),
    "hosts": lambda name, text: as_list(name, text.lower()),
    "keep": lambda name, text: read_keep_rules(text),
    "level": as_level,
    "list": as_list,
    "networks": as_networks,
    "paths": partial(as_list, separator=os.pathsep),
    "prices": partial(read_pairs, least=2),
    "retention": read_retention,
    "seconds": as_seconds,
    "text": lambda name, text: text,
}
"""Kind of a setting -> how its text is read."""


def read_settings(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of the table that are read by their kind. ``ValueError``, ``InvalidConfig`` name the one."""
    return {
        name: READERS[row["kind"]](name, env.get(name) or row.get("default", ""))
        for name, row in ALL.items()
        if "kind" in row
    }


DEFAULTS: Mapping[str, Any] = read_settings({}) | {
    "WFDASH_DATABASE_ALIAS": "",
    "WFDASH_KNOWN_COOKIE": "wfdash_known",
    "WFDASH_MAX_BODY": 12_000_000,
    "WFDASH_OIDC": None,
    "WFDASH_OIDC_PROBLEMS": (),
    "WFDASH_SIGN_IN": False,
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


# Django's ``LOGGING``: what is logged.

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
