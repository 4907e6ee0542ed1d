"""Calls of the HTTP API as commands to copy: curl, and Python's own library, which needs nothing installed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pprint import pformat
from typing import Any

from django.http import HttpRequest

from checkpoints.records import Json, frozen
from wfdash.domain.labels import escaped
from wfdash.values.schemas.secrets import HIDDEN

MAX_BODY_CHARACTERS = 20_000
"""Characters of a body that is shown in a command."""
SECRET = "{secret}"  # noqa: S105


@frozen
class Auth:
    """How a program authenticates: an environment variable, what to put there, and the headers made of it."""

    variable: str
    words: str
    headers: Mapping[str, str]


@frozen
class Commands:
    """One call of the API. ``curl`` and ``python`` are empty where its body is too large to be shown."""

    name: str
    """The ids of its elements begin with it."""
    title: str
    auth: Auth
    curl: str
    python: str
    hides: bool = False
    """Whether a secret was left out and has to be put in."""


def auth_of() -> Auth:
    """Return how programs authenticate here. The only place that knows."""
    return Auth(
        variable="WFDASH_TOKEN",
        words="a token that may do this. Make one under Settings, Tokens",
        headers={"Authorization": f"Bearer {SECRET}"},
    )


def commands(
    request: HttpRequest, name: str, title: str, path: str, body: Mapping[str, Json] | None = None
) -> Commands:
    """Return the commands of a call: a POST if there is a ``body``, in which secrets become placeholders."""
    auth, url = auth_of(), request.build_absolute_uri(path)
    named = _with_placeholders(body)
    fits = len(json.dumps(named)) <= MAX_BODY_CHARACTERS
    return Commands(
        name=name,
        title=title,
        auth=auth,
        curl=_as_curl(url, auth, named) if fits else "",
        python=_as_python(url, auth, named) if fits else "",
        hides=named != body,
    )


def _as_curl(url: str, auth: Auth, body: Any) -> str:
    headers = [
        f'-H "{name}: {value.replace(SECRET, f"${auth.variable}")}"' for name, value in _headers(auth, body).items()
    ]
    lines = [f"curl --fail-with-body {shlex.quote(url)}", *headers]
    if body is None:
        return " \\\n  ".join(lines)
    # A quoted here-document: nothing in it is expanded, and no line of JSON is its end.
    document = escaped(json.dumps(body, indent=2, ensure_ascii=False))
    return " \\\n  ".join([*lines, "--data-binary @- <<'JSON'"]) + f"\n{document}\nJSON"


def _as_python(url: str, auth: Auth, body: Any) -> str:
    pairs = _headers(auth, body).items()
    headers = "".join(f"        {json.dumps(name)}: {_formatted(value, auth)},\n" for name, value in pairs)
    given = "" if body is None else f"body = {pformat(body, width=80, sort_dicts=False)}\n"
    needed = "" if body is None else "import json\n"
    data = "" if body is None else "    data=json.dumps(body).encode(),\n"
    return (
        f"{needed}import os\nimport urllib.error\nimport urllib.request\n\n"
        f"{given}request = urllib.request.Request(\n"
        f"    {json.dumps(url)},\n{data}    headers={{\n{headers}    }},\n)\n"
        "try:\n    with urllib.request.urlopen(request) as response:\n        print(response.read().decode())\n"
        "except urllib.error.HTTPError as error:\n    raise SystemExit(error.read().decode())\n"
    )


def _headers(auth: Auth, body: Any) -> dict[str, str]:
    return {**auth.headers} if body is None else {**auth.headers, "Content-Type": "application/json"}


def _formatted(value: str, auth: Auth) -> str:
    """Return a header's value as a Python expression."""
    parts = [json.dumps(part) for part in value.split(SECRET)]
    return f' + os.environ["{auth.variable}"] + '.join(parts)


def _with_placeholders(value: Any) -> Any:
    """Return the value in which each hidden secret is the name of its field in angle brackets."""
    if isinstance(value, Mapping):
        return {name: f"<{name}>" if part == HIDDEN else _with_placeholders(part) for name, part in value.items()}
    return [_with_placeholders(part) for part in value] if isinstance(value, list) else value
