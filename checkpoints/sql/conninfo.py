"""PostgreSQL's connection parameters: from a URL to Django's settings, and from those to psycopg's parameters.

All parameters of libpq (``sslmode``, ``sslrootcert``, ``connect_timeout``, ``target_session_attrs``, ``options`` ...)
apply to both Django's connections and the storage's own. Unknown ones are refused, never dropped.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from checkpoints.errors import InvalidConfig

DJANGO = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
"""libpq's names of parameters for which Django has its own setting."""
DJANGO_ONLY = frozenset({"client_encoding", "cursor_factory", "isolation_level", "server_side_binding"})
"""Django's ``OPTIONS`` that say how Django uses a connection, not where it leads."""
OF_DRIVER = frozenset({"prepare_threshold"})
"""Parameters of psycopg that are not libpq's."""
PATIENCE: Mapping[str, int] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}
"""How soon a server that is unreachable is given up (seconds, the last one milliseconds): what waits for it would hang
for hours, and the work that one leading worker does for all with it.
"""


def settings_of(url: str, *, name: str = "WFDASH_DATABASE", pooled: bool = False) -> dict[str, Any]:
    """Return Django's setting of a database for a ``postgresql://`` URL, its query as ``OPTIONS``.

    ``InvalidConfig`` for what libpq does not know, naming the parameter and the setting (``name``), never the
    password. ``options=`` (empty) sends no ``options`` at all. ``pooled``: the URL leads to a pooler, which refuses
    ``options`` and shares its connections after each transaction; ``prepare_threshold=none`` says the same.
    """
    query = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    refuse_unknown(set(query) - set(DJANGO), name)
    found = {key: value for key, value in parsed(url, name).items() if value}
    found |= {key: read_threshold(query[key], name) for key in OF_DRIVER & query.keys()}
    main = {key: str(found.pop(key, "")) for key in DJANGO}
    if pooled:
        found.setdefault("prepare_threshold", None)
    elif "options" not in query:
        found["options"] = "-c jit=off"  # Compiling a list's query takes longer than running it.
    # Django's own default plans a statement each time, which is most of what the small ones of a page cost.
    alone = found.setdefault("prepare_threshold", 5) is not None
    found = {"fallback_application_name": application_name("pages"), **PATIENCE, **found}
    return {
        "ENGINE": "django.db.backends.postgresql",
        **{DJANGO[key]: value for key, value in main.items()},
        "DISABLE_SERVER_SIDE_CURSORS": not alone,
        "OPTIONS": found | {"server_side_binding": alone},
    }


def parsed(url: str, name: str) -> dict[str, Any]:
    """Return libpq's parameters of the URL, without psycopg's own."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    base, _, query = url.partition("?")
    kept = [part for part in query.split("&") if part and part.split("=")[0] not in OF_DRIVER]
    try:
        return dict(conninfo_to_dict(f"{base}?{'&'.join(kept)}" if kept else base))
    except psycopg.ProgrammingError:
        # The driver's message may quote the password.
        text = f"{name} is no URL that PostgreSQL understands: postgresql://user:password@host:port/name?sslmode=..."
        raise InvalidConfig(f"{text} (write special characters as %40 and the like)") from None


def read_threshold(text: str, name: str) -> int | None:
    """Return psycopg's ``prepare_threshold``: None for ``none``, else a number from 0 up."""
    if text.lower() == "none":
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidConfig(f"{name}: prepare_threshold must be none or a number from 0 up, not {text!r}")
    return int(text)


def parameters_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return psycopg's parameters for the storage's own connections from Django's setting of a database.

    ``InvalidConfig`` for an unknown option. A pool of Django's (``OPTIONS["pool"]``) is used by Django only. Without
    server-side cursors, which is how Django is set up behind a pooler, statements are not prepared either.
    """
    options = {key: value for key, value in (settings.get("OPTIONS") or {}).items() if key not in DJANGO_ONLY}
    options.pop("pool", None)
    if role := options.pop("assume_role", None):
        options["options"] = f"{options.get('options', '')} -c role={escaped(role)}".strip()
    if settings.get("DISABLE_SERVER_SIDE_CURSORS"):
        options.setdefault("prepare_threshold", None)
    refuse_unknown(set(options), "DATABASES")
    main = {key: settings[given] for key, given in DJANGO.items() if settings.get(given)}
    fixed = {"client_encoding": "UTF8", "fallback_application_name": application_name("storage")}
    return {**PATIENCE, **options} | main | fixed


def escaped(value: str) -> str:
    """Return a value escaped for ``options``: blanks and backslashes get a backslash."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def refuse_unknown(names: set[str], setting: str) -> None:
    """Raise ``InvalidConfig`` for parameters that neither libpq nor psycopg has."""
    from psycopg.pq import Conninfo

    known = {option.keyword.decode() for option in Conninfo.get_defaults()} | OF_DRIVER
    unknown = sorted(names - known)
    if unknown:
        text = f"{setting}: unknown PostgreSQL option {', '.join(map(repr, unknown))}"
        raise InvalidConfig(f"{text}: use those of libpq (sslmode, sslrootcert, connect_timeout, options ...)")


def application_name(part: str) -> str:
    """Return the name under which an operator finds this process's connections in ``pg_stat_activity``.

    ``part`` says what they are for: ``wfdash worker storage host:pid``.
    """
    words = ["wfdash", *filter(None, (process_role(),)), part]
    return f"{' '.join(words)} {socket.gethostname()[:30]}:{os.getpid()}"


def process_role() -> str:
    """Return what this process does (``web``, ``worker`` ...), as ``be_process`` was called with; empty if never."""
    return _role[-1]


def be_process(role: str) -> None:
    """Say what this process does, for the names of connections that are opened from now on."""
    _role[:] = [role]


_role = [""]
