"""Answers that a policy wants signed: what the person's passkey is to sign, and the receipt that it did."""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64encode
from typing import Any

from django.core import signing
from django.db.models import Max
from django.utils import timezone

from checkpoints.database.compiled import insert_if_free
from checkpoints.models import HumanRequest, Receipt, Reply
from checkpoints.models.user_model import User
from checkpoints.records import JsonObject
from wfdash.access.signin import second_factor
from wfdash.access.viewer import Viewer
from wfdash.domain.errors import NotAllowed, SignatureMissing, wrong
from wfdash.domain.receipts import PARTS, RECEIPT, challenge_of, flaw_of, key_name, signature_count
from wfdash.queries.timemachine import secrets_in
from wfdash.values.schemas.secrets import masked

BENCH = "bench"
"""Tests of authors have no passkeys."""
SALT = "wfdash.receipt"
SECONDS = 600
"""Time to sign, from when the browser was asked."""
MAX_SIGNED_CHARACTERS = 20_000
ELSEWHERE = "It is signed with a passkey: answer it on its page in the dashboard, signed in as yourself"
NO_PASSKEY = "You have no passkey to sign with"
SIGN = "Sign it with your passkey"
GIVEN = dict(zip(PARTS[1:], ("clientDataJSON", "authenticatorData", "signature"), strict=True))
"""What browsers call the parts of a receipt."""


def refuse_elsewhere(request: HumanRequest, via: str) -> None:
    """Refuse an answer that is to be signed at any door but the page, where alone a passkey can be asked."""
    if request.policy.get("sign") and via not in {"page", BENCH}:
        raise NotAllowed(ELSEWHERE)


def refuse_unsigned(reply: Reply) -> None:
    """Refuse to make a reply the answer that was to be signed and was not, whichever way it came."""
    if reply.via not in {BENCH, "deadline"} and not Receipt.objects.filter(pk=reply.pk).exists():
        raise NotAllowed(ELSEWHERE)


def sign_reply(viewer: Viewer, request: HumanRequest, reply: Reply, signed: tuple[str, str]) -> JsonObject | None:
    """Keep the receipt of a stored reply that is to be signed, inside its transaction, and return it; None on a bench.

    ``signed``: the host by which the browser reaches the dashboard, and what it gave, as JSON.
    ``SignatureMissing`` where it is missing or does not prove this very reply: with what is to be signed now.
    """
    if reply.via == BENCH:
        return None
    host, signature = signed
    statement = {
        "format": RECEIPT,
        "host": host,
        "workflow": request.workflow,
        "run": request.run_id,
        "request": request.pk,
        "card": reply.seen,
        "answer": masked(reply.value, secrets_in(request)),
        "reason": reply.reason,
        "stands": reply.stands,
        "meaning": request.policy.get("meaning", "approval"),
        "person": viewer.name,
        "for": reply.acting_for,
    }
    # Until the end: who removes a passkey waits, so that the removal's entry comes after the answer's.
    User.objects.select_for_update(no_key=True).get(pk=viewer.user.pk)
    keys = second_factor.allauth_passkeys().public_keys(viewer.user) if second_factor.takes_passkeys() else {}
    if not keys:
        raise _missing(NO_PASSKEY, None)
    try:
        asked, receipt = _read(signature, keys)
        receipt["statement"] = statement | {name: asked[name] for name in ("nonce", "counter", "at")}
        meant = asked["by"] == [viewer.user.pk, request.pk]
        flaw = flaw_of(receipt) if meant else "it was asked of someone else, or for another request"
    except signing.SignatureExpired:
        flaw = "it took too long"
    except (signing.BadSignature, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        flaw = "it is not by a passkey of yours" if signature else ""
    if signature and not flaw:
        if kept := _kept(viewer, reply, receipt):
            return kept
        flaw = "you signed another answer in the meantime, or the passkey was copied"
    words = f"Not signed: {flaw}. {SIGN} again" if flaw else SIGN
    raise _missing(words, _ask(viewer, request, statement, keys))


def _kept(viewer: Viewer, reply: Reply, receipt: JsonObject) -> JsonObject | None:
    """Return the receipt once it is stored, None if another reply has its number, or a copy of the key has signed."""
    key, signs, counter = key_name(receipt["public_key"]), signature_count(receipt), receipt["statement"]["counter"]
    last = Receipt.objects.filter(user=viewer.user, key=key).aggregate(last=Max("signs"))["last"] or 0
    if counter != _next_counter(viewer) or (signs <= last and last):
        return None
    known = {"user": viewer.user, "counter": counter, "key": key, "signs": signs}
    row = Receipt(id=reply.pk, request=reply.request_id, **known, body=receipt)
    return receipt if insert_if_free(row) else None


def _ask(viewer: Viewer, request: HumanRequest, statement: JsonObject, keys: dict[str, str]) -> dict[str, Any]:
    """Return what the browser needs to ask a passkey, and the token by which its answer is known again."""
    asked = {
        "nonce": secrets.token_urlsafe(24),
        "counter": _next_counter(viewer),
        "at": timezone.now().isoformat(timespec="seconds"),
    }
    challenge = challenge_of(statement | asked)
    return {
        "token": signing.dumps(asked | {"by": [viewer.user.pk, request.pk]}, salt=SALT),
        "meaning": statement["meaning"],
        "publicKey": {
            "challenge": urlsafe_b64encode(challenge).decode().rstrip("="),
            "rpId": statement["host"],
            "allowCredentials": [{"type": "public-key", "id": key} for key in keys],
            "userVerification": "required",
            "timeout": SECONDS * 1000,
        },
    }


def _read(signature: str, keys: dict[str, str]) -> tuple[JsonObject, JsonObject]:
    """Return what the browser was asked, and the parts of a receipt. Any of what ``sign_reply`` expects."""
    if len(signature) > MAX_SIGNED_CHARACTERS:
        raise ValueError("too long")
    given = json.loads(signature)
    answer, asked = given["answer"], signing.loads(given["token"], salt=SALT, max_age=SECONDS)
    parts = {name: answer["response"][theirs] for name, theirs in GIVEN.items()}
    return asked, {"public_key": keys[answer["id"]], **parts}


def _next_counter(viewer: Viewer) -> int:
    return (Receipt.objects.filter(user=viewer.user).aggregate(last=Max("counter"))["last"] or 0) + 1


def _missing(words: str, ask: dict[str, Any] | None) -> SignatureMissing:
    error = SignatureMissing([wrong("", words)])
    error.ask = ask
    return error
