"""The part of the installation that needs no database: versions, keys, the data directory, settings."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sqlite3
import stat
from pathlib import Path
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.checks import ERROR, WARNING, run_checks

import wfdash
from checkpoints.content.encryption import encryptor_of, keys_in
from checkpoints.database.installation_key import fingerprint
from wfdash.cli.doctor import Examine, Findings, advice, ok, problem
from wfdash.installation.environment import is_loopback, unknown_settings
from wfdash.installation.location import other_owners
from wfdash.notifications.letters import Undeliverable
from wfdash.notifications.slack import call

GIGABYTE = 1024**3
NETWORKED = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "glusterfs", "ceph"}
FILES = 4096
"""Open files that suffice for a thousand viewers of one server."""
SALT = b"wfdash doctor"
"""The same everywhere, so that two machines can be compared."""


def versions() -> Findings:
    """Say what is installed."""
    parts = [f"wfdash {wfdash.__version__}", f"Python {platform.python_version()}", f"Django {django.__version__}"]
    yield ok("versions", ", ".join([*parts, f"SQLite {sqlite3.sqlite_version}", platform.platform(terse=True)]))
    if words := other_owners():
        yield problem("versions", words, why="wfdash does not start.", remedy="Remove the other, then do so.")


def variables() -> Findings:
    """Look for variables that are called like settings and are none."""
    for words in unknown_settings(os.environ):
        why = "It changes nothing, and the person who set it believes that it does."
        yield problem("settings", words, why=why, remedy="Correct its name, or remove it.")


def keys() -> Findings:
    """Say which keys are used, so that those of two machines can be compared."""
    from_env = "WFDASH_SECRET_KEY" in os.environ
    place = "WFDASH_SECRET_KEY" if from_env else str(Path(settings.WFDASH_DATA_DIR) / "secret_key")
    former = len(settings.SECRET_KEY_FALLBACKS)
    more = f", {former} former" if former else ""
    yield ok("keys", f"secret key {_short(settings.SECRET_KEY)} of {place}{more}")
    if len(settings.SECRET_KEY) < 32:
        yield problem(
            "keys",
            f"the secret key has {len(settings.SECRET_KEY)} characters",
            why="It signs sessions and links; a short one can be found by trying.",
            remedy="Set WFDASH_SECRET_KEY to 50 random characters, and the former in WFDASH_SECRET_KEY_FALLBACKS.",
        )
    ciphers = keys_in(settings.WFDASH_ENCRYPTION_KEYS)
    encryptor_of(settings.WFDASH_ENCRYPTION_KEYS)
    content = f"content is encrypted with the first of {len(ciphers)} keys" if ciphers else "content is not encrypted"
    audit = "has a key of its own" if settings.WFDASH_AUDIT_KEY else "is signed with a key derived from the secret key"
    yield ok("keys", f"{content}; the audit {audit}")


def data_directory() -> Findings:
    """Look at rights, room and file system of the data directory."""
    folder = Path(settings.WFDASH_DATA_DIR)
    names = ("secret_key", "push_key", "wfdash.sqlite3")
    others = [
        path
        for path in (folder, *map(folder.joinpath, names))
        if path.exists() and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    ]
    if others:
        yield problem(
            "data",
            f"open to other users: {', '.join(map(str, others))}",
            why="Who reads the key can sign in as anyone; who reads the database reads all content.",
            remedy=f"chmod -R go= {folder}",
        )
    usage = shutil.disk_usage(folder)
    room = f"{folder}: {usage.free / GIGABYTE:.1f} GB of {usage.total / GIGABYTE:.0f} GB free"
    if usage.free < GIGABYTE:
        yield (problem if usage.free < GIGABYTE / 5 else advice)(
            "data",
            room,
            why="Without room commits fail and runs wait.",
            remedy="Make room, or set WFDASH_KEEP_RUNS so that old runs are deleted.",
        )
    else:
        yield ok("data", room)
    if not settings_name_postgres() and (kind := file_system_of(folder, Path("/proc/mounts"))) in NETWORKED:
        yield problem(
            "data",
            f"{folder} is on {kind}",
            why="SQLite needs locks and shared memory of a local disk: on a network it loses data.",
            remedy="Move the data directory to a local disk, or use PostgreSQL (WFDASH_DATABASE).",
        )


def open_files() -> Findings:
    """Say how many files, connections among them, a process may open that is started as this one is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < FILES:
        yield advice(
            "files",
            f"a process may open {hard} files, connections among them",
            why="At the limit nothing is answered, probes included. Each viewer needs one or two.",
            remedy=f"Set LimitNOFILE={FILES} in the unit, or raise it with ulimit -Hn.",
        )
    else:
        yield ok("files", f"a process may open {hard if hard >= 0 else 'any number of'} files")


