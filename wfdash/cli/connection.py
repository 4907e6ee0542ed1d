"""The client of a command: of a server, or of a data directory, whose requests are answered in this process."""

from __future__ import annotations

import io
import logging
import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import httpx

from wfdash.cli.setup import PRIVATE_UMASK, shorten_failures
from wfdash.client import Client
from wfdash.installation import location

HOME = "http://wfdash.local"


class NoConnection(Exception):
    """There is neither a server nor data; the message says what to give."""


def connect(options: Namespace) -> Client:
    """Return the client that the options and the environment name."""
    if url := remote_address(options):
        return Client(url, options.token, patience=5.0)
    if missing := location.missing_data(os.environ):
        raise NoConnection(f"{missing}, or --url ADDRESS for a server")
    os.umask(PRIVATE_UMASK)
    return Client(HOME, "", transport=LocalTransport(person_to_act_as(options.person)), patience=0.0)


def remote_address(options: Namespace) -> str:
    """Return the server's address, empty where the data directory is meant.

    ``WFDASH_URL`` alone is no reason to leave it: servers know their own address by that name, too.
    """
    if options.url:
        return str(options.url)
    here = options.data is not None or options.person is not None
    token = options.token or os.environ.get("WFDASH_TOKEN")
    return os.environ.get("WFDASH_URL", "") if token and not here else ""


def person_to_act_as(name: str | None) -> Any:
    """Set Django up and return the named person, else the first administrator. ``NoConnection`` without any."""
    import django

    os.environ["WFDASH_EMBED"] = "0"
    for variable, value in location.noted_sources(location.data_dir(os.environ)).items():
        os.environ.setdefault(variable, value)
    django.setup()
    shorten_failures()
    from django.contrib.auth import get_user_model
    from django.db import DatabaseError

    from checkpoints.database.installation_key import refuse_other_keys

    model = get_user_model()
    active = model.objects.filter(is_active=True)
    chosen = active.filter(**{model.USERNAME_FIELD: name}) if name else active.filter(is_superuser=True).order_by("pk")
    try:
        refuse_other_keys(NoConnection)
        found = chosen.first()
    except DatabaseError as error:
        raise NoConnection(f"The database cannot be used: {error}. 'wfdash up' brings it up to date") from error
    if found is None:
        raise NoConnection(
            f"There is no active person named {name!r}" if name else "There is no administrator: use --as"
        )
    return found


class LocalTransport(httpx.BaseTransport):
    """Answers with Django's own handler, middleware included. The person is known, so neither token nor session is
    looked at.
    """

    def __init__(self, person: Any) -> None:
        from django.core.handlers.wsgi import WSGIHandler

        self._person, self._handler = person, WSGIHandler()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request."""
        from django.core.handlers.wsgi import WSGIRequest

        given: Any = WSGIRequest(environment(request))
        # What Django's own middleware looks at first; the tests of Django projects sign in the same way.
        given._cached_user = self._person
        given._dont_enforce_csrf_checks = True
        with quiet():
            response: Any = self._handler.get_response(given)
        try:
            content = response.getvalue()
        finally:
            response.close()
        headers = [(name, value) for name, value in response.items() if name.lower() != "content-encoding"]
        return httpx.Response(response.status_code, headers=headers, content=content, request=request)


@contextmanager
def quiet() -> Iterator[None]:
    """Log no refusal: it is the command's own answer. What breaks is logged."""
    log = logging.getLogger("django.request")
    level, broken = log.level, logging.ERROR
    log.setLevel(broken)
    try:
        yield
    finally:
        log.setLevel(level)


def environment(request: httpx.Request) -> dict[str, Any]:
    """Return a request as WSGI has it, with a host name that this installation answers for."""
    from django.conf import settings

    body = request.read()
    named = [host.lstrip(".") for host in settings.ALLOWED_HOSTS if host.strip("*.")]
    fields = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers.items()}
    fields.pop("HTTP_ACCEPT_ENCODING", None)
    return {
        **fields,
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote(request.url.path, encoding="iso-8859-1"),
        "QUERY_STRING": request.url.query.decode(),
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "SERVER_NAME": named[0] if named else "localhost",
        "SERVER_PORT": "443",
        "HTTP_HOST": named[0] if named else "localhost",
        "HTTP_X_FORWARDED_PROTO": "https",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.url_scheme": "https",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
    }
