"""Settings out of environment variables and options; a value that cannot be meant is refused with what could be."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import re
import sys
import tomllib
from collections.abc import Collection, Mapping, MutableMapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from checkpoints.sql.conninfo import settings_of
from wfdash.installation.location import create_private

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


SETTINGS: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(Path(__file__).with_name("settings.toml").read_text())
"""Every setting by group and name: its kind, default, and what the documentation says of it."""
ALL = {name: row for group in SETTINGS.values() for name, row in group.items()}
SECRETS = (*(name for name, row in ALL.items() if row.get("secret")), "PGPASSWORD")
"""Variables that hold secrets: each may be given as ``NAME_FILE``, the path of a file that holds the value."""
MADE_UP = ("WFDASH_AUDIT_KEY", "WFDASH_METRICS_TOKEN", "WFDASH_SECRET_KEY")
"""Those that people make up; examples of them begin with ``replace``."""


def read_secret_files(env: MutableMapping[str, str]) -> None:
    """Set each secret whose file is named to what that holds, without line ends around it.

    ``ValueError`` where a file cannot be read, and for the text of an example, which everyone knows.
    """
    for name in SECRETS:
        path = env.get(f"{name}_FILE", "")
        if not path:
            continue
        if env.get(name):
            raise ValueError(f"{name} and {name}_FILE are both set: remove one of them")
        try:
            env[name] = Path(path).read_text().strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{name}_FILE: {path} cannot be read: {error}") from None
        del env[f"{name}_FILE"]
    for name in MADE_UP:
        if env.get(name, "").strip().lower().startswith("replace"):
            raise ValueError(f"{name} is the text of an example that everyone knows. Make one: openssl rand -base64 40")


def unknown_settings(env: Mapping[str, str]) -> list[str]:
    """Return of each variable that is called like a setting, and is none, what is wrong with it."""
    known = {*ALL, *(f"{name}_FILE" for name in SECRETS)}
    wrong = sorted(name for name in env if name.startswith("WFDASH_") and name not in known)
    near = {name: get_close_matches(name, known, 1, 0.8) for name in wrong if not name.startswith("WFDASH_OIDC_")}
    return [f"{name} is no setting" + (f": did you mean {near[name][0]}?" if near[name] else "") for name in near]


# How the text of a setting is read, each ``(name, text)``: ``ValueError`` names it and says what could be meant.


def as_list(name: str, text: str, separator: str = ",") -> list[str]:
    """Return the non-empty parts."""
    return [part.strip() for part in text.split(separator) if part.strip()]


def as_flag(name: str, text: str) -> bool:
    """Return yes or no; anything but 0/1 is refused so that a typo cannot pick a default."""
    if text not in {"0", "1"}:
        raise ValueError(f"{name} must be 0 or 1, not {text!r}")
    return text == "1"


def as_choice(name: str, text: str, known: Collection[str]) -> str:
    """Return one of the known values."""
    if text not in known:
        raise ValueError(f"{name} must be {' or '.join(known)}, not {text!r}")
    return text


def as_level(name: str, text: str) -> int | None:
    """Return a logging level by its name; None for ``OFF``."""
    value, known = text.upper(), logging.getLevelNamesMapping()
    if value != "OFF" and value not in known:
        raise ValueError(f"{name} must be DEBUG, INFO, WARNING, ERROR, CRITICAL or OFF, not {value!r}")
    return known.get(value)


def as_seconds(name: str, text: str, *, unit: str = "seconds") -> float:
    """Return seconds, or another unit; anything but a number from 0 up is refused."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{name} must be {unit}, 0 or more, not {text!r}")
    return seconds


def as_count(name: str, text: str) -> int:
    """Return a number from 1 up; anything else is refused."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError(f"{name} must be a number from 1 up, not {text!r}")
    return int(text)


def as_address(name: str, text: str) -> str:
    """Return the address of a web page, without a slash at its end; empty if it is not set."""
    address = text.rstrip("/")
    if address and not re.match(r"https?://[^\s/]", address):
        raise ValueError(f"{name} must be an address that begins with https:// or http://, not {address!r}")
    return address


def as_networks(name: str, text: str) -> list[Network]:
    """Return IP addresses and networks."""
    try:
        return [ipaddress.ip_network(part) for part in as_list(name, text)]
    except ValueError as error:
        raise ValueError(f"{name} must list addresses or networks, like 127.0.0.1,10.0.0.0/8: {error}") from None


def address_parts(name: str, url: str) -> SplitResult:
    """Return the parts of an address. ``ValueError``, which quotes nothing of it, if it cannot be read."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # read from the text only now
    except ValueError:
        words = "write / ? # of its password as %2F %3F %23, and its port as digits"
        raise ValueError(f"{name} is no address: {words}") from None
    return parts


REDIS = ("redis://", "rediss://", "unix://")


def signals_of(value: str, *, on_postgres: bool) -> str:
    """Return what carries signals between processes, from the setting: ``postgres``, ``off``, or the address of a
    Redis. ``ValueError``.
    """
    if value.startswith(REDIS):
        if not _is_installed("redis"):
            raise ValueError("WFDASH_SIGNALS is the address of a Redis, which needs: pip install 'wfdash[redis]'")
        address_parts("WFDASH_SIGNALS", value)
        return value
    if value not in {"", "off", "postgres"}:
        # Not the value: it may hold a password.
        raise ValueError(
            "WFDASH_SIGNALS must be postgres, off, or redis://, rediss:// or unix:// with the address of a Redis; "
            "empty: postgres where that is the database"
        )
    if value == "postgres" and not on_postgres:
        raise ValueError("WFDASH_SIGNALS is postgres, and the database is not: set WFDASH_DATABASE, or leave it empty")
    return value or ("postgres" if on_postgres else "off")