def address() -> Findings:
    """Compare the address that people are given with what the server answers for."""
    url = urlsplit(settings.WFDASH_URL)
    host, hosts = url.hostname or "", settings.ALLOWED_HOSTS
    answered = any(one in {"*", host} or (one.startswith(".") and f".{host}".endswith(one)) for one in hosts)
    if not answered:
        yield problem(
            "address",
            f"links lead to {settings.WFDASH_URL}, and WFDASH_HOSTS is {', '.join(hosts)}",
            why="Who follows a link of a mail gets an error.",
            remedy=f"Add {host} to WFDASH_HOSTS, or correct WFDASH_URL.",
        )
    elif url.scheme == "https" and not settings.WFDASH_HTTPS:
        yield advice(
            "address",
            f"{settings.WFDASH_URL} is reached by HTTPS, and WFDASH_HTTPS is not set",
            why="Cookies are sent over plain HTTP too, and browsers are not asked to stay with HTTPS.",
            remedy="Set WFDASH_HTTPS=1 once the proxy sets X-Forwarded-Proto.",
        )
    else:
        yield ok("address", f"{settings.WFDASH_URL}, answers for {', '.join(hosts)}")
    if settings.WFDASH_HTTPS and not settings.WFDASH_PROXIES:
        yield advice(
            "address",
            "WFDASH_PROXIES is empty behind HTTPS",
            why="The address of no client is known: failed sign-ins count by name and in all, the audit has none.",
            remedy="Set WFDASH_PROXIES to the addresses of your own proxies.",
        )
    origin = f"{url.scheme}://{url.netloc}"
    if settings.WFDASH_HTTPS and origin not in settings.CSRF_TRUSTED_ORIGINS:
        yield advice(
            "address",
            f"WFDASH_ORIGINS does not list {origin}",
            why="Where the proxy changes the host name, forms and sockets of pages are refused.",
            remedy=f"Set WFDASH_ORIGINS={origin}",
        )


def configuration() -> Findings:
    """Let wfdash's own system checks speak; and say what leaves this installation."""
    found = [one for one in run_checks(tags=["wfdash"], include_deployment_checks=True) if one.id not in SAID]
    for one in found:
        make = problem if one.level >= ERROR else advice
        if one.level >= WARNING:
            yield make("settings", str(one.msg), why=f"See {one.id} of 'wfdash manage check'.", remedy=one.hint or "")
    sends = {
        "mail": settings.WFDASH_MAIL,
        "chat": settings.WFDASH_APPRISE,
        "Slack": settings.WFDASH_SLACK_TOKEN,
        "traces": settings.WFDASH_OTEL,
    }
    sends |= {"errors to WFDASH_ON_ERROR": settings.WFDASH_ON_ERROR}
    yield ok(
        "settings", f"configured to send: {', '.join(name for name, value in sends.items() if value) or 'nothing'}"
    )
    if settings.DEBUG and not is_loopback(urlsplit(settings.WFDASH_URL).hostname or ""):
        yield problem(
            "settings",
            "WFDASH_DEBUG is 1",
            why="Error pages show settings and code.",
            remedy="Remove WFDASH_DEBUG.",
        )


def slack() -> Findings:
    """Ask Slack whether it takes the tokens, and of which workspace they are."""
    if not settings.WFDASH_SLACK_TOKEN:
        return
    try:
        team, app = call("auth_test")["team_id"], settings.WFDASH_SLACK_APP_TOKEN
        words = "" if team == settings.WFDASH_SLACK_TEAM else f"WFDASH_SLACK_TEAM is not {team}"
        if app:
            call("apps_connections_open", app_token=app)
        elif not settings.WFDASH_SLACK_SECRET:
            words = "neither WFDASH_SLACK_APP_TOKEN nor WFDASH_SLACK_SECRET is set"
    except (ImportError, OSError, Undeliverable) as error:
        words = str(error)
    why, remedy = (
        "No one gets messages in Slack, or their buttons do nothing.",
        "pip install wfdash[slack]; docs/slack.md",
    )
    yield problem("slack", words, why=why, remedy=remedy) if words else ok("slack", f"the workspace {team}")


SAID = {"wfdash.W008"}
"""System checks that another examination makes more precisely."""
EXAMINATIONS: tuple[Examine, ...] = (
    versions,
    variables,
    keys,
    data_directory,
    open_files,
    address,
    configuration,
    slack,
)


def settings_name_postgres() -> bool:
    """Return whether runs are on PostgreSQL."""
    from checkpoints.database.alias import connection

    return connection().vendor == "postgresql"


def file_system_of(folder: Path, mounts: Path) -> str:
    """Return the kind of the file system that holds a folder, as the kernel calls it; empty where it does not say."""
    if not mounts.exists():
        return ""
    table = [line.split()[1:3] for line in mounts.read_text().splitlines()]
    within = [(len(at), kind) for at, kind in table if folder.resolve().is_relative_to(at.replace("\\040", " "))]
    return max(within)[1] if within else ""


def _short(secret: str) -> str:
    """Return what shows whether two secrets are the same. Slow to make, as a guess at the secret would be."""
    return fingerprint(secret, SALT).rpartition("$")[2][:8]
