"""Tokens by which programs sign in: ``Authorization: Bearer wfd_ID_SECRET``. Of the secret only a hash is stored."""

from __future__ import annotations

import hmac
import re
import secrets
import string
from base64 import urlsafe_b64encode
from datetime import datetime, timedelta
from hashlib import sha256

from django.db.models import OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac

from checkpoints.database.compiled import Placeholder, compiled_rows
from checkpoints.database.storage import write
from checkpoints.models import Token
from checkpoints.records import frozen
from wfdash.access.directory import is_service
from wfdash.access.signin import attempt_limits, second_factor
from wfdash.access.signin.attempt_limits import AttemptLimit
from wfdash.access.signin.identities import identities
from wfdash.access.viewer import (
    EVERY,
    THROUGH_AGENTS,
    RightsRows,
    TokenScope,
    Viewer,
    maker_of,
    rights_of,
    rights_rows,
    viewer_for,
    watcher_for,
)
from wfdash.domain.errors import BadToken, NotAllowed, TooManyTries
from wfdash.installation.provider import Provider

FORM = re.compile(r"wfd_([a-z0-9]{8})_([A-Za-z0-9_-]{43})")
ALPHABET = string.ascii_lowercase + string.digits
MOST_BAD = 100
"""Bad tokens per five minutes from one address. A secret has 256 bits: this saves work, it stops no guessing."""
NOTED_EVERY = timedelta(minutes=1)
"""How often the time of last use is written at most."""
UNKNOWN = "This token does not exist, or is incomplete. Make one under Settings, Tokens"
SCOPES = ("see", "inspect", "start", "operate")
"""The scopes of an access token that agents ask for: beside them there is ``answer-through-agents``."""
NO_SCOPE = "This access token has no scope of wfdash: ask {provider} for " + " ".join(SCOPES)
STRANGER = "{provider} knows you, but no account of a person here is connected with you. Sign in to wfdash once"
NO_FACTOR = "Everyone needs a second factor here. {name} has to set one up before their tokens work"


@frozen
class NewSecret:
    """A new token as its owner gets it, once, and what is stored of it."""

    id: str
    text: str
    secret_hash: str


def new_secret(once: str = "") -> NewSecret:
    """Return the id and secret of a new token. ``once``: a text that gives the same ones again, on this installation
    alone: a form that is sent twice shows the one token that it made.
    """
    digest = salted_hmac("wfdash.access.signin.tokens", once or secrets.token_urlsafe(32), algorithm="sha512").digest()
    public = "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[32:40])
    secret = urlsafe_b64encode(digest[:32]).decode().rstrip("=")
    return NewSecret(id=public, text=f"wfd_{public}_{secret}", secret_hash=hash_of(secret))


def bearer_in(header: str) -> str | None:
    """Return the token of an ``Authorization`` header; None where it has none (another scheme, or no header)."""
    scheme, _, text = header.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def use_token(text: str, *, address: str = "") -> Token:
    """Return the token with this text, with its owner, and note its use (one query, and a write once a minute).

    ``address``: where it comes from, to limit bad ones. ``BadToken`` says what is wrong with it, but only to those who
    have the whole of it; ``TooManyTries``.
    """
    token = _find(text)
    if token is None:
        _count_bad(address)
        raise BadToken(UNKNOWN)
    now = timezone.now()
    if problem := _problem_of(token, now):
        raise BadToken(problem)
    _note_use(token, now)
    return token


