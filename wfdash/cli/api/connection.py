"""The client of a command: one that talks to a server, or one that serves itself from a data directory."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from wfdash.installation import location

if TYPE_CHECKING:
    from wfdash.client import Client

HOME = "http://wfdash.local"


class NoConnection(Exception):
    """There is neither a server nor data; the message says what to give."""


def connect(options: argparse.Namespace) -> Client:
    """Return the client that the options and the environment name."""
    from wfdash.client import Client

    if url := remote_address(options):
        return Client(url, options.token, patience=5.0)
    return _local(options)


def remote_address(options: argparse.Namespace) -> str:
    """Return the server's address, empty where the data directory is meant.

    ``WFDASH_URL`` alone is no reason to leave it: servers know their own address by that name, too.
    """
    if options.url:
        return str(options.url)
    here = options.data is not None or options.person is not None
    token = options.token or os.environ.get("WFDASH_TOKEN")
    return os.environ.get("WFDASH_URL", "") if token and not here else ""


def _local(options: argparse.Namespace) -> Client:
    from wfdash.client import Client

    if missing := location.missing_data(os.environ):
        raise NoConnection(f"{missing}, or --url ADDRESS for a server")
    from wfdash.cli.api.local import LocalTransport, NoPerson, setup
    from wfdash.cli.processes import PRIVATE_UMASK

    os.umask(PRIVATE_UMASK)
    try:
        return Client(HOME, "", transport=LocalTransport(setup(options.person)), patience=0.0)
    except NoPerson as error:
        raise NoConnection(str(error)) from error
