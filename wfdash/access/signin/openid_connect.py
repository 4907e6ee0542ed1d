"""The conversation with an OpenID Connect provider: where to send the browser, and what its return proves.

django-allauth keeps the state, makes the PKCE challenge and exchanges the code. What it leaves out is checked here: the
nonce, the ID token's signature, and that both answers are about the same person. Import this only where a provider is
set: the models of allauth are loaded with it.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import jwt
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.urls import reverse
from requests import RequestException

from wfdash.access.signin.backend import Slots
from wfdash.access.signin.identities import Arrival, identity_of
from wfdash.domain.errors import BadToken, NotAllowed, ProviderUnavailable, SignInFailed
from wfdash.installation.provider import Provider

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that only the provider can make. Not HS256: everyone who has the client's secret could."""
CLOCK_SECONDS = 60
"""How far the provider's clock may be from this one."""
DISCOVERY_SECONDS = 600
"""How long what the provider says of itself is kept."""
KEYS_SECONDS, KEYS_PAUSE = 600, 30
"""How long the provider's keys are kept for access tokens, and how long no one asks for them again, whatever key such
a token names.
"""
MAX_REPLY, MAX_ACCESS_TOKEN = 512_000, 16_000
"""Bytes of what the provider says, and characters of an access token."""
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
MAX_CODE_CHARACTERS = 4096
"""Characters of a code or state; longer ones are no provider's."""

slots = Slots(working=2, waiting=1, seconds=10.0)
"""How many threads may wait for the provider at a time, so that a slow one does not keep pages from being served."""


def begin(request: HttpRequest, provider: Provider, target: str, *, connects: str = "") -> str:
    """Return the address at the provider to send the browser to. What it must bring back is kept in the session.

    ``ProviderUnavailable``, ``Busy``.
    """
    conversation, nonce = _Conversation(request, provider), secrets.token_urlsafe(24)
    data = {"nonce": nonce, "connects": connects}
    scopes, params = list(provider.scopes), {"nonce": nonce}
    with slots.take(), _errors_of(provider):
        flow = conversation.get_provider()
        answer = flow.redirect(request, "login", next_url=target, data=data, scope=scopes, auth_params=params)
        endpoint = str(conversation.openid_config["authorization_endpoint"])
    address = str(answer.url)
    # allauth begins the query, also where the provider's address has one already.
    return address.replace(f"{endpoint}?", f"{endpoint}&", 1) if "?" in endpoint else address


def finish(request: HttpRequest, provider: Provider) -> Arrival:
    """Return who came back. The state counts once, in the session that it was made for.

    ``SignInFailed``, ``NotAllowed`` (they, or the provider, refused), ``ProviderUnavailable``, ``Busy``.
    """
    error, code = request.GET.get("error", ""), request.GET.get("code", "")
    if error == "access_denied":
        raise NotAllowed(f"{provider.name} did not let you in, or you cancelled there")
    if error or not code or len(code) > MAX_CODE_CHARACTERS:
        said = f"{error[:80]}: {request.GET.get('error_description', '')[:200]}" if error else "no code"
        cause = " ".join(said.split())
        raise SignInFailed(f"{provider.name} refused this sign-in", cause=cause)
    conversation = _Conversation(request, provider)
    with slots.take(), _errors_of(provider):
        state = _state(request, conversation.get_provider())
        answer = conversation.exchange(request, state)
        claims = conversation.claims(answer, nonce=str(state["data"]["nonce"]))
        identity = identity_of(
            provider.issuer,
            claims,
            name_claim=provider.name_claim,
            groups_claim=provider.groups_claim,
            trusts_email=provider.trusts_email,
        )
    return Arrival(identity=identity, target=str(state.get("next", "")), connects=str(state["data"]["connects"]))


def access_claims(provider: Provider, token: str, audience: str) -> Mapping[str, Any]:
    """Return what an access token (RFC 9068) claims that the provider has made for this audience, and not for another.

    ``BadToken`` says what is wrong with it; ``ProviderUnavailable``, ``Busy``.
    """
    try:
        with _errors_of(provider):
            if len(token) > MAX_ACCESS_TOKEN:
                raise ValueError("it is too long")
            header = jwt.get_unverified_header(token)
            if str(header.get("typ")).lower().removeprefix("application/") != "at+jwt":
                raise ValueError("its type is not at+jwt")
            return _Conversation(HttpRequest(), provider).verified(token, audience, kept=True)
    except SignInFailed as error:
        words = f"This is no access token of {provider.name} for {audience}: {str(error.__cause__)[:200]}"
        raise BadToken(f"{words}. Sign in there again") from error