def use_access_token(provider: Provider, text: str, audience: str, *, address: str = "") -> Token:
    """Return what an access token gives that the provider has made for this audience: no row, but what a token of its
    scopes would be that the person made who is connected with its subject.

    ``BadToken``, ``TooManyTries``, ``NotAllowed`` (of no person here, or without a scope), ``ProviderUnavailable``.
    """
    from wfdash.access.signin.openid_connect import access_claims

    try:
        claims = access_claims(provider, text, audience)
    except BadToken:
        _count_bad(address)
        raise
    rows = identities().select_related("user").annotate(rights_text=rights_of(OuterRef("user")))
    found = rows.filter(provider=provider.issuer, uid=str(claims["sub"])).first()
    if found is None or is_service(found.user):
        raise NotAllowed(STRANGER.format(provider=provider.name))
    scopes = {*str(claims.get("scope", "")).split()} & {*SCOPES, THROUGH_AGENTS}
    if not scopes:
        raise NotAllowed(NO_SCOPE.format(provider=provider.name), scope=" ".join(SCOPES))
    rights = sorted(scopes | ({"answer"} if THROUGH_AGENTS in scopes else set()))
    client = "".join(filter(str.isprintable, str(claims.get("client_id", ""))))[:60]
    owned = {"owner": found.user, "created_by": found.user, "rights": rights, "workflows": [EVERY]}
    token = Token(name=f"OAuth {client}".strip(), **owned)
    if problem := _problem_of(token, timezone.now(), factor=provider.second_factor):
        raise NotAllowed(problem)
    vars(token)["rights_text"] = found.rights_text
    return token


def _count_bad(address: str) -> None:
    limits = [AttemptLimit(key=attempt_limits.key_of("token", address), most=MOST_BAD)]
    try:
        attempt_limits.check(limits)
        attempt_limits.charge(limits)
    except TooManyTries as error:
        wait = error.facts["retry_after"]
        raise TooManyTries(f"Too many bad tokens. Wait {wait} seconds.", retry_after=wait) from None


def scope_of(token: Token) -> TokenScope:
    """Return what a token may be used for."""
    return TokenScope(rights=frozenset(token.rights) | {"see"}, workflows=frozenset(token.workflows))


def viewer_of(token: Token) -> Viewer:
    """Return the program that acts with a token that ``use_token`` returned: its owner's rights, as far as its scopes
    go (no query; two for a delegate, one for a token that another person made).
    """
    made_by = token.created_by_id
    maker = maker_of(made_by) if made_by not in (None, token.owner_id) else None
    return viewer_for(token.owner, _rights_read_with(token)).with_token(token.name, scope_of(token), maker)


def watcher_of(token: Token) -> Viewer:
    """Return the same for sockets: enough to see, not to answer."""
    return watcher_for(token.owner, _rights_read_with(token)).with_token(token.name, scope_of(token))


def _rights_read_with(token: Token) -> RightsRows:
    return rights_rows(vars(token)["rights_text"])


def _find(text: str) -> Token | None:
    form = FORM.fullmatch(text)
    if form is None:
        return None
    token = _token_and_rights().first(id=form[1])
    # Compared also where there is none, so that the time does not tell which ids exist.
    matches = hmac.compare_digest(hash_of(form[2]), token.secret_hash if token else hash_of(""))
    return token if matches else None


@compiled_rows
def _token_and_rights() -> QuerySet[Token]:
    rows = Token.objects.select_related("owner").filter(pk=Placeholder("id", Token._meta.pk)).order_by()
    return rows.annotate(rights_text=rights_of(OuterRef("owner")))


def _problem_of(token: Token, now: datetime, *, factor: bool = True) -> str:
    if token.revoked is not None:
        return "This token was revoked"
    if token.expires is not None and token.expires <= now:
        return "This token has expired. Make a new one"
    if not token.owner.is_active:
        return f"The account {token.owner.get_username()} is deactivated"
    if factor and second_factor.is_required() and not (second_factor.is_on(token.owner) or is_service(token.owner)):
        return NO_FACTOR.format(name=token.owner.get_username())
    return ""


def _note_use(token: Token, now: datetime) -> None:
    if token.used is not None and token.used > now - NOTED_EVERY:
        return
    seldom = Q(used__isnull=True) | Q(used__lte=now - NOTED_EVERY)
    with write():
        Token.objects.filter(seldom, pk=token.pk).update(used=now)


def hash_of(secret: str) -> str:
    """Return what is stored of a secret that was made by chance."""
    return sha256(secret.encode()).hexdigest()
