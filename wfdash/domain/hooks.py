"""What incoming webhooks are: how their senders sign, and how their JSON becomes a message. Pure."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from secrets import token_bytes
from typing import Any

from checkpoints.records import frozen
from wfdash.domain.json_patch import parts_of

# How senders of webhooks prove who they are: one rule per scheme. Pure.

TOLERANCE = 300
"""Seconds by which a signed time may differ from ours."""
PREFIX = "whsec_"
SECRET_BYTES = 32


class Unsigned(Exception):
    """The delivery does not prove that it comes from who has the secret."""


@frozen
class Received:
    """A delivery as it came. Names of headers are in lower case."""

    headers: Mapping[str, str]
    body: bytes


@frozen
class Scheme:
    """A way to sign. ``header``: where the signature is by default, empty if that cannot be changed."""

    name: str
    label: str
    header: str
    check: Callable[[Received, Sequence[str], str, float], str]


def new_secret() -> str:
    """Return a new secret of Standard Webhooks: ``whsec_`` and base64."""
    return PREFIX + base64.b64encode(token_bytes(SECRET_BYTES)).decode()


def check_signature(scheme: str, received: Received, secrets: Sequence[str], header: str, now: float) -> str:
    """Return the id that the sender has signed, empty if it signs none. ``Unsigned``."""
    return SCHEMES[scheme].check(received, secrets, (header or SCHEMES[scheme].header).lower(), now)


def _standard(received: Received, secrets: Sequence[str], header: str, now: float) -> str:
    message, sent = _header(received, "webhook-id"), _header(received, "webhook-timestamp")
    _refuse_old(sent, now)
    signed = f"{message}.{sent}.".encode() + received.body
    given = [one.removeprefix("v1,") for one in _header(received, "webhook-signature").split() if one.startswith("v1,")]
    _refuse_unless(any(_same(base64.b64encode(_mac(_key(one), signed)).decode(), given) for one in secrets))
    return message


def _github(received: Received, secrets: Sequence[str], header: str, now: float) -> str:
    given = _header(received, header).removeprefix("sha256=")
    _refuse_unless(any(_same(_mac(one.encode(), received.body).hex(), [given]) for one in secrets))
    return ""


def _timestamped(received: Received, secrets: Sequence[str], header: str, now: float) -> str:
    parts = [part.strip().partition("=") for part in _header(received, header).split(",")]
    sent = next((value for name, _, value in parts if name == "t"), "")
    _refuse_old(sent, now)
    given = [value for name, _, value in parts if name == "v1"]
    signed = f"{sent}.".encode() + received.body
    _refuse_unless(any(_same(_mac(one.encode(), signed).hex(), given) for one in secrets))
    return ""


def _token(received: Received, secrets: Sequence[str], header: str, now: float) -> str:
    given = _header(received, header).removeprefix("Bearer ")
    _refuse_unless(any(_same(one, [given]) for one in secrets))
    return ""


SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme(name="standard", label="Standard Webhooks", header="", check=_standard),
        Scheme(name="github", label="GitHub, and others with an HMAC", header="X-Hub-Signature-256", check=_github),
        Scheme(name="timestamped", label="Stripe, with a time", header="Stripe-Signature", check=_timestamped),
        Scheme(name="token", label="A secret in a header", header="X-Webhook-Token", check=_token),
    )
}


def secret_problem(scheme: str, secret: str) -> str:
    """Return why a secret cannot be used with a scheme, empty if it can."""
    if not 16 <= len(secret) <= 200 or not secret.isascii() or not secret.isprintable() or " " in secret:
        return "A secret has 16 to 200 ASCII characters without spaces"
    try:
        return "" if scheme != "standard" or len(_key(secret)) >= 16 else "A secret has at least 16 bytes"
    except Unsigned:
        return "A secret of Standard Webhooks is whsec_ followed by base64"


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise Unsigned("The secret is not base64") from None


def _header(received: Received, name: str) -> str:
    value = received.headers.get(name, "")
    if not value:
        raise Unsigned(f"The header {name} is missing")
    return value


def _refuse_old(sent: str, now: float) -> None:
    if not (sent.isascii() and sent.isdigit() and len(sent) < 15):
        raise Unsigned("The signed time is missing")
    if abs(now - int(sent)) > TOLERANCE:
        raise Unsigned("The signed time is more than 5 minutes from now")


def _refuse_unless(right: bool) -> None:
    if not right:
        raise Unsigned("The signature does not match the secret")


def _mac(key: bytes, signed: bytes) -> bytes:
    return hmac.new(key, signed, sha256).digest()


def _same(wanted: str, given: Sequence[str]) -> bool:
    return any(hmac.compare_digest(wanted.encode(), one.encode("utf-8", "replace")) for one in given)


# From another system's JSON to a workflow's message: a template with JSON Pointers. Pure.

MAX_TEMPLATE_DEPTH = 20
MISSING = object()


def mapped(template: Any, delivery: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return the message, and a problem per value that the delivery does not have: ``{"loc", "msg"}``."""
    problems: list[dict[str, Any]] = []
    return _mapped(template, delivery, [], problems), problems


def template_problems(template: Any) -> list[str]:
    """Return what is wrong with a template, whatever is delivered."""
    found: list[str] = []
    _look(template, found, 0)
    return found


def value_at(delivery: Any, pointer: str) -> Any:
    """Return the value at a pointer, ``MISSING`` if there is none."""
    for part in parts_of(pointer):
        if isinstance(delivery, dict) and part in delivery:
            delivery = delivery[part]
        elif isinstance(delivery, list) and part.isascii() and part.isdigit() and int(part[:9]) < len(delivery):
            delivery = delivery[int(part[:9])]
        else:
            return MISSING
    return delivery


def pointer_problem(pointer: str) -> str:
    """Return why a text is no pointer, empty if it is one."""
    try:
        parts_of(pointer)
    except ValueError as error:
        return str(error)
    return ""


def suggested(schema: Any) -> Any:
    """Return a template for a workflow's input: each field from one of the same name, or its default."""
    names = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(names, dict):
        return {"$": ""}
    found: dict[str, dict[str, Any]] = {}
    for name, field in names.items():
        found[name] = {"$": f"/{name.replace('~', '~0').replace('/', '~1')}"}
        if isinstance(field, dict) and "default" in field:
            found[name]["default"] = field["default"]
    return found


def _mapped(template: Any, delivery: Any, place: list[Any], problems: list[dict[str, Any]]) -> Any:
    if isinstance(template, list):
        return [_mapped(one, delivery, [*place, n], problems) for n, one in enumerate(template)]
    if not isinstance(template, dict):
        return template
    if "$" not in template:
        return {name: _mapped(one, delivery, [*place, name], problems) for name, one in template.items()}
    found = value_at(delivery, str(template["$"]))
    if found is MISSING and "default" not in template:
        problems.append({"loc": place, "msg": f"The delivery has nothing at {template['$']}"})
        return None
    return template["default"] if found is MISSING else found


def _look(template: Any, found: list[str], level: int) -> None:
    if level > MAX_TEMPLATE_DEPTH:
        found.append(f"At most {MAX_TEMPLATE_DEPTH} levels")
    elif isinstance(template, list):
        for one in template:
            _look(one, found, level + 1)
    elif isinstance(template, dict) and "$" in template:
        if template.keys() - {"$", "default"}:
            found.append('Beside "$" there can only be "default"')
        text = template["$"]
        found.extend([why] if (why := pointer_problem(text) if isinstance(text, str) else '"$" is a text') else [])
    elif isinstance(template, dict):
        for one in template.values():
            _look(one, found, level + 1)