def hints_of(value: str, *, on_postgres: bool, broker: str = "") -> str:
    """Return what carries hints to workers, from the setting: ``procrastinate``, ``celery``, or empty: signals.
    ``ValueError``.
    """
    if value not in {"", "procrastinate", "celery"}:
        raise ValueError(f"WFDASH_HINTS must be procrastinate, celery or empty, not {value!r}")
    if value and not on_postgres:
        raise ValueError(f"WFDASH_HINTS is {value}, which needs PostgreSQL: set WFDASH_DATABASE or leave it empty")
    package, extra = {"celery": ("kombu", "celery"), "procrastinate": ("procrastinate", "cluster")}.get(value, ("", ""))
    if package and not _is_installed(package):
        raise ValueError(f"WFDASH_HINTS is {value}, which is not installed: pip install 'wfdash[{extra}]'")
    if value == "celery" and "://" not in broker:
        raise ValueError("WFDASH_HINTS is celery: set WFDASH_BROKER to the broker's address, as redis:// or amqp://")
    address_parts("WFDASH_BROKER", broker)
    return value


def _is_installed(package: str) -> bool:
    # One that is imported may have no specification to be found by.
    return package in sys.modules or find_spec(package) is not None


# Settings that must not be served to others, each with its remedy.


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach what listens on the host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def refusals(*, host: str, demo: bool, env: Mapping[str, str]) -> list[str]:
    """Return why a server must not start; empty for one that only this machine can reach.

    ``env`` contains the ``WFDASH_*`` variables. With ``WFDASH_HTTPS=1`` a proxy exposes it to others on any address.
    """
    beyond, https = not is_loopback(host), env.get("WFDASH_HTTPS") == "1"
    if not beyond and not https:
        return []
    hosts = as_list("WFDASH_HOSTS", env.get("WFDASH_HOSTS", ""))
    private = env.get("WFDASH_PLAIN_HTTP") == "1"
    found = {
        "Set WFDASH_HOSTS to the host names people will use, like WFDASH_HOSTS=flows.example.org": not hosts,
        "WFDASH_HOSTS=* accepts every host name. List the host names people will use": "*" in hosts,
        "WFDASH_DEBUG=1 shows settings and code on error pages. Remove it": env.get("WFDASH_DEBUG") == "1",
        "--demo adds well-known accounts, including an administrator. Remove it and start with a new data "
        "directory (--data)": demo,
        "--reload runs whatever is saved in a file at once. Remove it": env.get("WFDASH_RELOAD") == "1",
        "Passwords and answers would be sent unencrypted. Use an HTTPS proxy and set WFDASH_HTTPS=1, or set "
        "WFDASH_PLAIN_HTTP=1 if the network is private": not https and not private,
    }
    return [words for words, wrong in found.items() if wrong]


def refusal_text(found: list[str], host: str) -> str:
    """Return the text to print, with the remedies as a list."""
    lines = "".join(f"\n  - {words}" for words in found)
    reason = f"this server would be reachable by others (it would listen on {host}), and the configuration is unsafe"
    return f"Not started: {reason}:{lines}"


# Which database ``WFDASH_DATABASE`` names, as Django's setting.

PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA journal_size_limit=67108864;"


def read_database(folder: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return Django's setting of the database: PostgreSQL from a URL, or SQLite in ``folder``, for durable commits.

    ``ValueError`` for an address of another database. Where a direct address is given too, the usual one is a pooler's.
    """
    url = env.get("WFDASH_DATABASE", "")
    if not url:
        options = {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": PRAGMAS}
        create_private(folder / "wfdash.sqlite3")  # SQLite gives the files beside it the same mode
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "wfdash.sqlite3"), "OPTIONS": options}
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        given = f"{parts.scheme}://" if parts.scheme else "a value without a scheme"
        raise ValueError(
            f"WFDASH_DATABASE: {given} is not supported. Give postgresql://..., or leave it empty for SQLite"
        )
    return settings_of(url, pooled=bool(env.get("WFDASH_DATABASE_DIRECT")))


# The options of a worker process, for every command that starts one.


def add_worker_options(parser: argparse.ArgumentParser) -> None:
    """Add ``limit`` (None: as the settings say), ``workflows`` and ``queues`` (names; empty: as the settings say)."""
    parser.add_argument(
        "--limit", type=_count, metavar="N", help="execute so many runs at once at most: $WFDASH_LIMIT (500)"
    )
    parser.add_argument(
        "--workflows",
        type=_names,
        default=(),
        metavar="NAME,...",
        help="take runs of these workflows alone: $WFDASH_SERVES (default: of all that are loaded)",
    )
    parser.add_argument(
        "--queues",
        type=_names,
        default=(),
        metavar="NAME,...",
        help="take runs of workflows of these queues alone: $WFDASH_QUEUES (default: of any)",
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text} is no number of runs: give 1 or more")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(as_list("names", text))
    if not names:
        raise argparse.ArgumentTypeError("there is no name in it")
    return names