class _Conversation(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """allauth's adapter for the one provider of the settings."""

    def __init__(self, request: HttpRequest, provider: Provider) -> None:
        self.provider = provider
        self.app = SocialApp(
            provider="openid_connect",
            provider_id=provider.issuer,
            name=provider.name,
            client_id=provider.client_id,
            secret=provider.client_secret,
            settings={"server_url": discovery_url(provider.issuer), "oauth_pkce_enabled": True},
        )
        super().__init__(request, provider.issuer)

    def get_provider(self) -> _Flow:
        """Return the provider of the settings; allauth would look for one in its tables."""
        return _Flow(self.request, app=self.app, adapter=self)

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        """Return the redirect URI: the callback at the host by which the browser reaches this server."""
        return request.build_absolute_uri(reverse("wfdash:sign-in-callback"))

    @cached_property
    def openid_config(self) -> dict[str, Any]:
        """What the provider says of itself, kept for ten minutes."""
        key = f"wfdash.access.signin.discovery.{sha256(self.provider.issuer.encode()).hexdigest()}"
        config: dict[str, Any] | None = cache.get(key)
        if config is None:
            config = checked_discovery(self.fetch(discovery_url(self.provider.issuer)), self.provider.issuer)
            cache.set(key, config, DISCOVERY_SECONDS)
        return config

    def fetch(self, url: str, **options: Any) -> Any:
        """Return the JSON at an address of the provider."""
        with get_adapter().get_requests_session() as session:
            answer = session.get(url, stream=True, **options)
            answer.raise_for_status()
            body = b""
            for piece in answer.iter_content(MAX_REPLY):
                body += piece
                if len(body) > MAX_REPLY:
                    raise RequestException(f"more than {MAX_REPLY} bytes")
            return json.loads(body)

    def exchange(self, request: HttpRequest, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the provider's answer to the code, which counts only with the verifier of this state."""
        client = self.get_client(request, self.app)
        answer = self.get_access_token_data(request, self.app, client, pkce_code_verifier=state["pkce_code_verifier"])
        if not isinstance(answer, dict):
            raise OAuth2Error("the token endpoint answers with no object")
        return answer

    def claims(self, answer: Mapping[str, Any], *, nonce: str) -> Mapping[str, Any]:
        """Return what the ID token claims, and beside it what the userinfo endpoint adds about the same person."""
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise OAuth2Error("there is no ID token")
        claims = self.verified(token, self.provider.client_id)
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise OAuth2Error("the nonce is another's")
        if claims.get("azp", self.provider.client_id) != self.provider.client_id:
            raise OAuth2Error("the ID token was issued for another client")
        return {**self._userinfo(str(answer.get("access_token", "")), str(claims["sub"])), **claims}

    def verified(self, token: str, audience: str, *, kept: bool = False) -> dict[str, Any]:
        """Return what a token claims that the provider has signed for this audience. ``kept``: with the keys that are
        kept of it.
        """
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise OAuth2Error(f"it is signed by {algorithm}, which is not accepted")
        fitting = self._kept_keys(header) if kept else self._keys(header)
        if not fitting:
            raise OAuth2Error("it is signed by a key that the provider does not list")
        claims: dict[str, Any] = jwt.decode(
            token,
            key=jwt.PyJWK(fitting[0], algorithm),
            algorithms=ALGORITHMS,
            audience=audience,
            issuer=self.provider.issuer,
            leeway=CLOCK_SECONDS,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
        return claims

    def _keys(self, header: Mapping[str, Any], keys: Any = None) -> list[Any]:
        keys = self.fetch(self.openid_config["jwks_uri"])["keys"] if keys is None else keys
        return [key for key in keys if _fits(key, header)]

    def _kept_keys(self, header: Mapping[str, Any]) -> list[Any]:
        where = f"wfdash.access.signin.keys.{sha256(self.provider.issuer.encode()).hexdigest()}"
        keys = cache.get(where)
        fitting = self._keys(header, keys or [])
        if not fitting and cache.add(f"{where}.asked", True, KEYS_PAUSE):
            with slots.take():
                keys = self.fetch(self.openid_config["jwks_uri"])["keys"]
            cache.set(where, keys, KEYS_SECONDS)
            fitting = self._keys(header, keys)
        elif keys is None:
            raise ProviderUnavailable(f"The keys of {self.provider.name} are not known yet. Try again in a moment")
        return fitting

    def _userinfo(self, access_token: str, subject: str) -> Mapping[str, Any]:
        url = self.openid_config.get("userinfo_endpoint")
        if not url or not access_token:
            return {}
        found = self.fetch(url, headers={"Authorization": f"Bearer {access_token}"})
        if not isinstance(found, dict) or found.get("sub") != subject:
            raise OAuth2Error("the userinfo endpoint answers about someone else")
        return found


class _Flow(OpenIDConnectProvider):  # type: ignore[misc]
    """allauth's provider, in a conversation that has begun."""

    def __init__(self, request: HttpRequest, *, app: SocialApp, adapter: _Conversation) -> None:
        super().__init__(request, app=app)
        self.adapter = adapter

    def get_oauth2_adapter(self, request: HttpRequest) -> _Conversation:
        """Return the adapter of this conversation."""
        return self.adapter


@contextmanager
def _errors_of(provider: Provider) -> Iterator[None]:
    """Turn what a conversation may raise into the dashboard's errors."""
    try:
        yield
    except RequestException as error:
        status = f" ({error.response.status_code})" if error.response is not None else ""
        words = f"{provider.name} does not answer as it should{status}. Try again in a moment"
        raise ProviderUnavailable(words, cause=_brief(error)) from error
    except (jwt.PyJWTError, OAuth2Error, LookupError, TypeError, ValueError, AttributeError) as error:
        raise SignInFailed(f"What {provider.name} answered could not be verified", cause=_brief(error)) from error


def discovery_url(issuer: str) -> str:
    """Return the address where an issuer describes itself."""
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration"


def checked_discovery(config: Any, issuer: str) -> dict[str, Any]:
    """Return what a provider says of itself; ``OAuth2Error`` where it is another's, incomplete, or less safe."""
    if not isinstance(config, dict) or config.get("issuer") != issuer:
        said = config.get("issuer") if isinstance(config, dict) else None
        raise OAuth2Error(f"the provider calls itself {said!r}, WFDASH_OIDC_ISSUER says {issuer!r}")
    allowed = {"https", urlsplit(issuer).scheme}
    for name in (*ENDPOINTS, "userinfo_endpoint"):
        url = config.get(name)
        if url is None and name not in ENDPOINTS:
            continue
        if not isinstance(url, str) or urlsplit(url).scheme not in allowed:
            raise OAuth2Error(f"the provider names no safe {name}")
    return config


def _state(request: HttpRequest, flow: _Flow) -> Mapping[str, Any]:
    given = request.GET.get("state", "")
    try:
        if not given or len(given) > MAX_CODE_CHARACTERS:
            raise PermissionDenied
        state: Mapping[str, Any] = flow.unstash_redirect_state(request, given)
    except PermissionDenied:
        words = "This sign-in was started in another browser, took more than ten minutes, or was finished already"
        raise SignInFailed(words, cause="unknown state") from None
    return state


def _fits(key: Mapping[str, Any], header: Mapping[str, Any]) -> bool:
    same_id = "kid" not in header or key.get("kid") == header["kid"]
    return bool(same_id and key.get("use", "sig") == "sig" and key.get("alg", header["alg"]) == header["alg"])


def _brief(error: BaseException) -> str:
    """Return an error in one line for the log. Of an answer to the code only its error: the rest could be a token."""
    text = str(error)
    if text.startswith("Error retrieving access token"):
        refused = re.search(r'"error"\s*:\s*"([\w.-]{1,80})"', text)
        text = f"the token endpoint refused the code: {refused[1] if refused else 'without a reason'}"
    return f"{type(error).__name__}: {' '.join(text.split())[:300]}"
