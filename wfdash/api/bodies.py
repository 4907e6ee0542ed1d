"""Bodies of the API as JSON, read without guessing what a sender may have meant."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from django.http import HttpRequest
from ninja.parser import Parser

from wfdash.schemas.work import MOST_NODES, has_more_values

LONGEST_NAME = 80
MOST_VALUES = 4 * MOST_NODES
"""Values of a body: it may hold several messages."""


class BadBody(ValueError):
    """A body that is no JSON, or that says two things at once. Its text is for people."""


class StrictParser(Parser):
    """Reads JSON in which each field is given once and each number is one: other readers may take another of two."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the body's value. ``BadBody``."""
        if has_more_values(request.body, MOST_VALUES):
            raise BadBody(f"The body holds more than {MOST_VALUES:,} values: send large data as text, or in parts")
        try:
            return json.loads(request.body, object_pairs_hook=_once, parse_constant=_refuse, parse_int=_whole)
        except json.JSONDecodeError as error:
            raise BadBody(f"Invalid JSON at line {error.lineno}, column {error.colno}: {error.msg}") from error
        except UnicodeDecodeError as error:
            raise BadBody("Invalid JSON: send it as UTF-8") from error
        except RecursionError as error:
            raise BadBody("Invalid JSON: nested too deeply") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise BadBody(f"The field {twice[:LONGEST_NAME]!r} is given more than once")
    return found


def _refuse(name: str) -> Any:
    raise BadBody(f"{name} is no JSON number")


def _whole(digits: str) -> int:
    try:
        return int(digits)
    except ValueError as error:
        raise BadBody(f"A number has {len(digits)} digits: too many") from error
