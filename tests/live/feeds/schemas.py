"""What clients in tests hold every message against: the schemas that programs are given, and no field beyond them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator

from wfdash.web.api.document import EVENT, messages_document


def check_stream(path: str, message: Mapping[str, Any]) -> None:
    """Hold a message of an event stream against its schema; one without data has none."""
    if "data" in message:
        (known,) = (known for address, known in messages_document()["streams"].items() if _is(address, path))
        check(known.get(message["event"], known[EVENT]), message["data"])


def check_socket(path: str, message: Mapping[str, Any]) -> None:
    """Hold a message of a JSON socket against its schema."""
    (known,) = (known for address, known in messages_document()["sockets"].items() if _is(address, path))
    check(known[message["type"]], message)


def check(schema: Mapping[str, Any], message: Any) -> None:
    validator(schema["$ref"]).validate(message)


@lru_cache
def validator(reference: str) -> Draft202012Validator:
    known = messages_document()["$defs"]
    strict = {name: {"additionalProperties": False, **one} for name, one in known.items()}
    return Draft202012Validator({"$ref": reference, "$defs": strict})


def _is(address: str, path: str) -> bool:
    pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(address.partition("?")[0]))
    return re.fullmatch(pattern, path.partition("?")[0]) is not None
